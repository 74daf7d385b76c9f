package proxy_test

import (
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
)

// TestBackground: SGLang goes on with a generation that its client has left if the request says so. Elsewhere the word
// means other things: a response that can be fetched, a picture without a background.
func TestBackground(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{}, in.handler)
	for _, kind := range []fleet.Kind{fleet.KindSGLang, fleet.KindUnknown} {
		r.as(kind, "")
		for path, want := range map[string]string{
			"/generate": "false", "/v1/responses": "true", "/v1/images/generations": "true",
		} {
			r.post(path, `{"model":"m","stream":false,"background":true}`)
			if want = `{"model":"m","stream":false,"background":` + want + `}`; in.raw != want {
				t.Errorf("%s: the %s engine got %s, want %s", path, kind, in.raw, want)
			}
		}
	}
}

// TestResumedWhereItRuns: a client that comes back for an answer is sent to the engine that computes it, whatever else
// runs there, and another engine gets what it does not have.
func TestResumedWhereItRuns(t *testing.T) {
	var got [2]atomic.Int32
	engine := func(i int) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/v1/stream" {
				got[i].Add(1)
			}
			answers(200, chatAnswer)(w, q)
		}
	}
	r := newRig(t, proxy.Config{Paths: paths(t, "/v1/stream*"), Pinning: true}, engine(0), engine(1))
	r.as(fleet.KindLlamaCpp, "")
	for range 3 {
		for i, pin := range []string{"e0", "e1"} { // the conversation moves
			r.post("/v1/chat/completions", chatBody, "X-Conversation-Id", "c1::m", "X-Warmpath-Pin", pin)
			for _, method := range []string{"GET", "GET", "DELETE"} {
				r.do(method, "/v1/stream?conv_id="+url.QueryEscape("c1::m")+"&from=0", "")
			}
			if here, other := got[i].Swap(0), got[1-i].Swap(0); here != 3 || other != 0 {
				t.Errorf("%s got %d of 3 for its answer, the other one %d", pin, here, other)
			}
		}
	}
}

// TestResumableAnswers: llama-server goes on with the answer of a client that left, and ends the answer of another one,
// where both name one conversation in a header. It is passed on only where clients can come back for the answer and are
// not told apart.
func TestResumableAnswers(t *testing.T) {
	const name = "X-Conversation-Id"
	tenants := &identity.Tenants{Header: "X-Tenant-Id"}
	for _, c := range []struct {
		paths   string
		tenants *identity.Tenants
		want    string
	}{
		{"/v1/videos*", nil, ""},
		{"/v1/stream*", nil, "c1"},
		{"GET /v1/stream", nil, "c1"},
		{"POST /v1/stream", nil, ""},
		{"*", nil, "c1"},
		{"*", tenants, ""},
	} {
		var in inbox
		r := newRig(t, proxy.Config{Paths: paths(t, c.paths), Tenants: c.tenants}, in.handler)
		for _, kind := range []fleet.Kind{fleet.KindLlamaCpp, fleet.KindOther, fleet.KindUnknown} {
			r.as(kind, "")
			for _, path := range []string{"/v1/chat/completions", "/completion"} {
				r.post(path, chatBody, name, "c1", "X-Tenant-Id", "a")
				if got := in.header.Get(name); got != c.want {
					t.Errorf("%s, tenants %t: %s: the %s engine got %q, want %q",
						c.paths, c.tenants != nil, path, kind, got, c.want)
				}
			}
		}
	}
}
