package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// inbox is an engine that keeps what it was sent.
type inbox struct {
	mu     sync.Mutex
	body   map[string]any
	raw    string
	header http.Header
	status []int // of the next answers; 200 when there is none
}

func (b *inbox) handler(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.raw, b.body, b.header = string(raw), nil, r.Header.Clone()
	_ = json.Unmarshal(raw, &b.body)
	status := 200
	if len(b.status) > 0 {
		status, b.status = b.status[0], b.status[1:]
	}
	b.mu.Unlock()
	answers(status, chatAnswer)(w, r)
}

// as makes the endpoints of a kind, with an API key.
func (r *rig) as(kind fleet.Kind, apiKey string) {
	var all []fleet.Endpoint
	for _, s := range r.fleet.Status() {
		e := s.Endpoint
		e.APIKey = apiKey
		all = append(all, e)
	}
	r.fleet.Observe(route.Declared{Source: "test", Endpoints: all})
	for _, e := range all {
		r.fleet.Observe(route.Probed{
			Endpoint: e.Name, Report: fleet.Report{Healthy: true, Kind: kind, Models: []fleet.Model{{ID: "m"}}},
		})
	}
}

// keysOf are keys, each with its tenant.
func keysOf(keyAndTenant ...string) identity.Keys {
	keys := identity.Keys{}
	for i := 0; i < len(keyAndTenant); i += 2 {
		keys.Add(sha256.Sum256([]byte(keyAndTenant[i])), identity.Key{Tenant: keyAndTenant[i+1]})
	}
	return keys
}

func tenants() *identity.Tenants {
	return &identity.Tenants{
		Header: "X-Tenant-Id", SaltKey: []byte("0123456789abcdef"),
		Keys: keysOf("sk-blue", "blue", "sk-green", "green"),
	}
}

const tenantBody = `{"model":"m","messages":[{"role":"user","content":"What the river says to the sea, told at length and with care, please."}]}`

func TestTenantsAreApart(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{ByContent: true, Tenants: tenants()}, in.handler)
	ask := func(header ...string) string {
		t.Helper()
		res, body := r.post("/v1/chat/completions", tenantBody, header...)
		if res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		return res.Header.Get("X-Session-Id")
	}
	blue, byHeader, nobody := ask("Authorization", "Bearer sk-blue"), ask("X-Tenant-Id", "red"), ask()
	if blue == byHeader || blue == nobody || byHeader == nobody {
		t.Errorf("the same words of three tenants: %s, %s, %s", blue, byHeader, nobody)
	}
	if again := ask("X-Api-Key", "sk-blue", "X-Tenant-Id", "red"); again != blue {
		t.Errorf("the same words of the same tenant: %s and %s; the key counts before the header", blue, again)
	}
	if again := ask("Authorization", "Bearer sk-none"); again != nobody {
		t.Errorf("an unknown key is %s, want %s: nobody's", again, nobody)
	}
	if res, body := r.post("/v1/chat/completions", tenantBody,
		"X-Tenant-Id", strings.Repeat("x", 200)); res.StatusCode != 400 || !strings.Contains(body, "bad_tenant") {
		t.Errorf("a name too long: %d %s", res.StatusCode, body)
	}
}

func TestTenantsRequired(t *testing.T) {
	var in inbox
	ten := tenants()
	ten.Required = true
	r := newRig(t, proxy.Config{Tenants: ten}, in.handler)
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/models", "/v1/audio/speech"} {
		for _, key := range []string{"", "Bearer sk-none", "Basic sk-blue"} {
			res, body := r.post(path, tenantBody, "Authorization", key)
			if res.StatusCode != 401 || !strings.Contains(body, "authentication_error") ||
				res.Header.Get("Www-Authenticate") == "" {
				t.Errorf("%s with %q: %d %s", path, key, res.StatusCode, body)
			}
		}
	}
	if res, body := r.post("/v1/chat/completions", tenantBody,
		"Authorization", "bearer sk-blue"); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, _ := r.do("GET", "/readyz", ""); res.StatusCode != 200 {
		t.Errorf("readyz: %d", res.StatusCode)
	}
}

