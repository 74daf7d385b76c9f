package h1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told is what one request is answered: a part of a response that tests compare.
type told struct {
	Status string
	Header http.Header
	Body   string
	Failed bool // before the header, or in the body
}

// askFor sends one request and reads its answer, or only the first bytes of its body.
func askFor(c *Client, method, url string, body []byte, atMost int64) told {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // an answer that is waited for in vain
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return told{Status: err.Error(), Failed: true}
	}
	if len(body) > 0 {
		req.Body = NewBody(body)
	}
	resp, err := c.RoundTrip(req)
	if err != nil {
		return told{Failed: true}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, atMost))
	return told{resp.Status, resp.Header, string(got), err != nil}
}

// whole reports whether net/http takes the beginning of raw for an answer after which the connection goes on.
func whole(raw []byte, method string) bool {
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return false
		}
		if res.StatusCode < 200 {
			continue
		}
		_, err = io.Copy(io.Discard, res.Body)
		return err == nil && !res.Close
	}
}

// FuzzTwoExchanges puts two requests to one engine, whose answers are any bytes. Whatever the first answer is, and
// however much of it is read, the second request gets what it gets on a connection of its own: nothing of the first
// answer, nor of what followed it.
func FuzzTwoExchanges(f *testing.F) {
	for i, row := range answers {
		f.Add([]byte(row.raw), []byte(ok5), row.method == http.MethodHead, false, uint16(i), uint8(255))
		f.Add([]byte(row.raw+ok5), []byte(chunkedHead+"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
			row.method == http.MethodHead, i%3 == 0, uint16(9000), uint8(255*(i%2)))
	}
	const long = "HTTP/1.1 200 OK\r\nContent-Length: 4200\r\n\r\n" // what follows its body stays in the socket
	for _, length := range []uint16{0, 10_000, 18_000} {
		f.Add([]byte(long+strings.Repeat("x", 4200)+ok5), []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
			false, false, length, uint8(255))
	}
	type script struct{ first, second []byte }
	var now atomic.Pointer[script] // one fuzz call at a time; connections of earlier ones may still be on their way out
	e := newEngine(f, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, _, err := readRequest(r)
			if err != nil {
				return
			}
			s := now.Load()
			if req.URL.Path == "/second" {
				_, _ = c.Write(s.second)
				return
			}
			if _, _ = c.Write(s.first); !whole(s.first, req.Method) {
				return
			}
		}
	})
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // leaves no port behind
		}
		return c, err
	}
	f.Fuzz(func(t *testing.T, first, second []byte, isHead, thenHead bool, length uint16, part uint8) {
		if len(first) > 8<<10 || len(second) > 8<<10 { // what arrives at once
			return
		}
		now.Store(&script{first, second})
		method := map[bool]string{false: http.MethodPut, true: http.MethodHead}
		body := bytes.Repeat([]byte("b"), int(length)%(20<<10))
		fresh, kept := New(Config{Dial: dial}), New(Config{Dial: dial})
		defer kept.CloseIdleConnections()
		want := askFor(fresh, method[thenHead], e.url+"/second", body, 1<<20)
		fresh.CloseIdleConnections()
		atMost := int64(part)
		if part == 255 {
			atMost = 1 << 20
		}
		answer := askFor(kept, method[isHead], e.url+"/first", nil, atMost)
		got := askFor(kept, method[thenHead], e.url+"/second", body, 1<<20)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("behind %q %.40q the second answer is another one: %s", answer.Status, answer.Body, diff)
		}
		if s := kept.Stats(); s.Open != s.Idle || s.Reused > 0 && (answer.Failed || !whole(first, method[isHead])) {
			t.Errorf("%+v behind %q %.40q", s, answer.Status, answer.Body)
		}
	})
}

