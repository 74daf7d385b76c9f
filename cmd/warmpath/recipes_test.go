//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/freeport"
)

// recipes are the blocks of YAML in docs/recipes.md, in order.
func recipes(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		all = append(all, string(m[1]))
	}
	return all
}

// The blocks of docs/recipes.md.
const (
	recipeRouter = iota
	recipeRemove
	recipeJWT
	recipeAuthz
	recipeRoutes
)

// envoyParts is what a block says of Envoy.
type envoyParts struct {
	Filters  []any `yaml:"http_filters"`
	Routes   []any `yaml:"routes"`
	Clusters []any `yaml:"clusters"`
}

// plainCluster is a cluster of one address.
func plainCluster(name, address string) any {
	host, port, _ := net.SplitHostPort(address)
	return map[string]any{
		"name": name, "type": "STATIC", "load_assignment": map[string]any{"cluster_name": name, "endpoints": []any{
			map[string]any{"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": map[string]any{
				"socket_address": map[string]any{"address": host, "port_value": json.Number(port)},
			}}}}},
		}},
	}
}

// tap stands between Envoy and a router, and notes what comes.
type tap struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }, FlushInterval: -1}
	out := &tap{}
	out.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out.mu.Lock()
		out.seen = append(out.seen, r.Clone(r.Context()))
		out.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(out.Close)
	return out
}

func (p *tap) address() string { return strings.TrimPrefix(p.URL, "http://") }

// last is the last request of those to a path that this sees.
func (p *tap) last(path string) *http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.seen) - 1; i >= 0; i-- {
		if p.seen[i].URL.Path == path {
			return p.seen[i]
		}
	}
	return &http.Request{Header: http.Header{}}
}

func (p *tap) count(path string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		if r.URL.Path == path {
			n++
		}
	}
	return n
}

// issuer signs tokens, and serves its key and what it is.
type issuer struct {
	t   *testing.T
	key *ecdsa.PrivateKey
	*httptest.Server
}

func newIssuer(t *testing.T, a *authority) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
	mux := http.NewServeMux()
	say := func(path string, v any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	say("/jwks", map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1",
		"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
	}}})
	i.Server = httptest.NewUnstartedServer(mux)
	a.sign("idp", "idp.example.com", "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(a.file("idp.pem"), a.file("idp.key"))
	if err != nil {
		t.Fatal(err)
	}
	i.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	i.StartTLS()
	t.Cleanup(i.Close)
	say("/.well-known/openid-configuration", map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/jwks", "authorization_endpoint": i.URL + "/auth",
		"token_endpoint": i.URL + "/token", "id_token_signing_alg_values_supported": []string{"ES256"},
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
	})
	return i
}

// token is one with claims, after RFC 7519 and 7518, section 3.4.
func (i *issuer) token(claims map[string]any) string {
	i.t.Helper()
	all := map[string]any{
		"iss": "https://idp.example.com", "aud": "llm", "sub": "someone", "exp": time.Now().Add(time.Hour).Unix(),
	}
	for k, v := range claims {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	body, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"JWT","kid":"1"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(body)
	hash := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, hash[:])
	if err != nil {
		i.t.Fatal(err)
	}
	return text + "." +
		base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// recipeRig is a router as docs/recipes.md has it behind a gateway, and what stands around.
type recipeRig struct {
	t      *testing.T
	router *fileRig
	tap    *tap // between the gateway and the router
	next   *tap // gets copies
	ca     *authority
	idp    *issuer
	authz  *httptest.Server
	asked  chan string // bodies that the authorisation service was shown
}

func newRecipeRig(t *testing.T) *recipeRig {
	t.Helper()
	rig := &recipeRig{t: t, ca: newAuthority(t), asked: make(chan string, 100)}
	_, engine := simEngine(t, enginetest.Options{Models: []string{"llama-8b"}, Speed: 50})
	_, other := simEngine(t, enginetest.Options{Models: []string{"llama-8b"}, Speed: 50})
	text := strings.Replace(recipes(t)[recipeRouter], "127.0.0.1:8080", "127.0.0.1:0", 1) +
		"admin: {listen: ''}\nprobe: {interval: 50ms, timeout: 2m}\n"
	rig.router = newFileRig(t, text+"endpoints: ["+engine+"]\n")
	rig.tap, rig.next = newTap(t, rig.router.url), newTap(t, other)
	rig.idp = newIssuer(t, rig.ca)
	rig.authz = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rig.asked <- string(body)
		if r.Header.Get("Authorization") != "Bearer known" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("X-Tenant-Id", "research")
	}))
	t.Cleanup(rig.authz.Close)
	return rig
}