// TestTenantKeysReachNoEngine: an engine without a key of its own does not see whose key a request came with, unless
// that is wanted.
func TestTenantKeysReachNoEngine(t *testing.T) {
	for _, c := range []struct {
		forward    bool
		sent, want [2]string // Authorization and X-Api-Key
	}{
		{false, [2]string{"Bearer sk-blue", ""}, [2]string{}},
		{false, [2]string{"bearer  sk-blue", ""}, [2]string{}},
		{false, [2]string{"", "sk-green"}, [2]string{}},
		{false, [2]string{"Bearer sk-blue", "sk-green"}, [2]string{}},
		{false, [2]string{"Bearer theirs", "sk-green"}, [2]string{"Bearer theirs", ""}},
		{false, [2]string{"Bearer theirs", "x"}, [2]string{"Bearer theirs", "x"}},
		{true, [2]string{"Bearer sk-blue", "sk-green"}, [2]string{"Bearer sk-blue", "sk-green"}},
	} {
		var in inbox
		ten := tenants()
		ten.Forward = c.forward
		r := newRig(t, proxy.Config{Tenants: ten}, in.handler)
		for _, path := range []string{"/v1/chat/completions", "/v1/audio/speech"} {
			r.post(path, tenantBody, "Authorization", c.sent[0], "X-Api-Key", c.sent[1])
			in.mu.Lock()
			got := [2]string{in.header.Get("Authorization"), in.header.Get("X-Api-Key")}
			in.mu.Unlock()
			if got != c.want {
				t.Errorf("%s with %q: the engine got %q, want %q", path, c.sent, got, c.want)
			}
		}
	}
}

// TestSecondKeyStaysHere: a tenant's key that comes second in its header, or beside one of the engine's, reaches no
// engine either.
func TestSecondKeyStaysHere(t *testing.T) {
	for _, key := range []string{"", "engine-key"} {
		h := http.Header{"Authorization": {"Bearer theirs", "Bearer sk-blue"}, "X-Api-Key": {"x", "sk-green"}}
		tenants().Authorise(h, key, false)
		want := ""
		if key != "" {
			want = "Bearer " + key
		}
		if got := h.Get("Authorization"); got != want || len(h["Authorization"]) > 1 || h.Get("X-Api-Key") != "" {
			t.Errorf("with %q as the endpoint's key the engine gets %v", key, h)
		}
	}
}

// TestKeyAmongSubprotocols: a WebSocket of a browser names its key among its subprotocols. It is let in by it, and the
// engine gets the others, and the key if that is not the router's.
func TestKeyAmongSubprotocols(t *testing.T) {
	for _, c := range []struct {
		forward bool
		offers  []string
		status  int
		want    []string
	}{
		{false, []string{"realtime, openai-insecure-api-key.sk-blue, openai-beta.realtime-v1"}, 418, []string{
			"realtime, openai-beta.realtime-v1",
		}},
		{false, []string{"realtime", "openai-insecure-api-key.sk-blue"}, 418, []string{"realtime"}},
		{false, []string{"openai-insecure-api-key.sk-blue"}, 418, nil},
		{true, []string{"realtime,openai-insecure-api-key.sk-blue"}, 418, []string{
			"realtime,openai-insecure-api-key.sk-blue",
		}},
		{false, []string{"realtime, openai-insecure-api-key.theirs"}, 401, nil},
		{false, []string{"realtime"}, 401, nil},
	} {
		var in inbox
		ten := tenants()
		ten.Required, ten.Forward = true, c.forward
		r := newRig(t, proxy.Config{Tenants: ten}, func(w http.ResponseWriter, req *http.Request) {
			in.handler(httptest.NewRecorder(), req)
			w.WriteHeader(http.StatusTeapot)
		})
		req, err := http.NewRequest(http.MethodGet, r.url+"/v1/realtime?model=m", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": c.offers,
		}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		var got []string
		if in.mu.Lock(); in.header != nil {
			got = in.header["Sec-Websocket-Protocol"]
		}
		in.mu.Unlock()
		if res.StatusCode != c.status || !slices.Equal(got, c.want) {
			t.Errorf("%q: %d, the engine got %q; want %d and %q", c.offers, res.StatusCode, got, c.status, c.want)
		}
	}
}

