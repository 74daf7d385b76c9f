package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestUpgradesNameTheirModel: messages of a WebSocket are not read. One that has to be placed by its model without
// naming it where it can is refused in words that say how, and one whose messages are requests, which have to be read,
// is sent to HTTP.
func TestUpgradesNameTheirModel(t *testing.T) {
	const refused, overHTTP = "model_required", "no_websocket"
	one := map[fleet.Kind]string{fleet.KindVLLM: "m", fleet.KindSGLang: "m"}
	two := map[fleet.Kind]string{fleet.KindVLLM: "m", fleet.KindSGLang: "n"}
	for _, tt := range []struct {
		name   string
		serve  map[fleet.Kind]string
		cfg    proxy.Config
		path   string
		header []string
		want   string // the engine's model, or the code of an error
	}{
		{"query", two, proxy.Config{}, "/v1/realtime?model=n", nil, "n"},
		{"header", two, proxy.Config{}, "/v1/realtime", []string{"X-Warmpath-Model", "n"}, "n"},
		{"header before query", two, proxy.Config{}, "/v1/realtime?model=m", []string{"X-Warmpath-Model", "n"}, "n"},
		{"alias", two, proxy.Config{}, "/v1/realtime?model=fast", nil, "n"},
		{"none", two, proxy.Config{}, "/v1/realtime", nil, refused},
		{"empty", two, proxy.Config{}, "/v1/realtime?model=", nil, refused},
		{"unknown", two, proxy.Config{}, "/v1/realtime?model=x", nil, "model_not_found"},
		{"none, one is served", one, proxy.Config{}, "/v1/realtime", nil, "m"},
		{"a path that is nobody's", two, proxy.Config{}, "/ws", nil, "m"},
		{"responses", two, proxy.Config{Transfers: true}, "/v1/responses", nil, overHTTP},
		{"responses, named", two, proxy.Config{Transfers: true}, "/v1/responses?model=n", nil, "n"},
		{"responses, one is served", one, proxy.Config{Transfers: true}, "/v1/responses", nil, "m"},
		{"responses, which may name transfers", two, proxy.Config{}, "/v1/responses?model=n", nil, overHTTP},
		{
			"responses, which may name others'", two,
			proxy.Config{Transfers: true, Tenants: tenants()},
			"/v1/responses?model=n", nil, overHTTP,
		},
		{"chat", one, proxy.Config{}, "/v1/chat/completions", nil, overHTTP},
		{"speech", one, proxy.Config{}, "/v1/audio/speech", nil, overHTTP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var declared []fleet.Endpoint
			for _, kind := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang} {
				model := tt.serve[kind]
				declared = append(declared, fleet.Endpoint{
					Name: string(kind), Kind: kind, Weight: 1,
					URL: serveEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if named := r.URL.Query().Get("model"); named != "" && named != model {
							t.Errorf("the engine of %s was asked for %s", model, named)
						}
						w.WriteHeader(http.StatusTeapot) // which passes as an answer to an upgrade
						_, _ = w.Write([]byte(model))
					})),
				})
			}
			rules := route.Config{Policy: func() pick.Policy { return inOrder{} }, Aliases: []route.Alias{
				{Name: "fast", Models: []string{"n"}},
			}}
			r := newRouter(t, tt.cfg, transportOf(t), rules, declared, func(k fleet.Kind) fleet.Report {
				return fleet.Report{Kind: k, Models: []fleet.Model{{ID: tt.serve[k]}}}
			})
			r.listen(t)
			res, answer := r.do("GET", tt.path,
				"", append(tt.header, "Connection", "Upgrade", "Upgrade", "websocket")...)
			switch status := res.StatusCode; {
			case len(tt.want) == 1:
				if status != http.StatusTeapot || answer != tt.want {
					t.Errorf("%d %s, want the engine of %s", status, answer, tt.want)
				}
			case !strings.Contains(answer, `"code":"`+tt.want+`"`):
				t.Errorf("%d %s, want %s", status, answer, tt.want)
			case tt.want == refused && (status != 400 || !strings.Contains(answer, "?model=NAME") ||
				!strings.Contains(answer, "X-Warmpath-Model")):
				t.Errorf("%d %s does not say how to name a model", status, answer)
			case tt.want == overHTTP &&
				(status != http.StatusUpgradeRequired || res.Header.Get("Upgrade") != "HTTP/1.1"):
				t.Errorf("%d %v %s", status, res.Header, answer)
			}
		})
	}
}
