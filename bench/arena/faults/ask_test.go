package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEnds has servers end their answers in each way that a client can tell apart.
func TestEnds(t *testing.T) {
	const event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	cases := []struct {
		name   string
		stream bool
		serve  http.HandlerFunc
		want   End
	}{
		{"whole stream", true, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, event+event+"data: [DONE]\n\n")
		}, Whole},
		{"error event", true, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, event+`data: {"error":{"message":"engine died"}}`+"\n\n")
		}, Told},
		{"null error is none", true, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `data: {"error":null,"choices":[]}`+"\n\ndata: [DONE]\n\n")
		}, Whole},
		{"no end mark", true, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, event) }, Silent},
		{"connection breaks", true, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, event)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, Cut},
		{"error status", true, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusBadGateway)
		}, Told},
		{"whole answer", false, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"choices":[{}]}`)
		}, Whole},
		{"no answer in it", false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }, Silent},
		{"half an answer", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"choices":`)
		}, Cut},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.serve)
			defer server.Close()
			a := asker{url: server.URL, model: "m", client: server.Client()}
			begun := 0
			end, err := a.send(t.Context(), request{prompt: "hi", tokens: 1, stream: c.stream}, func() { begun++ })
			if end != c.want || (err == nil) != (c.want == Whole) {
				t.Errorf("%s (%v), want %s", end, err, c.want)
			}
			if begun > 1 {
				t.Errorf("begun %d times", begun)
			}
		})
	}
}

func TestPatienceEnds(t *testing.T) {
	came, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(came)
		<-leave
	}))
	defer server.Close()
	defer close(leave)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	a := asker{url: server.URL, model: "m", client: server.Client()}
	if end, err := a.send(ctx, request{prompt: strings.Repeat("x", 10)}, nil); end != Late || err == nil {
		t.Errorf("%s (%v), want late", end, err)
	}
}
