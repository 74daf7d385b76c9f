package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// ends is a protocol whose prefiller finds that its first token was the last.
type ends struct{ handover.Nixl }

func (ends) Reply(x *handover.Request, body []byte) (h handover.Handed, err error) {
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
	d := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a decoder was asked")
	}))
	defer d.Close()
	rig := splitRig(t, pairs{split: always, proxy: proxy.Config{
		Connector: ends{}, Token: identity.NewEndpointToken("X-Kept-At", nil),
		Quota: quota.New(time.Now(), quota.Config{All: quota.Limits{RequestsPerMinute: 60}}),
	}}, []fleet.Endpoint{
		{Name: "p", URL: p.URL, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RolePrefill},
		{Name: "d", URL: d.URL, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RoleDecode},
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
	for _, name := range []string{"X-Kept-At", "X-Ratelimit-Limit-Requests", "X-Session-Id", "X-Accel-Buffering"} {
		if res.Header.Get(name) == "" { // as an answer of a decoder has it
			t.Errorf("it has no %s: %v", name, res.Header)
		}
	}
}

// TestWholeAnswerAfterComments: where the prompt had to wait the client has comments before that answer, and all bytes
// count.
func TestWholeAnswerAfterComments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, proxy.Config{
			Connector: ends{}, Comments: commentsEvery, Tenants: &identity.Tenants{Header: "X-Tenant-Id"},
			Quota: quota.New(time.Now(), quota.Config{
				Tenant: true, Each: quota.Limits{QueueClass: fleet.QueueClass{MaxRunning: 1}},
			}),
		}, wire(func(q *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, q.Body)
			if q.Header.Get("X-Session-Id") == "blocks" {
				time.Sleep(blocked)
			}
			return says(chatAnswer)
		}), route.Config{Policy: func() pick.Policy { return inOrder{} }, Disaggregation: always}, []fleet.Endpoint{
			{Name: "p", URL: "http://p", Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RolePrefill},
			{Name: "d", URL: "http://d", Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RoleDecode},
		}, func(k fleet.Kind) fleet.Report { return fleet.Report{Kind: k, Models: []fleet.Model{{ID: "m"}}} })
		ask := func(session string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
				strings.NewReader(streamBody))
			q.Header.Set("X-Session-Id", session)
			r.proxy.ServeHTTP(w, q)
			return w
		}
		go ask("blocks")
		synctest.Wait()
		w := ask("d")
		served := r.servedAs("d")
		rest, ok := strings.CutPrefix(w.Body.String(), strings.Repeat(comment, int(served.Queued/commentsEvery)))
		if !ok || served.Queued < 2*commentsEvery || !strings.HasPrefix(rest, "data: ") ||
			!strings.HasSuffix(rest, doneChunk) {
			t.Errorf("after %v in the queue the client got %q", served.Queued, w.Body)
		}
		if served.Outcome != fleet.OK || served.BytesOut != int64(w.Body.Len()) {
			t.Errorf("told of as %+v, want %d bytes", served, w.Body.Len())
		}
		synctest.Wait()
		r.booksBalance()
	})
}
