package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

// closeCounter is a body that counts its Close calls, as RoundTripper promises at least one.
type closeCounter struct {
	io.Reader
	closed chan struct{}
}

func (c *closeCounter) Close() error { close(c.closed); return nil }

func TestBadRequestsAreNotSent(t *testing.T) {
	rows := []struct {
		name string
		edit func(*http.Request)
	}{
		{"https", func(r *http.Request) { r.URL.Scheme = "https" }},
		{"no URL", func(r *http.Request) { r.URL = nil }},
		{"no host", func(r *http.Request) { r.URL.Host = ""; r.Host = "" }},
		{"method with space", func(r *http.Request) { r.Method = "GET /x HTTP/1.1\r\nA: b" }},
		{"connect", func(r *http.Request) { r.Method = "CONNECT" }},
		{"host with line break", func(r *http.Request) { r.Host = "a\r\nX: y" }},
		{"host with space", func(r *http.Request) { r.Host = "a b" }},
		{"host that is not ASCII", func(r *http.Request) { r.URL.Host = "ä.example" }},
		{"value with line break", func(r *http.Request) { r.Header["X"] = []string{"a\r\nY: b"} }},
		{"value with bare line feed", func(r *http.Request) { r.Header["X"] = []string{"a\nY: b"} }},
		{"value with NUL", func(r *http.Request) { r.Header["X"] = []string{"a\x00"} }},
		{"name with colon", func(r *http.Request) { r.Header["X: y\r\nZ"] = []string{"a"} }},
		{"empty name", func(r *http.Request) { r.Header[""] = []string{"a"} }},
		{"query with line break", func(r *http.Request) { r.URL.RawQuery = "a=b HTTP/1.1\r\nX: y" }},
		{"opaque with space", func(r *http.Request) { r.URL.Opaque = "/x y" }},
		{"opaque that is no path", func(r *http.Request) { r.URL.Opaque = "%25" }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := newClient(t, Config{Dial: func(context.Context, string, string) (net.Conn, error) {
				t.Error("dialed")
				return nil, errors.New("dialed")
			}})
			body := &closeCounter{strings.NewReader("x"), make(chan struct{})}
			req := post(t, "http://127.0.0.1:1/", body)
			row.edit(req)
			if _, err := c.RoundTrip(req); !errors.Is(err, ErrBadRequest) {
				t.Errorf("got error %v, want ErrBadRequest", err)
			}
			<-body.closed
		})
	}
	c := newClient(t, Config{})
	req := post(t, "http://127.0.0.1:1/", NewBody([]byte("abc")))
	req.ContentLength = 4
	if _, err := c.RoundTrip(req); !errors.Is(err, ErrBadRequest) {
		t.Errorf("wrong length: got error %v, want ErrBadRequest", err)
	}
}

func TestDialErrorSaysNothingWasSent(t *testing.T) {
	boom := errors.New("boom")
	c := newClient(t, Config{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, boom }})
	body := &closeCounter{strings.NewReader("x"), make(chan struct{})}
	_, err := c.RoundTrip(post(t, "http://engine.example/", body))
	var dial *DialError
	if !errors.As(err, &dial) || !errors.Is(err, boom) || dial.Addr != "engine.example:80" {
		t.Errorf("got %v, want a DialError for engine.example:80", err)
	}
	<-body.closed
}

// A body that breaks must not look complete to the engine, and must wake the caller, which waits for an answer.
func TestBrokenRequestBody(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		name   string
		body   io.Reader
		length int64
		want   error
	}{
		{"chunked", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(boom)), -1, boom},
		{"sized", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(boom)), 10, boom},
		{"short", io.MultiReader(strings.NewReader("abc")), 10, io.ErrUnexpectedEOF},
	} {
		t.Run(row.name, func(t *testing.T) {
			result := make(chan error, 1)
			e := newEngine(t, func(_ int, _ net.Conn, r *bufio.Reader) {
				_, _, err := readRequest(r)
				result <- err
			})
			body := &closeCounter{row.body, make(chan struct{})}
			req := post(t, e.url, body)
			req.ContentLength = row.length
			if _, err := newClient(t, Config{}).RoundTrip(req); !errors.Is(err, row.want) {
				t.Errorf("got error %v, want %v", err, row.want)
			}
			if err := <-result; err == nil {
				t.Error("the engine took the broken body for a whole one")
			}
			<-body.closed
		})
	}
}

// An engine may refuse a request before it has read it. The answer must come through, whether it goes on reading,
// stops, or closes; and the connection must not be used again.
func TestEarlyAnswer(t *testing.T) {
	const refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig"
	huge := make([]byte, 32<<20) // more than any socket buffer takes
	for _, row := range []struct {
		name string
		body func() io.Reader
	}{
		{"memory", func() io.Reader { return NewBody(huge) }},
		{"stream", func() io.Reader { return io.MultiReader(strings.NewReader(string(huge))) }},
		{"stream that never ends", func() io.Reader { r, _ := io.Pipe(); return r }},
	} {
		t.Run(row.name, func(t *testing.T) {
			left := make(chan struct{})
			e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err != nil {
					t.Errorf("engine: %v", err)
				}
				io.WriteString(c, refusal)
				<-left // neither reads nor closes
			})
			c := newClient(t, Config{})
			source := row.body()
			resp, body, err := fetch(c, post(t, e.url, source))
			if err != nil || resp.StatusCode != 413 || body != "big" {
				t.Errorf("got %v, %q, %v", resp, body, err)
			}
			if s := c.Stats(); s.Open != 0 {
				t.Errorf("connection not closed: %+v", s)
			}
			close(left)
			if pipe, ok := source.(*io.PipeReader); ok {
				pipe.Close()
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for _, row := range []struct{ url, addr, host string }{
		{"http://engine/", "engine:80", "engine"},
		{"http://engine:/", "engine:80", "engine:"},
		{"http://engine:8000/", "engine:8000", "engine:8000"},
		{"http://[::1]/", "[::1]:80", "[::1]"},
		{"http://[fe80::1%25en0]:8000/", "[fe80::1%en0]:8000", "[fe80::1]:8000"},
	} {
		u, err := url.Parse(row.url)
		if err != nil {
			t.Fatal(err)
		}
		out, err := prepare(&http.Request{URL: u})
		if err != nil {
			t.Errorf("%s: %v", row.url, err)
			continue
		}
		if out.addr != row.addr || !strings.Contains(string(*out.head), "\r\nHost: "+row.host+"\r\n") {
			t.Errorf("%s: connects to %s with %q", row.url, out.addr, *out.head)
		}
	}
}