func TestTenantKeysStayHere(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{Tenants: tenants()}, in.handler)
	r.as(fleet.KindVLLM, "engine-key")
	for sent, want := range map[[2]string][2]string{
		{"Bearer sk-blue", ""}:  {"Bearer engine-key", ""},
		{"", "sk-blue"}:         {"Bearer engine-key", ""},
		{"Bearer theirs", ""}:   {"Bearer theirs", ""},
		{"", "theirs"}:          {"", "theirs"},
		{"", ""}:                {"Bearer engine-key", ""},
		{"Bearer sk-blue", "x"}: {"Bearer engine-key", ""},
	} {
		r.post("/v1/chat/completions", tenantBody, "Authorization", sent[0], "X-Api-Key", sent[1])
		if got := [2]string{in.header.Get("Authorization"), in.header.Get("X-Api-Key")}; got != want {
			t.Errorf("%q reaches the engine as %q, want %q", sent, got, want)
		}
	}
}

func TestCacheSalt(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{Tenants: tenants()}, in.handler)
	salt := func(path, body, tenant string) string {
		t.Helper()
		res, answer := r.post(path, body, "X-Tenant-Id", tenant, "X-Cache-Salt", "mine")
		if got := in.header.Get("X-Cache-Salt") != ""; res.StatusCode != 200 || got != (tenant == "") {
			t.Fatalf("%d %s; the engine got a salt in a header: %t", res.StatusCode, answer, got)
		}
		s, _ := in.body["cache_salt"].(string)
		if k, ok := in.body["extra_key"].(string); ok {
			s += "extra:" + k
		}
		return s
	}
	const chat = "/v1/chat/completions"
	// HMAC-SHA-256 of "red" under the key, its first 16 bytes.
	red := salt(chat, tenantBody, "red")
	if red != "6b678a52ee5caf6716ba752f3528a01a" {
		t.Errorf("salt %q", red)
	}
	if want := `{"cache_salt":"` + red + `",` + tenantBody[1:]; in.raw != want {
		t.Errorf("the body is %s, want %s", in.raw, want)
	}
	own := func(v string) string { return `{"cache_salt":` + v + `,` + tenantBody[1:] }
	seen := map[string]string{red: "red"}
	for what, got := range map[string]string{
		"another tenant": salt(chat, tenantBody, "blue"), "a salt of its own": salt(chat, own(`"a"`), "red"),
		"another": salt(chat, own(`"b"`), "red"), "another tenant's with the same": salt(chat, own(`"a"`), "blue"),
		"the salt of the other": salt(chat, own(`"`+red+`"`), "blue"),
	} {
		if other, twice := seen[got]; twice || len(got) != 32 {
			t.Errorf("%s has the salt %q, as %s", what, got, other)
		}
		seen[got] = what
	}
	if got := salt(chat, own("null"), "red"); got != red {
		t.Errorf("null is a salt: %q", got)
	}
	if got := salt(chat, own(`"a"`), ""); got != "a" {
		t.Errorf("without a tenant: %q", got)
	}
}

func TestCacheSaltByEngine(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{Tenants: tenants()}, in.handler)
	for _, row := range []struct {
		kind fleet.Kind
		path string
		want string // the member that is set
	}{
		{fleet.KindVLLM, "/v1/chat/completions", "cache_salt"},
		{fleet.KindVLLM, "/v1/completions", "cache_salt"},
		{fleet.KindVLLM, "/v1/responses", "cache_salt"},
		{fleet.KindVLLM, "/v1/messages", "cache_salt"},
		{fleet.KindVLLM, "/v1/embeddings", "cache_salt"},
		{fleet.KindVLLM, "/v2/rerank", "cache_salt"},
		{fleet.KindVLLM, "/v1/score/", "cache_salt"},
		{fleet.KindVLLM, "/v1/decisions", "cache_salt"},
		{fleet.KindVLLM, "/v1/chat/completions/batch", "cache_salt"},
		{fleet.KindVLLM, "/v2/embed", ""},
		{fleet.KindVLLM, "/tokenize", ""},
		{fleet.KindSGLang, "/v1/score", ""},
		{fleet.KindSGLang, "/v1/chat/completions", "cache_salt"},
		{fleet.KindSGLang, "/generate", "extra_key"},
		{fleet.KindSGLang, "/v1/messages", ""},
		{fleet.KindTRTLLM, "/v1/chat/completions", "cache_salt"},
		{fleet.KindTRTLLM, "/v1/completions", ""},
		{fleet.KindTRTLLM, "/v1/responses", ""},
		{fleet.KindLlamaCpp, "/v1/chat/completions", ""},
		{fleet.KindOther, "/v1/chat/completions", ""},
	} {
		r.as(row.kind, "")
		if res, answer := r.post(row.path, `{"model":"m","stream":false}`,
			"X-Tenant-Id", "red"); res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, answer)
		}
		got := ""
		for _, field := range []string{"cache_salt", "extra_key"} {
			if _, ok := in.body[field]; ok {
				got += field
			}
		}
		if got != row.want {
			t.Errorf("%s at %s: %q is set, want %q", row.path, row.kind, got, row.want)
		}
	}
}

