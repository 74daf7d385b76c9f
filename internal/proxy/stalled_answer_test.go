package proxy_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestAnswerThatStops: once a plain answer has begun, silence is limited, and no longer by the time that a whole answer
// may take.
func TestAnswerThatStops(t *testing.T) {
	stops := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"choices":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, proxy.Config{Answer: time.Hour, Idle: 3 * time.Second}, stops, answers(200, chatAnswer))
		began := time.Now()
		res, body := r.post("/v1/chat/completions", chatBody)
		if took := time.Since(began); res.StatusCode != 200 || body != chatAnswer || took > time.Minute {
			t.Errorf("%d %s after %s", res.StatusCode, body, took)
		}
	})
}

// TestErrorThatStops: the router waits ten seconds for the text of an error. That holds for each status and for each
// reader of the text.
func TestErrorThatStops(t *testing.T) {
	for _, status := range []int{400, 401, 404, 405, 418, 422, 429, 500, 503} {
		for name, head := range map[string]string{
			"a length": "Content-Length: 100\r\n\r\n", "chunks": "Transfer-Encoding: chunked\r\n\r\n",
			"a part": "Content-Length: 100\r\n\r\n{\"error\":", "until the end": "\r\n",
		} {
			t.Run(strconv.Itoa(status)+", "+name, func(t *testing.T) {
				stops := func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					conn, _, _ := http.NewResponseController(w).Hijack()
					defer conn.Close()
					_, _ = io.WriteString(conn, "HTTP/1.1 "+strconv.Itoa(status)+
						" X\r\nContent-Type: application/json\r\n"+head)
					_, _ = conn.Read(make([]byte, 1)) // until the router gives up
				}
				for _, body := range []string{chatBody, streamBody} {
					bubble(t, func(t *testing.T) {
						r := newRig(t, proxy.Config{Answer: time.Hour, FirstByte: time.Hour}, stops, stops, stops)
						began := time.Now()
						res, err := r.client.Post(r.url+"/v1/chat/completions", "application/json",
							strings.NewReader(body))
						if err == nil {
							_, _ = io.Copy(io.Discard, res.Body)
							_ = res.Body.Close()
						}
						if took := time.Since(began); took > time.Minute {
							t.Errorf("after %s: %v %v", took, res, err)
						}
					})
				}
			})
		}
	}
}
