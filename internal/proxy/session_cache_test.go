package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/route"
)

// TestSessionCacheOfSGLang: an SGLang that keeps caches by session is told the session of clients that name it in
// headers, and its end. Other engines are told nothing.
func TestSessionCacheOfSGLang(t *testing.T) {
	blue := tenants().Apart("blue", "s")
	for _, tt := range []struct {
		name, path, body string
		kind             fleet.Kind
		keeps            bool
		key              string
		want             string // in the body; "" for the body as it came
		closes           string // what the engine is told at the end
	}{
		{
			"chat", "/v1/chat/completions", `{"model":"m","messages":[]}`, fleet.KindSGLang, true, "",
			`"session_id":"s"`, `{"session_id":"s"}`,
		},
		{
			"completions", "/v1/completions", `{"model":"m","prompt":"x"}`, fleet.KindSGLang, true, "",
			`"session_id":"s"`, `{"session_id":"s"}`,
		},
		{
			"responses", "/v1/responses", `{"model":"m","input":"x"}`, fleet.KindSGLang, true, "", `"session_id":"s"`,
			`{"session_id":"s"}`,
		},
		{"generate", "/generate", `{"text":"x"}`, fleet.KindSGLang, true, "", `"session_id":"s"`, `{"session_id":"s"}`},
		{
			"messages have no such member", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[]}`,
			fleet.KindSGLang, true, "", "", `{"session_id":"s"}`,
		},
		{
			"a tenant's", "/v1/chat/completions", `{"model":"m","messages":[]}`, fleet.KindSGLang, true, "sk-blue",
			`"session_id":"` + blue + `"`, `{"session_id":"` + blue + `"}`,
		},
		{
			"a tenant's own member", "/v1/chat/completions", `{"model":"m","session_id":"s","messages":[]}`,
			fleet.KindSGLang, true, "sk-blue", `"session_id":"` + blue + `"`, `{"session_id":"` + blue + `"}`,
		},
		{
			"a tenant's number", "/v1/chat/completions", `{"model":"m","session_id":7,"messages":[]}`, fleet.KindSGLang,
			true, "sk-blue", `"session_id":"` + tenants().Apart("blue", "7") + `"`, `{"session_id":"` + blue + `"}`,
		},
		{
			"a tenant's list", "/generate", `{"text":["x"],"session_id":["s"]}`, fleet.KindSGLang, true, "sk-blue",
			`"session_id":"` + tenants().Apart("blue", `[\"s\"]`) + `"`, `{"session_id":"` + blue + `"}`,
		},
		{
			"a tenant's object, before", "/v1/completions",
			`{"model":"m","session_id":{},"prompt":"x","session_id":true}`, fleet.KindSGLang,
			true, "sk-blue", `"session_id":"` + tenants().Apart("blue", "true") + `","prompt":"x","session_id":"` +
				tenants().Apart("blue", "true"), `{"session_id":"` + blue + `"}`,
		},
		{
			"a tenant's null", "/v1/responses", `{"model":"m","session_id":null,"input":"x"}`, fleet.KindSGLang, true,
			"sk-blue", `"session_id":"` + blue + `"`, `{"session_id":"` + blue + `"}`,
		},
		{
			"null", "/v1/responses", `{"model":"m","session_id":null,"input":"x"}`, fleet.KindSGLang, true, "",
			`"session_id":"s"`, `{"session_id":"s"}`,
		},
		{
			"a number", "/v1/responses", `{"model":"m","session_id":7,"input":"x"}`, fleet.KindSGLang, true, "", "",
			`{"session_id":"s"}`,
		},
		{
			"the client's own member", "/v1/chat/completions", `{"model":"m","session_id":"s","messages":[]}`,
			fleet.KindSGLang, true, "", "", `{"session_id":"s"}`,
		},
		{
			"a session of the other kind", "/generate", `{"text":"x","session_params":{"id":"o"}}`, fleet.KindSGLang,
			true, "", "", `{"session_id":"s"}`,
		},
		{"off", "/v1/chat/completions", `{"model":"m","messages":[]}`, fleet.KindSGLang, false, "", "", ""},
		{"vLLM", "/v1/chat/completions", `{"model":"m","messages":[]}`, fleet.KindVLLM, false, "", "", ""},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			var in inbox
			closed := make(chan string, 9)
			cfg := proxy.Config{}
			if tt.key != "" {
				cfg.Tenants = &identity.Tenants{Keys: tenants().Keys}
			}
			r := newRig(t, cfg, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/close_session" {
					b, _ := io.ReadAll(req.Body)
					closed <- string(b) + req.Header.Get("Authorization")
					return
				}
				in.handler(w, req)
			})
			r.as(tt.kind, "sk-engine")
			r.fleet.Observe(reported(tt.kind, tt.keeps))
			for range 2 {
				header := []string{"X-Session-Id", "s", "X-Session-Final", "true"}
				if tt.key != "" {
					header = append(header, "Authorization", "Bearer "+tt.key)
				}
				if res, body := r.post(tt.path, tt.body, header...); res.StatusCode != 200 {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
				if got := lastBody(&in); tt.want == "" && got != tt.body || !strings.Contains(got, tt.want) ||
					strings.Count(got, "session_id") > max(1, strings.Count(tt.body, "session_id")) {
					t.Errorf("the engine got %s; want %s", got, tt.want)
				}
				if tt.closes != "" {
					if got := <-closed; got != tt.closes+"Bearer sk-engine" {
						t.Errorf("the engine was told %s; want %s", got, tt.closes)
					}
				}
			}
			r.last(2)
			if tt.closes == "" && len(closed) > 0 {
				t.Errorf("the engine was told %s", <-closed)
			}
		}))
	}
}

func reported(kind fleet.Kind, keeps bool) route.Event {
	return route.Probed{Endpoint: "e0", Report: fleet.Report{
		Healthy: true, Kind: kind, Models: []fleet.Model{{ID: "m"}}, Sessions: keeps,
	}}
}