// TestSaltRequired: where a salt is required, a request that an engine would compute for a tenant reaches none that
// cannot be told one, whatever the API, its path and its form. Without the setting it does, and is counted. What
// computes nothing passes.
func TestSaltRequired(t *testing.T) {
	const salted, refused, free, form = "salted", "refused", "free", "a=b"
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	for _, row := range []struct {
		kind         fleet.Kind
		method, path string
		header       []string
		want         string
	}{
		{fleet.KindVLLM, "POST", "/v1/chat/completions", nil, salted},
		{fleet.KindVLLM, "POST", "/v1/completions", nil, salted},
		{fleet.KindVLLM, "POST", "/v1/responses", nil, salted},
		{fleet.KindVLLM, "POST", "/v1/messages", nil, salted},
		{fleet.KindVLLM, "POST", "/v1/embeddings", nil, salted},
		{fleet.KindVLLM, "POST", "/v1/score", nil, salted},
		{fleet.KindVLLM, "POST", "/pooling", nil, salted},
		{fleet.KindVLLM, "POST", "/v2/embed", nil, refused},
		{fleet.KindSGLang, "POST", "/v1/score", nil, refused},
		{fleet.KindSGLang, "POST", "/v1/embeddings", nil, refused},
		{fleet.KindOllama, "POST", "/api/embed", nil, refused},
		{fleet.KindVLLM, "POST", "/v1/audio/transcriptions", []string{
			"Content-Type", "application/x-www-form-urlencoded",
		}, refused},
		{fleet.KindVLLM, "POST", "/v1/audio/transcriptions", []string{"Content-Type", "audio/wav"}, refused},
		{fleet.KindVLLM, "POST", "/v1/batches", nil, refused},
		{fleet.KindVLLM, "POST", "/of/nobody", nil, refused},
		{fleet.KindVLLM, "GET", "/v1/realtime?model=m", upgrade, refused},
		{fleet.KindVLLM, "GET", "/ws", upgrade, refused},
		{fleet.KindVLLM, "POST", "/tokenize", nil, free},
		{fleet.KindVLLM, "POST", "/v1/messages/count_tokens", nil, free},
		{fleet.KindVLLM, "POST", "/v1/conversations", nil, free},
		{fleet.KindVLLM, "GET", "/version", nil, free},
		{fleet.KindSGLang, "POST", "/generate", nil, salted},
		{fleet.KindSGLang, "POST", "/v1/messages", nil, refused},
		{fleet.KindTRTLLM, "POST", "/v1/chat/completions", nil, salted},
		{fleet.KindTRTLLM, "POST", "/v1/completions", nil, refused},
		{fleet.KindTRTLLM, "POST", "/v1/responses", nil, refused},
		{fleet.KindLlamaCpp, "POST", "/v1/chat/completions", nil, refused},
		{fleet.KindLlamaCpp, "POST", "/completion", nil, refused},
		{fleet.KindOllama, "POST", "/api/chat", nil, refused},
		{fleet.KindOther, "POST", "/v1/chat/completions", nil, refused},
	} {
		for _, must := range []bool{false, true} {
			var in inbox
			who := tenants()
			who.MustSalt = must
			r := newRig(t, proxy.Config{Tenants: who}, in.handler)
			r.as(row.kind, "")
			body := `{"model":"m","stream":false}`
			if len(row.header) == 2 {
				body = form
			}
			for _, tenant := range []string{"red", ""} {
				in.raw, in.body = "nothing", nil
				res, answer := r.do(row.method, row.path, body,
					append([]string{"X-Tenant-Id", tenant}, row.header...)...)
				reached := in.raw != "nothing"
				_, has := in.body["cache_salt"]
				if _, extra := in.body["extra_key"]; extra {
					has = true
				}
				want := row.want
				if tenant == "" {
					want = free
				}
				if has != (want == salted) || reached == (must && want == refused) {
					t.Errorf("%s %s of %q at %s, required %t: %d %s; the engine got %s",
						row.method, row.path, tenant, row.kind, must, res.StatusCode, answer, in.raw)
				}
				if must && want == refused && (res.StatusCode != 400 ||
					!strings.Contains(answer, "cache_not_apart") && !strings.HasPrefix(row.path, "/api/")) {
					t.Errorf("%s %s at %s: %d %s", row.method, row.path, row.kind, res.StatusCode, answer)
				}
			}
			for i, tenant := range []string{"red", ""} {
				if got := r.last(i + 1).Unsalted; (got != "") != (tenant != "" && !must && row.want == refused) {
					t.Errorf("%s %s of %q at %s, required %t: counted at %q",
						row.method, row.path, tenant, row.kind, must, got)
				}
			}
		}
	}
}