// envoy runs Envoy with the lines of these blocks, and returns its address.
func (rig *recipeRig) envoy(blocks ...int) string {
	rig.t.Helper()
	idp, authz := strings.TrimPrefix(rig.idp.URL, "https://"), strings.TrimPrefix(rig.authz.URL, "http://")
	host, port, _ := net.SplitHostPort(idp)
	_, authzPort, _ := net.SplitHostPort(authz)
	here := strings.NewReplacer( // addresses and files only
		"address: idp.example.com, port_value: 443", "address: "+host+", port_value: "+port,
		"/etc/ssl/certs/ca-certificates.crt", rig.ca.file("ca.pem"),
		"port_value: 9100", "port_value: "+authzPort,
		"numerator: 5", "numerator: 100", // so that one request shows it
	)
	var all envoyParts
	for _, n := range blocks {
		var parts envoyParts
		if err := yaml.Unmarshal([]byte(here.Replace(recipes(rig.t)[n])), &parts); err != nil {
			rig.t.Fatalf("block %d: %v", n, err)
		}
		all.Filters, all.Routes, all.Clusters = append(all.Filters, parts.Filters...),
			append(all.Routes, parts.Routes...), append(all.Clusters, parts.Clusters...)
	}
	if len(all.Routes) == 0 {
		all.Routes = []any{map[string]any{
			"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "warmpath", "timeout": "0s"},
		}}
	}
	at := freeport.Address()
	_, port, _ = net.SplitHostPort(at)
	typed := func(name, kind string, more map[string]any) map[string]any {
		config := map[string]any{"@type": "type.googleapis.com/" + kind}
		for k, v := range more {
			config[k] = v
		}
		return map[string]any{"name": name, "typed_config": config}
	}
	text, err := json.Marshal(map[string]any{"static_resources": map[string]any{
		"listeners": []any{map[string]any{
			"address": map[string]any{
				"socket_address": map[string]any{"address": "127.0.0.1", "port_value": json.Number(port)},
			},
			"filter_chains": []any{map[string]any{"filters": []any{
				typed("envoy.filters.network.http_connection_manager",
					"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", map[string]any{
						"stat_prefix": "in", "use_remote_address": true,
						"route_config": map[string]any{"virtual_hosts": []any{
							map[string]any{"name": "all", "domains": []any{"*"}, "routes": all.Routes},
						}},
						"http_filters": append(all.Filters,
							typed("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", nil)),
					}),
			}}},
		}},
		"clusters": append(all.Clusters, plainCluster("warmpath", rig.tap.address()),
			plainCluster("warmpath-next", rig.next.address())),
	}})
	if err != nil {
		rig.t.Fatal(err)
	}
	runEnvoy(rig.t, string(text)).await("Envoy listens", func() bool {
		res, err := http.Get("http://" + at + "/readyz")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode != http.StatusServiceUnavailable
	})
	for len(rig.asked) > 0 {
		<-rig.asked
	}
	return "http://" + at
}

const aChat = `{"model":"llama-8b","max_tokens":3,"messages":[{"role":"user","content":"the lighthouse"}]}`

// ask posts a body and returns the status and the answer.
func (rig *recipeRig) ask(url, body string, header ...string) (int, string) {
	rig.t.Helper()
	res, answer := asked(rig.t, url, body, append(header, "Content-Type", "application/json")...)
	return res.StatusCode, answer
}

