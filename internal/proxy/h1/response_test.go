package h1

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers are raw answers and what must become of them. The same table is read by http.Transport in
// asNetHTTP drops the header that net/http drops.
func asNetHTTP(r *http.Response) {
	if r.ProtoAtLeast(1, 1) && hasToken(r.Header["Connection"], "close") {
		r.Header.Del("Connection")
	}
}

// TestAgreesWithTransport.
var answers = []struct {
	name     string
	method   string // GET when empty
	raw      string // the engine closes the connection after it
	status   int    // 0: RoundTrip must fail
	body     string
	cutBody  bool // reading the body must fail
	kept     bool // the connection must be kept
	stricter bool // http.Transport takes it and this package does not
	laxer    bool // this package takes it and http.Transport does not
}{
	{name: "sized", raw: ok5, status: 200, body: "hello", kept: true},
	{name: "empty", raw: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, kept: true},
	{
		name: "lower case", raw: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: 1\r\nX-A:2  \r\n\r\nhello", status: 200,
		body: "hello", kept: true,
	},
	{name: "no reason", raw: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", kept: true},
	{
		name: "bare line feeds", raw: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", status: 200,
		body: "hello", kept: true,
	},
	{
		name: "asks to close", raw: "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\nhello",
		status: 200, body: "hello",
	},
	{name: "until the end", raw: "HTTP/1.1 200 OK\r\n\r\nhello", status: 200, body: "hello"},
	{name: "1.0 until the end", raw: "HTTP/1.0 200 OK\r\n\r\nhello", status: 200, body: "hello"},
	{name: "1.0 sized", raw: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
	{
		name: "1.0 keep-alive", raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
		status: 200, body: "hello", kept: true,
	},
	{
		name: "cut sized", raw: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", status: 200,
		body: "hello", cutBody: true,
	},
	{name: "more than sized", raw: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello", status: 200, body: "hell"},
	{name: "head", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", status: 200, kept: true},
	{
		name: "head of chunked", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		status: 200, kept: true,
	},
	{
		name: "head of length and chunks", method: "HEAD",
		raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", status: 200,
	},
	{name: "204", raw: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, kept: true},
	{name: "204 that claims a body", raw: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", status: 204},
	{name: "304", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", status: 304, kept: true},
	{
		name: "informational", raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok5,
		status: 200, body: "hello", kept: true,
	},
	{name: "only informational", raw: "HTTP/1.1 100 Continue\r\n\r\n"},
	{name: "upgrade not asked for", raw: "HTTP/1.1 101 Switching Protocols\r\n\r\n", stricter: true},
	{
		name: "unknown status", raw: "HTTP/1.1 799 What\r\nContent-Length: 5\r\n\r\nhello", status: 799,
		body: "hello", kept: true,
	},

	{name: "chunked", raw: chunkedHead + "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", status: 200, body: "hello", kept: true},
	{
		name: "chunk extension", raw: chunkedHead + "3;a=\"b;c\"\r\nhel\r\n2;x \t\r\nlo\r\n0  \r\n\r\n", status: 200,
		body: "hello", kept: true,
	},
	{name: "space before chunk extension", raw: chunkedHead + "5 ;x\r\nhello\r\n0\r\n\r\n", status: 200, cutBody: true},
	{
		name: "chunk sizes", raw: chunkedHead + "00A\r\n0123456789\r\na\r\n0123456789\r\n000\r\n\r\n", status: 200,
		body: "01234567890123456789", kept: true,
	},
	{
		name: "trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n" +
			"0\r\nX-Sum: 7\r\nX-Other: 8\r\n\r\n", status: 200, body: "hello", kept: true,
	},
	{name: "bytes after the last chunk", raw: chunkedHead + "5\r\nhello\r\n0\r\n\r\nHTTP", status: 200, body: "hello"},
	{name: "cut chunk", raw: chunkedHead + "9\r\nhello", status: 200, body: "hello", cutBody: true},
	{name: "cut between chunks", raw: chunkedHead + "5\r\nhello\r\n", status: 200, body: "hello", cutBody: true},
	{
		name: "cut before the trailer's end", raw: chunkedHead + "5\r\nhello\r\n0\r\n", status: 200,
		body: "hello", cutBody: true,
	},
	{name: "chunk too long", raw: chunkedHead + "4\r\nhello\r\n0\r\n\r\n", status: 200, body: "hell", cutBody: true},
	{name: "chunk size negative", raw: chunkedHead + "-5\r\nhello\r\n0\r\n\r\n", status: 200, cutBody: true},
	{name: "chunk size signed", raw: chunkedHead + "+5\r\nhello\r\n0\r\n\r\n", status: 200, cutBody: true},
	{name: "chunk size prefixed", raw: chunkedHead + "0x5\r\nhello\r\n0\r\n\r\n", status: 200, cutBody: true},
	{name: "chunk size indented", raw: chunkedHead + " 5\r\nhello\r\n0\r\n\r\n", status: 200, cutBody: true},
	{name: "chunk size empty", raw: chunkedHead + "\r\nhello\r\n0\r\n\r\n", status: 200, cutBody: true},
	{
		name: "chunk size overflows", raw: chunkedHead + "10000000000000005\r\nhello\r\n0\r\n\r\n",
		status: 200, cutBody: true,
	},
	{
		name: "chunk size over int64", raw: chunkedHead + "ffffffffffffffff\r\nhello", status: 200,
		cutBody: true, stricter: true,
	},
	{name: "chunk size with bare line feed", raw: chunkedHead + "5\nhello\r\n0\r\n\r\n", status: 200, cutBody: true},
	{
		name: "chunk size line without end", raw: chunkedHead + "5;" + strings.Repeat("x", 5000),
		status: 200, cutBody: true,
	},
	{
		name: "nothing but extensions",
		raw:  chunkedHead + strings.Repeat("1;"+strings.Repeat("x", 3000)+"\r\nA\r\n", 10) + "0\r\n\r\n", status: 200,
		body: "AAAAA", cutBody: true,
	},

	{name: "silent close", raw: ""},
	{name: "cut head", raw: "HTTP/1.1 200 OK\r\nContent-Le"},
	{name: "not HTTP", raw: "SSH-2.0-OpenSSH_9.2\r\n\r\n"},
	{name: "empty line first", raw: "\r\n" + ok5},
	{name: "version 2", raw: "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", stricter: true},
	{name: "status too short", raw: "HTTP/1.1 20 OK\r\n\r\n"},
	{name: "status too long", raw: "HTTP/1.1 2000 OK\r\n\r\n"},
	{name: "status signed", raw: "HTTP/1.1 +20 OK\r\n\r\n", stricter: true},
	{name: "status under 100", raw: "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", stricter: true},
	{name: "two spaces", raw: "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", stricter: true},
	{name: "control character in the reason", raw: "HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n", stricter: true},
	{name: "folded line", raw: "HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 5\r\n\r\nhello", stricter: true},
	{name: "space before colon", raw: "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", stricter: true},
	{name: "no colon", raw: "HTTP/1.1 200 OK\r\nfoo\r\n\r\n"},
	{name: "no name", raw: "HTTP/1.1 200 OK\r\n: foo\r\n\r\n"},
	{name: "control character in a value", raw: "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n"},
	{name: "carriage return in a value", raw: "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 0\r\n\r\n"},
	{
		name:   "length and chunks",
		raw:    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		status: 200, body: "hello",
	},
	{
		name:   "other length and chunks",
		raw:    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 999\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		status: 200, body: "hello",
	},
	{name: "chunks in 1.0", raw: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", stricter: true},
	{name: "other coding", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
	{
		name: "chunked twice", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" +
			"Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, body: "hello", laxer: true,
	},
	{name: "chunked in chunked", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
	{
		name: "chunked and another",
		raw:  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	},
	{
		name: "same length twice", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello",
		status: 200, body: "hello", kept: true,
	},
	{name: "two lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"},
	{name: "list of lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello"},
	{name: "signed length", raw: "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"},
	{name: "negative length", raw: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"},
	{name: "length with space", raw: "HTTP/1.1 200 OK\r\nContent-Length: 1 5\r\n\r\nhello"},
	{name: "empty length", raw: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello"},
	{name: "length overflows", raw: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nhello"},
	{
		name: "forbidden trailer",
		raw:  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n",
	},
	{
		name: "trailer with bare line feed", raw: chunkedHead + "5\r\nhello\r\n0\r\nX: y\n\r\n", status: 200,
		body: "hello", cutBody: true,
	},
}

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// once answers the first request of a connection with raw, and closes it when the client has gone quiet about it: a
// client that kept the connection would send more, one that dropped it closes.
func once(raw string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, r *bufio.Reader) {
		if _, _, err := readRequest(r); err != nil {
			return
		}
		io.WriteString(c, raw)
		if half, ok := c.(*net.TCPConn); ok {
			half.CloseWrite()
		}
		_, _ = r.ReadByte()
	}
}

func TestAnswers(t *testing.T) {
	for _, row := range answers {
		t.Run(row.name, func(t *testing.T) {
			e := newEngine(t, once(row.raw))
			c := newClient(t, Config{})
			req := get(t.Context(), t, e.url)
			if row.method != "" {
				req.Method = row.method
			}
			resp, body, err := fetch(c, req)
			if row.status == 0 {
				if err == nil {
					t.Fatalf("got %s with %q, want an error", resp.Status, body)
				}
				return
			}
			if resp == nil {
				t.Fatalf("got error %v", err)
			}
			if resp.StatusCode != row.status || body != row.body || (err != nil) != row.cutBody {
				t.Errorf("got %d, %q, %v; want %d, %q, cut %v",
					resp.StatusCode, body, err, row.status, row.body, row.cutBody)
			}
			if s := c.Stats(); (s.Idle == 1) != row.kept || s.Open != s.Idle {
				t.Errorf("got %+v, want kept %v", s, row.kept)
			}
		})
	}
}

// TestAgreesWithTransport gives the same bytes to both clients: they must see the same answer, or both fail.
func TestAgreesWithTransport(t *testing.T) {
	log.SetOutput(io.Discard) // http.Transport reports bytes after an answer
	defer log.SetOutput(os.Stderr)
	for _, row := range answers {
		t.Run(row.name, func(t *testing.T) {
			e := newEngine(t, once(row.raw))
			transport := &http.Transport{DisableCompression: true}
			defer transport.CloseIdleConnections()
			results := [2]string{}
			for i, rt := range []http.RoundTripper{newClient(t, Config{}), transport} {
				req := get(t.Context(), t, e.url)
				if row.method != "" {
					req.Method = row.method
				}
				resp, body, err := fetch(rt, req)
				switch {
				case resp == nil:
					results[i] = "error"
				default:
					asNetHTTP(resp)
					results[i] = strings.Join([]string{
						resp.Status, resp.Proto, body, cmp.Diff(http.Header{}, resp.Header),
						cmp.Diff(http.Header(nil), resp.Trailer),
						cmp.Diff([]any{}, []any{resp.ContentLength, resp.TransferEncoding, resp.Close, err != nil}),
					}, "\n")
				}
			}
			if agree, differ := results[0] == results[1], row.stricter || row.laxer; agree == differ {
				t.Errorf("agree %v, listed as different %v\nh1: %s\nnet/http: %s",
					agree, differ, results[0], results[1])
			}
		})
	}
}

func TestHeaderTooLarge(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	for _, row := range []struct {
		name, raw string
		want      error
	}{
		{"one line", "HTTP/1.1 200 OK\r\nX: " + long + "\r\nContent-Length: 5\r\n\r\nhello", ErrHeaderTooLarge},
		{"no line end", "HTTP/1.1 200 " + long, ErrHeaderTooLarge},
		{"many lines", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 15<<10) + "\r\n", ErrHeaderTooLarge},
		{"many informational", strings.Repeat("HTTP/1.1 102 P\r\n\r\n", 5000) + ok5, ErrHeaderTooLarge},
		{"long but allowed", "HTTP/1.1 200 OK\r\nX: " + long[:60<<10] + "\r\nContent-Length: 5\r\n\r\nhello", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := newEngine(t, once(row.raw))
			_, body, err := fetch(newClient(t, Config{MaxHeaderBytes: 64 << 10}), get(t.Context(), t, e.url))
			if !errors.Is(err, row.want) || err == nil && body != "hello" {
				t.Errorf("got %q, %v; want error %v", body, err, row.want)
			}
		})
	}
}

// A reader gets bytes as soon as they have arrived: the engine sends the next only when the last have been seen.
func TestStreamIsNotHeldBack(t *testing.T) {
	for _, row := range []struct{ name, head, before, after, last string }{
		{"chunked", chunkedHead, "4\r\n", "\r\n", "0\r\n\r\n"},
		{"sized", "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n", "", "", ""},
		{"to the end", "HTTP/1.1 200 OK\r\n\r\n", "", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			seen := make(chan struct{})
			e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if _, _, err := readRequest(r); err != nil {
					t.Error(err)
				}
				io.WriteString(c, row.head)
				for range 10 {
					<-seen
					io.WriteString(c, row.before+"data"+row.after)
				}
				io.WriteString(c, row.last)
			})
			resp, err := newClient(t, Config{}).RoundTrip(get(t.Context(), t, e.url))
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 32<<10)
			for i := range 10 {
				seen <- struct{}{}
				n := 0
				for n < 4 {
					m, err := resp.Body.Read(buf[n:])
					if n += m; err != nil && n < 4 {
						t.Fatal(err)
					}
				}
				if string(buf[:n]) != "data" {
					t.Fatalf("read %d: got %q", i, buf[:n])
				}
			}
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
				t.Errorf("rest: %q, %v", rest, err)
			}
			resp.Body.Close()
		})
	}
}

func TestUpgrade(t *testing.T) {
	e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if req, err := http.ReadRequest(r); err != nil || req.Header.Get("Upgrade") != "echo" {
			t.Errorf("engine: %v, %v", req, err)
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nfirst ")
		io.Copy(c, r)
	})
	req := get(t.Context(), t, e.url)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	c := newClient(t, Config{})
	resp, err := c.RoundTrip(req)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	rwc := resp.Body.(io.ReadWriteCloser)
	if _, err := io.WriteString(rwc, "second"); err != nil {
		t.Fatal(err)
	}
	if err := rwc.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(rwc); err != nil || string(got) != "first second" {
		t.Errorf("got %q, %v", got, err)
	}
	rwc.Close()
	if s := c.Stats(); s.Open != 0 {
		t.Errorf("got %+v", s)
	}
}
