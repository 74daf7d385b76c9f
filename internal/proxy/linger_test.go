package proxy_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestAnswersBeforeTheBody: a client that reads only when it has sent everything gets the answer to a body that is not
// read to its end, by the router or by the engine.
func TestAnswersBeforeTheBody(t *testing.T) {
	const size = 16 << 20 // more than all buffers between the two hold
	engine := func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusUnsupportedMediaType)
	}
	keys := tenants()
	keys.Required = true
	for _, tt := range []struct {
		name, path, coding string
		cfg                proxy.Config
		want               int
	}{
		{"too long", "/v1/chat/completions", "", proxy.Config{BodyBytes: 1 << 20}, 413},
		{"too long, in pieces", "/v1/chat/completions", "chunked", proxy.Config{BodyBytes: 1 << 20}, 413},
		{"compressed", "/v1/chat/completions", "gzip", proxy.Config{}, 415},
		{"no key", "/v1/chat/completions", "", proxy.Config{Tenants: keys}, 401},
		{"refused by the engine", "/v1/audio/transcriptions", "", proxy.Config{}, 415},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.cfg, engine)
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			req, _ := http.NewRequest(http.MethodPost, r.url+tt.path, io.LimitReader(letters{}, size))
			req.Header.Set("Content-Type", "audio/wav")
			if tt.coding == "gzip" {
				req.Header.Set("Content-Encoding", "gzip")
			}
			if tt.coding != "chunked" {
				req.ContentLength = size
			}
			if err := req.Write(conn); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != tt.want {
				t.Errorf("%d, want %d", res.StatusCode, tt.want)
			}
		})
	}
}

// letters are endless.
type letters struct{}

func (letters) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("a"), len(p))), nil }
