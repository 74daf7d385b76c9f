package h1

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// benchEngine answers with little work of its own: it finds the length of a body, discards that many bytes, and
// writes a canned answer.
func benchEngine(b *testing.B, raw string) *engine {
	canned := []byte(raw)
	return newEngine(b, func(_ int, c net.Conn, r *bufio.Reader) {
		r = bufio.NewReaderSize(r, 64<<10)
		for {
			length := 0
			for {
				line, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) == 2 {
					break
				}
				if v, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
					length, _ = strconv.Atoi(strings.TrimSpace(v))
				}
			}
			if _, err := r.Discard(length); err != nil {
				return
			}
			if _, err := c.Write(canned); err != nil {
				return
			}
		}
	})
}

// BenchmarkClient compares this client with http.Transport on loopback. The engine's share is in both.
func BenchmarkClient(b *testing.B) {
	short := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: x\r\nServer: uvicorn\r\n" +
		"Content-Length: 300\r\n\r\n" + strings.Repeat("x", 300)
	event := "data: " + strings.Repeat("x", 192) + "\n\n"
	stream := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", len(event), event), 64) + "0\r\n\r\n"
	for _, row := range []struct {
		name, raw string
		size      int
	}{{"1kB", short, 1 << 10}, {"100kB", short, 100 << 10}, {"stream", stream, 1 << 10}} {
		data := []byte(strings.Repeat("x", row.size))
		for _, side := range []struct {
			name string
			new  func() http.RoundTripper
		}{
			{"h1", func() http.RoundTripper { return New(Config{}) }},
			{"net-http", func() http.RoundTripper {
				return &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
			}},
		} {
			b.Run(row.name+"/"+side.name, func(b *testing.B) {
				e := benchEngine(b, row.raw)
				rt := side.new()
				defer rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
				ctx := b.Context()
				buf := make([]byte, 32<<10)
				b.ReportAllocs()
				for b.Loop() {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost,
						e.url+"/v1/chat/completions", NewBody(data))
					if err != nil {
						b.Fatal(err)
					}
					req.ContentLength = int64(len(data))
					req.Header["Content-Type"] = []string{"application/json"}
					resp, err := rt.RoundTrip(req)
					if err != nil {
						b.Fatal(err)
					}
					for err == nil {
						_, err = resp.Body.Read(buf)
					}
					resp.Body.Close()
				}
			})
		}
	}
}