// FuzzRequest writes a request of any parts. It is refused, or what is written is that one request, as net/http reads
// it, and nothing else.
func FuzzRequest(f *testing.F) {
	for _, row := range []struct{ method, host, target, name, value, body string }{
		{"GET", "h", "/v1/models?a=b%20c", "X-A", "1", ""},
		{"POST", "h:80", "/v1/chat/completions", "Content-Length", "99", "abc"},
		{"POST", "[::1%25lo]:8000", "/a%2Fb//c", "transfer-encoding", "chunked", strings.Repeat("x", 9000)},
		{"PUT", "h", "/", "Connection", "close", "a"},
		{"GET", "h", "/", "X-A", "1\r\nHost: evil", ""},
		{"GET /x HTTP/1.1\r\nHost: evil\r\n\r\nGET", "h", "/", "X-A\r\nX-B", "1", ""},
		{"PATCH", "h", "http://other/path", "Expect", "100-continue", "ab"},
		{"DELETE", "h\r\nX: y", "*", "Trailer", "X", "0\r\n\r\nGET / HTTP/1.1\r\n\r\n"},
		{"OPTIONS", "h", "//x/y", "connection", "upgrade, Close", ""},
	} {
		for kind := range uint8(5) {
			f.Add(row.method, row.host, row.host, row.target, row.name, row.value, []byte(row.body), kind)
		}
	}
	f.Fuzz(func(t *testing.T, method, host, named, target, name, value string, body []byte, kind uint8) {
		req, err := http.NewRequest(http.MethodGet, "http://h/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := req.URL.Parse(target); err == nil {
			req.URL.Path, req.URL.RawPath, req.URL.RawQuery, req.URL.Opaque, req.URL.ForceQuery = u.Path, u.RawPath,
				u.RawQuery, u.Opaque, u.ForceQuery
		} else {
			req.URL.Path = target
		}
		req.Method, req.URL.Host, req.Host = method, host, named
		req.Header = http.Header{name: {value, "second"}, "X-Fixed": {"value"}}
		switch kind % 5 {
		case 0:
			req.Body = NewBody(body)
		case 1:
			at := len(body) / 2
			req.Body = NewPieces([][]byte{body[:at], body[at:]})
		case 2:
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		case 3:
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
		default:
			body = nil
		}
		wire, err := written(req)
		if err != nil {
			if len(wire) > 0 {
				t.Fatalf("refused after %q was written: %v", wire, err)
			}
			return
		}
		r := bufio.NewReader(bytes.NewReader(wire))
		got, gotBody, err := readRequest(r)
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", wire, err)
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("%q follows the request", rest)
		}
		if method == "" {
			method = http.MethodGet
		}
		if named == "" {
			named = host
		}
		if got.Method != method || got.RequestURI != req.URL.RequestURI() || got.Host != withoutZone(named) ||
			!bytes.Equal(gotBody, body) {
			t.Errorf("%s %q of %q with %q, want %s %q of %q with %q", got.Method, got.RequestURI, got.Host, gotBody,
				method, req.URL.RequestURI(), named, body)
		}
		for _, k := range []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer", "Expect"} {
			if strings.EqualFold(k, name) {
				name = ""
			}
		}
		want := http.Header{"X-Fixed": {"value"}}
		if name != "" {
			for _, v := range []string{value, "second"} {
				want.Add(name, trimSpace(v))
			}
		}
		got.Header.Del("Content-Length")
		if strings.EqualFold(name, "Connection") { // the client adds what req.Close says
			want.Del(name)
			got.Header.Del(name)
		}
		if diff := cmp.Diff(want, got.Header); diff != "" {
			t.Errorf("header: %s", diff)
		}
	})
}

// written is what a Client writes of a request on a fresh connection.
func written(req *http.Request) ([]byte, error) {
	near, far := net.Pipe()
	wire := make(chan []byte, 1)
	go func() {
		var all bytes.Buffer
		_, _, _ = readRequest(bufio.NewReader(io.TeeReader(far, &all)))
		_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(&all, far)
		_ = far.Close()
		wire <- all.Bytes()
	}()
	c := New(Config{Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
	resp, err := c.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	c.CloseIdleConnections()
	_ = near.Close()
	return <-wire, err
}
