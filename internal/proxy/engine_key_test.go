package proxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// TestEngineKeyIsRefused: an engine refuses the key that the router has for it, as after it was changed there. No
// client is told that its own key is wrong while another engine takes the request, and the engine loses its place. What
// it says of a client's key is the client's.
func TestEngineKeyIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		key    string // the router's, for the engine
		tenant bool
		sent   string // by the client
		want   int
	}{
		{"the router's key, a client without one", "old", false, "", 200},
		{"the router's key, a tenant's client", "old", true, "Bearer sk-blue", 200},
		{"the client's key", "old", false, "Bearer mine", 401},
		{"no key", "", false, "", 401},
	} {
		for _, in := range []struct{ path, body string }{
			{"/v1/chat/completions", `{"model":"m","messages":[]}`},
			{"/v1/chat/completions", plainStream},
			{"/v1/messages", `{"model":"m","messages":[],"max_tokens":1}`},
			{"/v1/responses", `{"model":"m","input":"x"}`},
			{"/v1/embeddings", `{"model":"m","input":"x"}`},
			{"/api/chat", `{"model":"m","messages":[]}`},
			{"/rerank", `{"model":"m","query":"x","documents":[]}`},
			{"/v1/unknown", `{"model":"m"}`},
		} {
			refuses := func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				http.Error(w, `{"error":"Unauthorized"}`, http.StatusUnauthorized)
			}
			takes := func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, chatAnswer)
			}
			cfg := proxy.Config{}
			if tt.tenant {
				cfg.Tenants = tenants()
				cfg.Tenants.SaltKey = nil
			}
			r := newFleet(t, cfg, transportOf(t), []fleet.Endpoint{
				{Name: "e0", URL: serveEngine(t, http.HandlerFunc(refuses)), Weight: 1, APIKey: tt.key},
				{Name: "e1", URL: serveEngine(t, http.HandlerFunc(takes)), Weight: 1, APIKey: tt.key},
			})
			r.listen(t)
			var header []string
			if tt.sent != "" {
				header = []string{"Authorization", tt.sent}
			}
			for range 8 {
				if res, body := r.post(in.path, in.body, header...); res.StatusCode != tt.want {
					t.Fatalf("%s, %s: %d %s", tt.name, in.path, res.StatusCode, body)
				}
			}
			if ejected := r.fleet.Status()[0].State == fleet.StateEjected; ejected != (tt.want == 200) {
				t.Errorf("%s, %s: the engine is ejected: %t", tt.name, in.path, ejected)
			}
		}
	}
}
