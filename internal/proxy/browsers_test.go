package proxy_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
)

// TestStreamsAreNotBuffered: nginx in front passes on at once what says so: streams of events and lines, not whole
// answers.
func TestStreamsAreNotBuffered(t *testing.T) {
	for _, c := range []struct{ media, engine, want string }{
		{"text/event-stream", "", "no"},
		{"text/event-stream; charset=utf-8", "", "no"},
		{"Text/Event-Stream", "", "no"},
		{"application/x-ndjson", "", "no"},
		{"application/jsonl", "", "no"},
		{"text/event-stream", "yes", "yes"},
		{"application/json", "", ""},
		{"audio/mpeg", "", ""},
	} {
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.media)
			if c.engine != "" {
				w.Header().Set("X-Accel-Buffering", c.engine)
			}
			_, _ = io.WriteString(w, "data: {}\n\ndata: [DONE]\n\n")
		})
		res, err := r.client.Post(r.url+"/v1/audio/speech", "application/json", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if got := res.Header.Get("X-Accel-Buffering"); got != c.want {
			t.Errorf("%s, the engine says %q: %q, want %q", c.media, c.engine, got, c.want)
		}
	}
}

// TestPagesReadWhatEnginesAllow: a page that an engine lets read its answers can read lists and errors too, another one
// cannot; a preflight needs no key.
func TestPagesReadWhatEnginesAllow(t *testing.T) {
	keys := &identity.Tenants{Keys: keysOf("k", "web"), Required: true}
	for _, allowed := range []string{"*", "https://app.example", ""} {
		r := newRig(t, proxy.Config{Tenants: keys}, func(w http.ResponseWriter, _ *http.Request) {
			if w.Header().Set("Vary", "Origin"); allowed != "" {
				w.Header().Set("Access-Control-Allow-Origin", allowed)
			}
		})
		ask := func(method, path, origin, key string) *http.Response {
			req, _ := http.NewRequest(method, r.url+path, http.NoBody)
			req.Header.Set("Origin", origin)
			if req.Header.Set("Access-Control-Request-Method", "POST"); key != "" {
				req.Header.Set("Authorization", "Bearer "+key)
			}
			res, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			return res
		}
		if res := ask("OPTIONS", "/v1/chat/completions", "https://app.example", ""); res.StatusCode != http.StatusOK {
			t.Errorf("%q: preflight %d", allowed, res.StatusCode)
		}
		for _, c := range []struct {
			path, key string
			status    int
		}{{"/v1/models", "k", 200}, {"/v1/models/none", "k", 404}, {"/v1/models", "", 401}} {
			for origin, want := range map[string]string{
				"https://app.example": allowed, "https://other.example": map[bool]string{true: "*"}[allowed == "*"],
			} {
				if res := ask("GET", c.path, origin, c.key); res.StatusCode != c.status ||
					res.Header.Get("Access-Control-Allow-Origin") != want {
					t.Errorf("%q, %+v for %s: %d, allowed %q",
						allowed, c, origin, res.StatusCode, res.Header.Get("Access-Control-Allow-Origin"))
				}
			}
		}
	}
}

