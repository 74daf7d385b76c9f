package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// ends is a protocol whose prefiller finds that its first token was the last.
type ends struct{ handover.Nixl }

func (ends) Reply(x *handover.Handoff, body []byte) (h handover.Handed, err error) {
	h.Usage, h.Known = answer.ParseUsage(x.API, body)
	h.Whole, h.Answer = true, body
	return h, nil
}

// TestWholeAnswerFromThePrefiller: the client gets it, as a stream if it wants one, and no decoder is asked.
func TestWholeAnswerFromThePrefiller(t *testing.T) {
	const answer = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"No"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
	}))
	defer p.Close()
	d := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a decoder was asked") }))
	defer d.Close()
	rig := splitRig(t, pairs{split: always, proxy: proxy.Config{Connector: ends{}}}, []fleet.Endpoint{
		{Name: "p", URL: p.URL, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RolePrefill}, {Name: "d", URL: d.URL, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RoleDecode},
	})
	res, got := rig.post("/v1/chat/completions", chatBody)
	if res.StatusCode != 200 || got != answer {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if s := rig.last(1); s.Usage.OutputTokens != 1 || s.Outcome != fleet.OK {
		t.Errorf("told of as %+v", s)
	}
	res, got = rig.post("/v1/chat/completions", strings.Replace(chatBody, "{", `{"stream":true,`, 1))
	if res.StatusCode != 200 || textOf(t, got) != "No" || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("as a stream: %d %s", res.StatusCode, got)
	}
}
