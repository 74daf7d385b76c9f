package proxy_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// TestReloadKeepsWhatServersTaught: what a server's answers have shown of their ends, and of the cached tokens in them,
// holds after a reload.
func TestReloadKeepsWhatServersTaught(t *testing.T) {
	var body string
	engine := wire(func(r *http.Request) (*http.Response, error) {
		res, err := says(body)
		if strings.HasPrefix(body, "data:") {
			res.ContentLength = -1
			res.Header.Set("Content-Type", eventStream)
		}
		return res, err
	})
	r := newFleet(t, proxy.Config{}, engine, []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1}})
	r.fleet.Observe(route.Probed{Endpoint: "e", Report: fleet.Report{
		Healthy: true, Kind: fleet.KindOther, Models: []fleet.Model{{ID: "m"}},
	}})
	ask := func(path, answer string) (got string) {
		w := httptest.NewRecorder()
		defer func() {
			_ = recover() // http.ErrAbortHandler, for an answer that was cut
			got = w.Body.String()
		}()
		body = answer
		r.proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path,
			strings.NewReader(streamBody)))
		return got
	}
	response := func(cached int) string {
		return fmt.Sprintf(`{"id":"resp_1","object":"response","output":[{"type":"message"}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":%d},"output_tokens":1}}`, cached)
	}
	for range 2 {
		ask("/v1/chat/completions", chunk("a")+doneChunk)
	}
	ask("/v1/responses", response(64))
	r.reload(t, engine)
	if got := ask("/v1/chat/completions", chunk("a")); !strings.Contains(got, `"error"`) {
		t.Errorf("a stream without the end mark of those before is passed on as whole: %q", got)
	}
	ask("/v1/responses", response(0))
	if u := r.last(5).Usage; !u.CachedKnown || u.PromptTokens != 100 {
		t.Errorf("0 cached tokens, of a server that has reported some, are not known: %+v", u)
	}
	r.booksBalance()
}

// TestReloadKeepsRefusals: an engine that has rejected being asked for usage is not asked again after a reload.
func TestReloadKeepsRefusals(t *testing.T) {
	asked := 0
	engine := wire(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		res, err := says(`{"error":{"message":"stream_options is unknown"}}`)
		if strings.Contains(string(body), "stream_options") {
			asked++
			res.StatusCode = http.StatusBadRequest
		}
		return res, err
	})
	r := newFleet(t, proxy.Config{}, engine, []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1}})
	r.fleet.Observe(route.Probed{Endpoint: "e", Report: fleet.Report{
		Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}},
	}})
	for range 2 {
		r.proxy.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true}`)))
		r.reload(t, engine)
	}
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

// reload makes the proxy anew, as a new configuration does.
func (r *rig) reload(t *testing.T, engine http.RoundTripper) {
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = proxy.New(proxy.Options{
		Fleet: r.fleet, Transport: engine, Parser: parser, Log: slog.New(slog.DiscardHandler), Before: r.proxy,
		Config: proxy.Config{Paths: paths(t, "*")},
	})
}
