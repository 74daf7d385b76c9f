package enginetest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/sim/text"
)

// BenchmarkChatStream is the cost of one streamed answer of 64 tokens to a cached prompt of 2,000, including client and
// loopback, on an engine that takes no time.
func BenchmarkChatStream(b *testing.B) {
	s, err := enginetest.New(enginetest.Options{Models: []string{"m"}, Speed: 1e6})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	body := chatBody(text.Of(1, 2000), `,"max_tokens":64,"ignore_eos":true,"stream":true`)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}