// TestSaltRequiredAmongMany: of several engines one that takes a salt is chosen, for retries too, and pins and unknown
// kinds open no way around.
func TestSaltRequiredAmongMany(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kinds  [3]fleet.Kind // of e0, e1, e2
		fails  bool          // the first that is asked
		header []string
		want   string // endpoints asked
		status int
	}{
		{"the last", [3]fleet.Kind{fleet.KindLlamaCpp, fleet.KindOther, fleet.KindVLLM}, false, nil, "e2", 200},
		{"a retry", [3]fleet.Kind{fleet.KindVLLM, fleet.KindOllama, fleet.KindSGLang}, true, nil, "e0 e2", 200},
		{
			"nobody for the retry",
			[3]fleet.Kind{fleet.KindOllama, fleet.KindVLLM, fleet.KindOther},
			true, nil, "e1", 503,
		},
		{"none", [3]fleet.Kind{fleet.KindLlamaCpp, fleet.KindOther, fleet.KindOllama}, false, nil, "", 400},
		{"not known yet", [3]fleet.Kind{fleet.KindLlamaCpp, fleet.KindUnknown, fleet.KindOllama}, false, nil, "", 503},
		{
			"pinned",
			[3]fleet.Kind{fleet.KindVLLM, fleet.KindLlamaCpp, fleet.KindVLLM},
			false,
			[]string{"X-Warmpath-Pin", "e1"},
			"", 400,
		},
	} {
		var mu sync.Mutex
		var asked []string
		handle := func(name string) engineHandler {
			return func(w http.ResponseWriter, req *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if asked = append(asked, name); tt.fails && len(asked) == 1 {
					answers(503, "{}")(w, req)
					return
				}
				answers(200, chatAnswer)(w, req)
			}
		}
		who := tenants()
		who.MustSalt = true
		var declared []fleet.Endpoint
		for i, kind := range tt.kinds {
			name := fmt.Sprintf("e%d", i)
			declared = append(declared, fleet.Endpoint{
				Name: name, Kind: kind, Weight: 1, URL: serveEngine(t, handle(name)),
			})
		}
		rules := route.Config{Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10}
		r := newRouter(t, proxy.Config{
			Tenants: who, Pinning: true,
		}, transportOf(t), rules, declared, func(k fleet.Kind) fleet.Report {
			return fleet.Report{Kind: k, Models: []fleet.Model{{ID: "m"}}}
		})
		r.listen(t)
		res, answer := r.post("/v1/chat/completions", tenantBody,
			append([]string{"X-Tenant-Id", "red"}, tt.header...)...)
		if got := strings.Join(asked, " "); got != tt.want || res.StatusCode != tt.status {
			t.Errorf("%s: asked %q, want %q: %d %s", tt.name, got, tt.want, res.StatusCode, answer)
		}
	}
}

