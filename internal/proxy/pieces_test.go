package proxy_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestPiecesOfAllSizes: an answer in pieces around the sizes of the relay's buffers arrives as it was sent.
func TestPiecesOfAllSizes(t *testing.T) {
	var sent bytes.Buffer
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{1, 4095, 4096, 4097, 10, 8192, 32767, 32768, 32769, 70_000, 3, 100_000, 4096, 4096, 200}
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for _, n := range sizes {
			piece := make([]byte, n)
			for i := range piece {
				piece[i] = 'a' + byte(rng.IntN(26))
			}
			sent.Write(piece)
			w.Write(piece)
			w.(http.Flusher).Flush()
		}
	})
	res, body := r.post("/v1/chat/completions", chatBody)
	if res.StatusCode != 200 || body != sent.String() {
		t.Errorf("%d, %d bytes, %d were sent", res.StatusCode, len(body), sent.Len())
	}
}
