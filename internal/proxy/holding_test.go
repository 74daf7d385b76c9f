package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestResponsesAreFoundWhileTheyAreMade: a client that has read the id of a response may cancel it, which only the
// endpoint that makes it can do. That was known when the answer had ended, and never of one whose client had left.
func TestResponsesAreFoundWhileTheyAreMade(t *testing.T) {
	cancelled := make(chan struct{})
	engine := func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if req.URL.Path != "/v1/responses" {
			if strings.HasSuffix(req.URL.Path, "/cancel") {
				close(cancelled)
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: response.created\n"+
			"data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"queued\"}}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-cancelled:
		case <-req.Context().Done():
		}
	}
	r := newRig(t, proxy.Config{Pinning: true, Explain: true}, engine, engine)
	req, err := http.NewRequest("POST", r.url+"/v1/responses",
		strings.NewReader(`{"model":"m","input":"hi","stream":true,"background":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Warmpath-Pin", "e1")
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(res.Body)
	for line := ""; line != "\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []struct{ method, path string }{
		{"GET", "/v1/responses/resp_1"}, {"POST", "/v1/responses/resp_1/cancel"},
	} {
		if got, _ := r.do(of.method, of.path, ""); got.Header.Get("X-Warmpath-Endpoint") != "e1" {
			t.Errorf("%s %s went to %s; want e1, which makes the response",
				of.method, of.path, got.Header.Get("X-Warmpath-Endpoint"))
		}
	}
	res.Body.Close()
	r.last(3)
	if got, _ := r.do("GET", "/v1/responses/resp_1", ""); got.Header.Get("X-Warmpath-Endpoint") != "e1" {
		t.Errorf("after the client left, GET went to %s; want e1", got.Header.Get("X-Warmpath-Endpoint"))
	}
}

// TestUsageIsTakenOutOfStreamsOfKnownLength: an engine, or what stands before it, may send all events with a
// Content-Length. The chunk that the router had asked for reached clients that had not.
func TestUsageIsTakenOutOfStreamsOfKnownLength(t *testing.T) {
	const (
		said  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"
		usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\n"
		done  = "data: [DONE]\n\n"
	)
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(said+usage+done)))
		_, _ = io.WriteString(w, said+usage+done)
	})
	res, body := r.post("/v1/chat/completions", `{"model":"m","stream":true,"messages":[]}`)
	if body != said+done {
		t.Errorf("the client got %q; want %q", body, said+done)
	}
	if res.ContentLength > 0 && res.ContentLength != int64(len(said+done)) {
		t.Errorf("Content-Length %d; want %d, or none", res.ContentLength, len(said+done))
	}
	if got := r.last(1).Usage.PromptTokens; got != 7 {
		t.Errorf("%d prompt tokens were learnt; want 7", got)
	}
	if res, body = r.post("/v1/chat/completions", streamBody); body != said+usage+done ||
		res.ContentLength != int64(len(body)) {
		t.Errorf("a client that asks got %q of %d bytes; want %q", body, res.ContentLength, said+usage+done)
	}
}
