package h1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a server that a test scripts: serve is called for each connection, numbered from 0, and the connection is
// closed when it returns.
type engine struct {
	url   string
	conns int // accepted so far; guarded by mu
	mu    sync.Mutex
}

func newEngine(tb testing.TB, serve func(n int, c net.Conn, r *bufio.Reader)) *engine {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	e := &engine{url: "http://" + ln.Addr().String()}
	var open sync.Map
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			e.mu.Lock()
			n := e.conns
			e.conns++
			e.mu.Unlock()
			wg.Go(func() {
				defer open.Delete(c)
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			})
		}
	})
	tb.Cleanup(func() {
		ln.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return e
}

func (e *engine) accepted() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conns
}

// newClient returns a client that must have no connection left, idle ones apart, when the test ends.
func newClient(tb testing.TB, cfg Config) *Client {
	c := New(cfg)
	tb.Cleanup(func() {
		c.CloseIdleConnections()
		if s := c.Stats(); s.Open != 0 || s.Idle != 0 {
			tb.Errorf("left open: %+v", s)
		}
	})
	return c
}

// answer reads requests with net/http, body included, and answers each with the same bytes.
func answer(raw string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, raw); err != nil {
				return
			}
		}
	}
}

func readRequest(r *bufio.Reader) (*http.Request, []byte, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(req.Body)
	return req, body, err
}

func get(ctx context.Context, tb testing.TB, url string) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}

func post(tb testing.TB, url string, body io.Reader) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, body)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}

// fetch does a request and reads the whole answer.
func fetch(rt http.RoundTripper, req *http.Request) (*http.Response, string, error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	return resp, string(body), err
}

const ok5 = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func TestRequestOnTheWire(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	rows := []struct {
		name   string
		method string
		path   string
		body   io.Reader
		length int64 // sets ContentLength when not zero
		header http.Header
		want   []string // parts of the head
		absent []string
		got    string // the body as the engine decodes it
	}{
		{name: "get", method: "GET", path: "/v1/models?a=b%20c", want: []string{
			"GET /v1/models?a=b%20c HTTP/1.1\r\nHost: 127.0.0.1:",
		}, absent: []string{"Content-Length", "User-Agent"}},
		{name: "post without body", method: "POST", path: "/", want: []string{"Content-Length: 0\r\n"}},
		{
			name: "body in memory", method: "POST", path: "/", body: NewBody([]byte("abc")),
			want: []string{"Content-Length: 3\r\n"}, got: "abc",
		},
		{name: "large body in memory", method: "POST", path: "/", body: NewBody([]byte(big)), got: big},
		{name: "medium body in memory", method: "POST", path: "/", body: NewBody([]byte(big[:9000])), got: big[:9000]},
		{
			name: "body of net/http", method: "POST", path: "/", body: strings.NewReader(big),
			want: []string{fmt.Sprintf("Content-Length: %d\r\n", len(big))}, got: big,
		},
		{
			name: "body of unknown length", method: "POST", path: "/", body: io.MultiReader(strings.NewReader("ab"),
				strings.NewReader(big)), want: []string{"Transfer-Encoding: chunked\r\n"}, got: "ab" + big,
		},
		{
			name: "stream of known length", method: "PUT", path: "/", body: io.MultiReader(strings.NewReader("ab"),
				strings.NewReader("cdef")), length: 5, want: []string{"Content-Length: 5\r\n"}, got: "abcde",
		},
		{
			name: "header", method: "GET", path: "/", header: http.Header{"X-A": {"1", "2"}, "lower": {"täb\there"}},
			want: []string{"X-A: 1\r\nX-A: 2\r\n", "lower: täb\there\r\n"},
		},
		{
			name: "framing is the client's", method: "POST", path: "/", body: NewBody([]byte("abc")),
			header: http.Header{"content-length": {"99"}, "Transfer-Encoding": {
				"chunked",
			}, "HOST": {"evil"}, "Trailer": {"X"}, "Expect": {"100-continue"}}, want: []string{"Content-Length: 3\r\n"},
			absent: []string{"Content-Length: 99", "chunked", "evil", "Trailer", "Expect"}, got: "abc",
		},
		{name: "path to escape", method: "GET", path: "/a%2Fb//c%C3%A4", want: []string{
			"GET /a%2Fb//c%C3%A4 HTTP/1.1",
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			type seen struct{ head, body string }
			got := make(chan seen, 1)
			e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
				var head strings.Builder
				_, body, err := readRequest(bufio.NewReader(io.TeeReader(r, &head)))
				if err != nil {
					t.Errorf("engine could not read the request: %v", err)
				}
				h, _, _ := strings.Cut(head.String(), "\r\n\r\n")
				got <- seen{h + "\r\n", string(body)}
				io.WriteString(c, ok5)
			})
			req, err := http.NewRequestWithContext(t.Context(), row.method, e.url+row.path, row.body)
			if err != nil {
				t.Fatal(err)
			}
			if row.length != 0 {
				req.ContentLength = row.length
			}
			for k, v := range row.header {
				req.Header[k] = v
			}
			_, body, err := fetch(newClient(t, Config{}), req)
			if err != nil || body != "hello" {
				t.Fatalf("got %q, %v", body, err)
			}
			s := <-got
			for _, part := range row.want {
				if !strings.Contains(s.head, part) {
					t.Errorf("head lacks %q:\n%s", part, s.head)
				}
			}
			for _, part := range row.absent {
				if strings.Contains(s.head, part) {
					t.Errorf("head has %q:\n%s", part, s.head)
				}
			}
			if s.body != row.got {
				t.Errorf("body has %d bytes, want %d", len(s.body), len(row.got))
			}
		})
	}
}
