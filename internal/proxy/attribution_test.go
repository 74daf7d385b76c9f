package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// TestAttributionIsDropped: what Claude Code says in front of its prompt reaches no kind of engine, and all other bytes
// do; with the setting off they all do, and so do those of other APIs.
func TestAttributionIsDropped(t *testing.T) {
	const (
		line  = `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.126.9f3; cc_entrypoint=cli; cch=01eef;"},`
		front = `{"model":"m","max_tokens":9007199254740993,"messages":[{"role":"user","content":"hi"}],"system":[`
		back  = `{"type":"text","text":"You are","cache_control":{"type":"ephemeral"}}],"unknown":1.50}`
	)
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(
			[]byte(`{"type":"message","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}`))
	}
	for _, kind := range []fleet.Kind{
		fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp, fleet.KindOllama, fleet.KindOther,
	} {
		for _, tt := range []struct {
			name, path, want string
			drop             bool
		}{
			{"dropped", "/v1/messages?beta=true", front + back, true},
			{"kept", "/v1/messages", front + line + back, false},
			{"another API", "/v1/chat/completions", front + line + back, true},
		} {
			t.Run(string(kind)+" "+tt.name, func(t *testing.T) {
				e := &asks{answer: answer}
				r := newRig(t, proxy.Config{DropAttribution: tt.drop}, e.serve)
				r.is("e0", kind)
				resp, err := http.Post(r.url+tt.path, "application/json", strings.NewReader(front+line+back))
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if got := e.got(); resp.StatusCode != http.StatusOK || len(got) != 1 || got[0] != tt.want {
					t.Errorf("%d, the engine got %q, want %q", resp.StatusCode, got, tt.want)
				}
			})
		}
	}
}