// shown is what the authorisation service was shown, "" if it was not asked.
func (rig *recipeRig) shown() string {
	select {
	case body := <-rig.asked:
		return body
	default:
		return ""
	}
}

// TestRecipesJWT: only a token of the issuer, for this audience and in time, lets a request through, on every path; its
// claim is the tenant, whatever the client says of itself, and the token goes no further.
func TestRecipesJWT(t *testing.T) {
	needEnvoy(t)
	rig := newRecipeRig(t)
	at := rig.envoy(recipeRemove, recipeJWT)
	good := rig.idp.token(map[string]any{"team": "research"})
	eventually(t, "Envoy has the issuer's key", func() bool {
		status, _ := rig.ask(at+"/v1/chat/completions", aChat, "Authorization", "Bearer "+good)
		return status == http.StatusOK
	})
	for name, row := range map[string]struct {
		path, token, tenant string
		status              int
	}{
		"a token":             {"/v1/chat/completions", good, "research", 200},
		"none":                {"/v1/chat/completions", "", "", 401},
		"none, another path":  {"/api/chat", "", "", 401},
		"none, a native path": {"/generate", "", "", 401},
		"too late": {
			"/v1/chat/completions", rig.idp.token(map[string]any{"team": "research", "exp": 1}), "", 401,
		},
		"for ever": {
			"/v1/chat/completions", rig.idp.token(map[string]any{"team": "research", "exp": nil}), "", 401,
		},
		"for others": {
			"/v1/chat/completions", rig.idp.token(map[string]any{"team": "research", "aud": "mail"}), "", 403,
		},
		"of another issuer": {
			"/v1/chat/completions", rig.idp.token(map[string]any{"team": "research", "iss": "https://else.example"}),
			"", 401,
		},
		"changed": {"/v1/chat/completions", good[:len(good)-4] + "AAAA", "", 401},
		"a list": {
			"/v1/chat/completions", rig.idp.token(map[string]any{"team": []string{"research"}}),
			"WyJyZXNlYXJjaCJd", 200,
		},
		"without the claim": {"/v1/chat/completions", rig.idp.token(nil), "", 401},
	} {
		header := []string{"X-Tenant-Id", "admins"}
		if row.token != "" {
			header = append(header, "Authorization", "Bearer "+row.token)
		}
		status, answer := rig.ask(at+row.path, aChat, header...)
		if status != row.status {
			t.Errorf("%s: %d %s, want %d", name, status, answer, row.status)
		}
		if got := rig.tap.last(row.path).Header; row.tenant != "" &&
			(got.Get("X-Tenant-Id") != row.tenant || got.Get("Authorization") != "") {
			t.Errorf("%s: the router got %v", name, got)
		}
	}
	if status, _ := rig.ask(at+"/v1/chat/completions", strings.Replace(aChat, "llama-8b", "qwen", 1),
		"Authorization", "Bearer "+good); status != http.StatusNotFound {
		t.Errorf("a model that the tenant does not have: %d", status)
	}
	if res, err := http.Get(at + "/readyz"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("ready: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
}

// TestRecipesAuthz: the service decides, sees the beginning of each body, and names the tenant; a long body passes too.
func TestRecipesAuthz(t *testing.T) {
	needEnvoy(t)
	rig := newRecipeRig(t)
	at := rig.envoy(recipeRemove, recipeAuthz) + "/v1/chat/completions"
	long := strings.Replace(aChat, "the lighthouse", strings.Repeat("the lighthouse ", 2000), 1)
	for _, body := range []string{aChat, long} {
		status, answer := rig.ask(at, body, "Authorization", "Bearer known", "X-Tenant-Id", "admins")
		shown := rig.shown()
		if got := rig.tap.last("/v1/chat/completions").Header.Get("X-Tenant-Id"); status != 200 || got != "research" ||
			shown == "" || len(shown) > 8192 || !strings.HasPrefix(body, shown) {
			t.Errorf("%d %s; tenant %q, the service saw %d of %d bytes", status, answer, got, len(shown), len(body))
		}
		if status, _ := rig.ask(at, body, "Authorization", "Bearer other"); status != http.StatusForbidden {
			t.Errorf("refused, but %d", status)
		}
		rig.shown()
	}
	rig.authz.Close()
	if status, _ := rig.ask(at, aChat, "Authorization", "Bearer known"); status != http.StatusForbidden {
		t.Errorf("the service is away, but %d", status)
	}
}

// TestRecipesRoutes: a path has its priority and comes to the router without its prefix; other paths have none,
// whatever the client says; copies go to the other router, and clients do not get its answers.
func TestRecipesRoutes(t *testing.T) {
	needEnvoy(t)
	rig := newRecipeRig(t)
	at := rig.envoy(recipeRoutes)
	for _, prefix := range []string{"/batch", ""} {
		status, answer := rig.ask(at+prefix+"/v1/chat/completions", aChat, "X-Tenant-Id", "research",
			"X-Warmpath-Priority", "high")
		got := rig.tap.last("/v1/chat/completions").Header.Values("X-Warmpath-Priority")
		if want := map[string]string{"/batch": "low", "": ""}[prefix]; status != 200 ||
			!strings.Contains(answer, `"usage"`) || strings.Join(got, ",") != want {
			t.Errorf("%q: %d %s; priority %q, want %q", prefix, status, answer, got, want)
		}
	}
	eventually(t, "the copy has come", func() bool { return rig.next.last("/v1/chat/completions").Method != "" })
	if n := rig.next.count("/v1/chat/completions"); n != 1 { // not of what came to /batch/
		t.Errorf("%d copies", n)
	}
}

// TestRecipesOAuth2Proxy: with the command line of docs/recipes.md, a program's token is its passport, and the router
// learns whose it is.
func TestRecipesOAuth2Proxy(t *testing.T) {
	program := os.Getenv("WARMPATH_OAUTH2_PROXY")
	if program == "" {
		t.Skip("WARMPATH_OAUTH2_PROXY names no oauth2-proxy (go install " +
			"github.com/oauth2-proxy/oauth2-proxy/v7@latest makes the program)")
	}
	rig := newRecipeRig(t)
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(page)
	at := freeport.Address()
	script := strings.NewReplacer(
		"CLIENT_SECRET=...", "CLIENT_SECRET=hush", "oauth2-proxy ", "exec "+program+" --http-address="+at+
			" --provider-ca-file="+rig.ca.file("ca.pem")+" --redirect-url=http://"+at+"/oauth2/callback ",
		"https://idp.example.com", rig.idp.URL, "http://127.0.0.1:8080", rig.tap.URL,
	).Replace(string(m[1]))
	run(t, "sh", "-c", script).await("oauth2-proxy listens", func() bool {
		res, err := http.Get("http://" + at + "/ping")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
	to := "http://" + at + "/v1/chat/completions"
	token := rig.idp.token(map[string]any{"iss": rig.idp.URL, "email": "ann@example.com", "email_verified": true})
	status, answer := rig.ask(to, aChat, "Authorization", "Bearer "+token, "X-Forwarded-Email", "eve@example.com",
		"X-Tenant-Id", "research")
	if got := rig.tap.last("/v1/chat/completions").Header; status != 200 ||
		strings.Join(got.Values("X-Forwarded-Email"), ",") != "ann@example.com" {
		t.Errorf("%d %s; the router got %v", status, answer, got)
	}
	if status, _ := rig.ask(to, aChat,
		"Authorization", "Bearer "+token[:len(token)-4]+"AAAA"); status == http.StatusOK {
		t.Error("a changed token passes")
	}
	if status, _ := rig.ask(to, aChat, "X-Forwarded-Email", "eve@example.com"); status == http.StatusOK {
		t.Error("a request without a token passes")
	}
}
