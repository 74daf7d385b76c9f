package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// leaves is how a client asks and leaves.
type leaves struct {
	name          string
	request       string
	encrypted, h2 bool
	midway        bool // it has had a part of the answer
	goesOn        bool // the engine writes on until it is told to end
	how           func(t *testing.T, c *leaver)
}

// leaver is a client that has asked.
type leaver struct {
	tcp    *net.TCPConn
	conn   net.Conn           // over TLS, if it has that
	cancel context.CancelFunc // of a request over HTTP/2
}

func closes(_ *testing.T, c *leaver) { _ = c.conn.Close() }

func closesUnderTLS(_ *testing.T, c *leaver) { _ = c.tcp.Close() }

func resets(t *testing.T, c *leaver) {
	if err := c.tcp.SetLinger(0); err != nil {
		t.Error(err)
	}
	_ = c.tcp.Close()
}

func closesItsHalf(t *testing.T, c *leaver) {
	if err := c.conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
}

func endsItsStream(_ *testing.T, c *leaver) { c.cancel() }

const (
	leavingBody    = `{"model":"m","stream":true}`
	leavingHead    = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
	leavingSized   = leavingHead + "Content-Length: 27\r\n\r\n" + leavingBody
	leavingChunked = leavingHead + "Transfer-Encoding: chunked\r\n\r\n1b\r\n" + leavingBody + "\r\n0\r\n\r\n"
	leavingBare    = "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"
)

// TestClientLeaves: however a client leaves, and whenever, the engine stops and the request counts as left.
func TestClientLeaves(t *testing.T) {
	var rows []leaves
	for _, midway := range []bool{false, true} {
		at := map[bool]string{false: "before the first byte", true: "within the stream"}[midway]
		for name, how := range map[string]func(*testing.T, *leaver){
			"closes": closes, "resets": resets, "closes its half": closesItsHalf,
		} {
			for body, request := range map[string]string{
				"sized": leavingSized, "chunked": leavingChunked, "no body": leavingBare,
			} {
				rows = append(rows, leaves{
					name: fmt.Sprintf("HTTP/1, %s, %s %s", body, name, at), request: request, midway: midway, how: how,
				})
			}
			rows = append(rows, leaves{
				name: fmt.Sprintf("TLS, %s %s", name, at), request: leavingSized, encrypted: true,
				midway: midway, how: how,
			})
		}
		rows = append(rows, leaves{
			name: "TLS, closes without a word " + at, request: leavingSized, encrypted: true, midway: midway,
			how: closesUnderTLS,
		})
		for _, encrypted := range []bool{false, true} {
			for name, how := range map[string]func(*testing.T, *leaver){
				"closes": closesUnderTLS, "resets": resets, "ends its stream": endsItsStream,
			} {
				rows = append(rows, leaves{
					name: fmt.Sprintf("HTTP/2, TLS %v, %s %s", encrypted, name, at), encrypted: encrypted, h2: true,
					midway: midway, how: how,
				})
			}
		}
	}
	// net/http no longer looks at a connection on which another request waits: the next write to the client tells.
	rows = append(rows,
		leaves{
			name: "pipelined, closes within the stream", request: leavingSized + leavingSized, midway: true,
			goesOn: true, how: closes,
		},
		leaves{
			name: "pipelined, resets within the stream", request: leavingSized + leavingBare, midway: true,
			goesOn: true, how: resets,
		},
	)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			arrived, stopped := make(chan struct{}), make(chan struct{})
			r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				if row.midway {
					_, _ = io.WriteString(w, chunk("x"))
					_ = http.NewResponseController(w).Flush()
				}
				close(arrived)
				for row.goesOn && req.Context().Err() == nil {
					_, _ = io.WriteString(w, chunk(strings.Repeat("x", 1000)))
				}
				<-req.Context().Done()
				close(stopped)
			})
			c, answer := row.ask(t, r)
			<-arrived
			if row.midway {
				if got, err := bufio.NewReader(answer()).ReadString('}'); err != nil ||
					!strings.Contains(got, "data: ") {
					t.Errorf("got %q, %v", got, err)
				}
			}
			row.how(t, c)
			<-stopped
			if s := r.last(1); s.Outcome != fleet.ClientGone {
				t.Errorf("told %+v", s)
			}
		})
	}
}

// ask sends the request to a listener as a router has one. The function waits for the answer over HTTP/2.
func (l *leaves) ask(t *testing.T, r *rig) (*leaver, func() io.Reader) {
	t.Helper()
	front := httptest.NewUnstartedServer(r.proxy)
	front.Listener = plainListener(front.Listener, r.idle)
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetHTTP1(true)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	if front.EnableHTTP2 = true; l.encrypted {
		front.Config.Protocols.SetHTTP2(true)
		front.StartTLS()
	} else {
		front.Start()
	}
	t.Cleanup(front.Close)
	dialled, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialled.Close() })
	c := &leaver{tcp: dialled.(*net.TCPConn), conn: dialled}
	if !l.h2 {
		if l.encrypted {
			c.conn = tls.Client(dialled, &tls.Config{InsecureSkipVerify: true})
		}
		if _, err := io.WriteString(c.conn, l.request); err != nil {
			t.Fatal(err)
		}
		return c, func() io.Reader { return c.conn }
	}
	transport := front.Client().Transport.(*http.Transport)
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP2(l.encrypted)
	transport.Protocols.SetUnencryptedHTTP2(!l.encrypted)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return dialled, nil }
	closeIdle(t, transport)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c.cancel = cancel
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL+"/v1/chat/completions",
		strings.NewReader(leavingBody))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan io.ReadCloser, 1)
	go func() {
		defer close(answered)
		res, err := transport.RoundTrip(req)
		if err != nil {
			return
		}
		if res.ProtoMajor != 2 {
			t.Errorf("over %s", res.Proto)
		}
		answered <- res.Body
	}()
	return c, func() io.Reader {
		body := <-answered
		if body == nil {
			return strings.NewReader("")
		}
		t.Cleanup(func() { _ = body.Close() })
		return body
	}
}

// TestPipelinedRequests: a client that sends several requests at once gets an answer to each, in order.
func TestPipelinedRequests(t *testing.T) {
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, _ = fmt.Fprintf(w, "%s %d", req.URL.Path, len(body))
	})
	long := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 30_000) + `"}]}`
	sent := []string{
		leavingSized, leavingBare, leavingChunked,
		fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", leavingHead, len(long), long), leavingBare,
	}
	conn, err := dialTo(t, strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, strings.Join(sent, "")); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for i, want := range []string{
		"/v1/chat/completions ", "/slow 0", "/v1/chat/completions ", "/v1/chat/completions ", "/slow 0",
	} {
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK ||
			!strings.HasPrefix(string(got), want) {
			t.Errorf("answer %d: %d %q, %v, want %q", i, res.StatusCode, got, err, want)
		}
	}
}
