package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// closing is an engine in memory that reads nothing of a request and closes its body, as an http.RoundTripper must.
type closing struct{ answer string }

func (t closing) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	return &http.Response{
		StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(t.answer)), Body: io.NopCloser(strings.NewReader(t.answer)), Request: r,
	}, nil
}

// BenchmarkBody is what one request costs by the size of its body, over a connection of the client's and to an engine
// in memory.
func BenchmarkBody(b *testing.B) {
	for _, size := range []int{1, 8, 100, 500} {
		b.Run(fmt.Sprint(size, "kB"), func(b *testing.B) {
			r := newFleet(b, proxy.Config{}, closing{chatAnswer},
				[]fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}})
			front := httptest.NewUnstartedServer(r.proxy)
			front.Listener = plainListener(front.Listener, r.idle)
			front.Start()
			defer front.Close()
			conn, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			body := `{"model":"m","messages":[{"role":"user","content":"`
			body += strings.Repeat("x", size<<10-len(body)-4) + `"}]}`
			request := []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
				"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
			in := bufio.NewReaderSize(conn, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if len(bytes.TrimSpace(line)) == 0 {
						break
					}
				}
				if _, err := in.Discard(len(chatAnswer)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