// TestPreflightAsksNothingElse: without a key a preflight reaches an engine as a browser sends it, whatever else a
// program puts in.
func TestPreflightAsksNothingElse(t *testing.T) {
	keys := &identity.Tenants{Keys: keysOf("k", "web"), Required: true}
	for _, c := range []struct{ query, body, name, value string }{
		{"", "", "", ""},
		{"?model=zzz", "", "", ""},
		{"", `{"model":"zzz"}`, "Content-Type", "application/json"},
		{"", "", "X-Warmpath-Model", "zzz"},
		{"", "", "X-Warmpath-Pin", "e9"},
		{"", "", "X-Warmpath-Deadline", "soon"},
		{"", "", "X-Session-Id", "s1"},
		{"", "", "Authorization", "Bearer k"},
	} {
		var got *http.Request
		var read []byte
		r := newRig(t, proxy.Config{Tenants: keys, Pinning: true}, func(w http.ResponseWriter, q *http.Request) {
			got = q
			read, _ = io.ReadAll(q.Body)
			w.Header().Set("Access-Control-Allow-Origin", "*")
		})
		header := []string{
			"Origin", "https://a.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"authorization",
		}
		if c.name != "" {
			header = append(header, c.name, c.value)
		}
		res, body := r.do("OPTIONS", "/v1/chat/completions"+c.query, c.body, header...)
		if res.StatusCode != 200 || res.Header.Get("Access-Control-Allow-Origin") != "*" || got == nil {
			t.Errorf("%+v: %d %s", c, res.StatusCode, body)
			continue
		}
		if got.URL.Path != "/v1/chat/completions" || got.URL.RawQuery != "" || len(read) > 0 ||
			got.Header.Get("Access-Control-Request-Headers") != "authorization" {
			t.Errorf("%+v: the engine got %s with %q and %v", c, got.URL, read, got.Header)
		}
		if c.name != "" && got.Header.Get(c.name) != "" {
			t.Errorf("%+v: the engine got %v", c, got.Header)
		}
		if s := r.last(1); s.Decision.Session != "" || s.Decision.Queued {
			t.Errorf("%+v: %+v", c, s.Decision)
		}
	}
}

// TestPagesThatMayRead: with a list of origins no other page can read anything, whatever engines allow, and a listed
// one what they allow.
func TestPagesThatMayRead(t *testing.T) {
	const app, other = "https://app.example", "https://other.example"
	for _, c := range []struct {
		only    []string
		engine  string // allows
		readers []string
	}{
		{nil, "*", []string{app, other}},
		{[]string{"none"}, "*", nil},
		{[]string{app}, "*", []string{app}},
		{[]string{app}, "", nil},
	} {
		r := newRig(t, proxy.Config{Origins: c.only}, func(w http.ResponseWriter, q *http.Request) {
			if h := w.Header(); c.engine != "" {
				h.Set("Access-Control-Allow-Origin", c.engine)
				h.Set("Access-Control-Allow-Methods", "POST")
				h.Set("Access-Control-Expose-Headers", "X-Request-Id")
			}
			if q.URL.Path == "/refused" {
				w.WriteHeader(400)
			}
			_, _ = io.WriteString(w, chatAnswer)
		})
		for _, ask := range []struct{ method, path, upgrade string }{
			{"POST", "/v1/chat/completions", ""},
			{"OPTIONS", "/v1/chat/completions", ""},
			{"GET", "/refused", ""},
			{"GET", "/refused", "websocket"},
			{"GET", "/v1/models", ""},
			{"GET", "/v1/models/none", ""},
		} {
			for _, origin := range []string{app, other, ""} {
				req, _ := http.NewRequest(ask.method, r.url+ask.path,
					strings.NewReader(map[bool]string{true: tenantBody}[ask.method == "POST"]))
				if req.Header.Set("Access-Control-Request-Method", "POST"); origin != "" {
					req.Header.Set("Origin", origin)
				}
				if ask.upgrade != "" {
					req.Header.Set("Connection", "Upgrade")
					req.Header.Set("Upgrade", ask.upgrade)
				}
				res, err := r.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				own := strings.HasPrefix(ask.path, "/v1/models")
				reads, want := res.Header.Get("Access-Control-Allow-Origin") != "",
					slices.Contains(c.readers, origin) || origin == "" && c.only == nil && !own
				if exposes := res.Header.Get("Access-Control-Expose-Headers") != ""; reads != want ||
					exposes != (want && !own) {
					t.Errorf("only %q, the engine allows %q: %s %s %s for %q: %v",
						c.only, c.engine, ask.method, ask.path, ask.upgrade, origin, res.Header)
				}
			}
		}
	}
}
