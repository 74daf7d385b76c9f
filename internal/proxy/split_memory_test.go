package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestRepliesCountInMemory: a prefiller's reply counts in the memory of requests for as long as the request lasts. One
// for which there is no room costs the client nothing, since the decoder computes the prompt itself, and no engine
// is blamed.
func TestRepliesCountInMemory(t *testing.T) {
	const reply = 200 << 10
	for name, limit := range map[string]int64{"room": 1 << 20, "no room": 100 << 10} {
		t.Run(name, func(t *testing.T) {
			answering, on := make(chan struct{}), make(chan struct{})
			whole := strings.Replace(handedOver, "{", `{"padding":"`+strings.Repeat("x", reply)+`",`, 1)
			l := newLegs(t, proxy.Config{MemoryBytes: limit, BodyBytes: 50 << 10}, map[string]engineHandler{
				"p0": answers(200, whole), "p1": answers(200, whole),
				"d0": func(w http.ResponseWriter, r *http.Request) {
					close(answering)
					<-on
					streams(chunk("hi"), usageChunk, doneChunk)(w, r)
				},
			})
			done := make(chan string)
			go func() {
				_, body := l.post("/v1/chat/completions", splitStream)
				done <- body
			}()
			<-answering
			held := l.proxy.BodyMemory().Held
			close(on)
			if body := <-done; body != goodAnswer {
				t.Errorf("the client got %s", body)
			}
			l.mu.Lock()
			split := len(l.taken) > 0
			l.mu.Unlock()
			if room := limit > reply; split != room || (held > reply) != room {
				t.Errorf("split %v, %d bytes held meanwhile", split, held)
			}
			l.check()
		})
	}
}