// TestCacheSaltIsKept: retries carry the salt, and it lives with the other changes of a body.
func TestCacheSaltIsKept(t *testing.T) {
	in := inbox{status: []int{503}}
	var second inbox
	r := newRig(t, proxy.Config{Tenants: tenants()}, in.handler, second.handler)
	body := `{"model":"m","stream":true,"messages":[]}`
	r.post("/v1/chat/completions", body, "X-Tenant-Id", "red")
	for _, got := range []*inbox{&in, &second} {
		if s, _ := got.body["cache_salt"].(string); len(s) != 32 || got.body["stream_options"] == nil {
			t.Errorf("got %s", got.raw)
		}
	}
}

// TestUnsaltedIsLogged: where a salt cannot be set, the log says so once for each endpoint; where it can, and for
// requests without a tenant, it says nothing.
func TestUnsaltedIsLogged(t *testing.T) {
	var in inbox
	var log bytes.Buffer
	s := httptest.NewServer(http.HandlerFunc(in.handler))
	defer s.Close()
	fl := live.New(route.New(route.Config{Policy: func() pick.Policy { return inOrder{} }}), time.Now)
	fl.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{{Name: "e", URL: s.URL, Weight: 1}}})
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.New(proxy.Options{
		Config: proxy.Config{NetHTTP: netHTTP(), Tenants: tenants()}, Fleet: fl, Transport: transportOf(t),
		Parser: parser, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for _, c := range []struct {
		kind   fleet.Kind
		tenant string
		want   int // lines so far
	}{{fleet.KindVLLM, "red", 0}, {fleet.KindOther, "", 0}, {fleet.KindOther, "red", 1}, {fleet.KindOther, "blue", 1}, {
		fleet.KindOllama, "red", 1,
	}} {
		fl.Observe(route.Probed{
			Endpoint: "e", Report: fleet.Report{Healthy: true, Kind: c.kind, Models: []fleet.Model{{ID: "m"}}},
		})
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(tenantBody))
		r.Header.Set("X-Tenant-Id", c.tenant)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if got := strings.Count(log.String(), "tenants.cache_salt has no effect"); w.Code != 200 || got != c.want {
			t.Errorf("%+v: %d, %d lines: %s", c, w.Code, got, log.String())
		}
	}
}

// TestHealthGenerate: the router answers for SGLang's health check by generation, unless its path is opened.
func TestHealthGenerate(t *testing.T) {
	for _, open := range []bool{false, true} {
		var in inbox
		patterns := []string{"/x"}
		if open {
			patterns = []string{"/health_generate"}
		}
		r := newRig(t, proxy.Config{Paths: paths(t, patterns...)}, in.handler)
		res, body := r.do("GET", "/health_generate", "")
		if asked := in.header != nil; res.StatusCode != 200 || asked != open {
			t.Errorf("open %t: %d %s, the engine was asked: %t", open, res.StatusCode, body, asked)
		}
	}
}

// TestFoldedMembers: an engine that may be written in Go gets no member that it would take for another one; others
// judge for themselves.
func TestFoldedMembers(t *testing.T) {
	var in inbox
	engine := []fleet.Endpoint{{Name: "e", URL: serveEngine(t, engineHandler(in.handler)), Weight: 1}}
	for kind, want := range map[fleet.Kind]int{
		fleet.KindOllama: 400, fleet.KindOther: 400, fleet.KindUnknown: 400, fleet.KindVLLM: 200, fleet.KindSGLang: 200,
		fleet.KindLlamaCpp: 200, fleet.KindTRTLLM: 200,
	} {
		rules := route.Config{Policy: func() pick.Policy { return inOrder{} }}
		// a known kind stays when none is reported
		r := newRouter(t, proxy.Config{}, transportOf(t), rules, engine, func(fleet.Kind) fleet.Report {
			return fleet.Report{Kind: kind, Models: []fleet.Model{{ID: "m"}}}
		})
		r.listen(t)
		for _, path := range []string{"/v1/chat/completions", "/v1/embeddings", "/v1/score"} {
			if res, body := r.post(path, `{"model":"m","MODEL":"n"}`); res.StatusCode != want ||
				want == 400 && !strings.Contains(body, "MODEL") {
				t.Errorf("%s at %q: %d %s", path, kind, res.StatusCode, body)
			}
			if res, body := r.post(path, `{"model":"m","Mine":"n"}`); res.StatusCode != 200 {
				t.Errorf("%s at %q: %d %s", path, kind, res.StatusCode, body)
			}
		}
	}
}
