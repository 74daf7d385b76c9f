package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// deaf is a connection whose other end sends nothing any more once it is cut off, and says nothing of that.
type deaf struct {
	net.Conn
	cut, closed chan struct{}
}

func (d *deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	select {
	case <-d.cut:
		<-d.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (d *deaf) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return d.Conn.Close()
}

// someCertificate is httptest's.
func someCertificate() tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates[0]
}

// TestDeadHTTP2Connection: requests over HTTP/2 to an engine whose host has gone without a word end with their
// connection, and the next one gets another.
func TestDeadHTTP2Connection(t *testing.T) {
	certificate := someCertificate()
	synctest.Test(t, func(t *testing.T) {
		engine := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto)
			}),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, Time: time.Now},
		}
		l := make(pipes, 1)
		served := make(chan error)
		go func() { served <- engine.ServeTLS(l, "", "") }()
		var dialled []*deaf
		transport := proxy.NewTransport(proxy.TransportConfig{
			Connect: time.Second, TLS: &tls.Config{InsecureSkipVerify: true},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				l <- far
				c := &deaf{near, make(chan struct{}), make(chan struct{})}
				dialled = append(dialled, c)
				return c, nil
			},
		})
		ask := func() (string, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://engine/health", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				return "", err
			}
			defer func() { _ = res.Body.Close() }()
			b, err := io.ReadAll(res.Body)
			return string(b), err
		}
		if got, err := ask(); got != "HTTP/2.0" || err != nil {
			t.Fatalf("%q %v", got, err)
		}
		close(dialled[0].cut)
		began, lost := time.Now(), make(chan error, 1)
		go func() { _, err := ask(); lost <- err }()
		select {
		case err := <-lost:
			if took := time.Since(began); err == nil || errors.Is(err, context.Canceled) || took < time.Second {
				t.Errorf("%v after %v", err, took)
			}
		case <-time.After(time.Minute):
			t.Fatal("a request on a dead connection waits for ever")
		}
		if got, err := ask(); got != "HTTP/2.0" || err != nil || len(dialled) != 2 {
			t.Errorf("the next: %q %v, %d connections", got, err, len(dialled))
		}
		synctest.Wait()
		transport.CloseIdleConnections()
		close(l)
		<-served
		_ = engine.Close()
	})
}

// TestRefusedStreams: a request whose streams an endpoint refuses over HTTP/2 is soon sent elsewhere; net/http alone
// would go on for a minute.
func TestRefusedStreams(t *testing.T) {
	certificate := someCertificate()
	type refusal = func(f *http2.Framer, stream uint32) error
	var (
		resets refusal = func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}
		leaves refusal = func(f *http2.Framer, _ uint32) error {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return io.EOF
		}
	)
	for name, row := range map[string]struct {
		method, path, body string
		refuse             refusal // nil refuses the first stream alone
		most               int
		within             time.Duration
	}{
		"each stream":          {"POST", "/v1/chat/completions", chatBody, resets, 3, 2 * time.Second},
		"by leaving":           {"POST", "/v1/chat/completions", chatBody, leaves, 3, 2 * time.Second},
		"the first":            {"POST", "/v1/chat/completions", chatBody, nil, 2, 2 * time.Second},
		"each stream, no body": {"GET", "/v1/files", "", resets, 3, 4 * time.Second},
		"by leaving, no body":  {"GET", "/v1/files", "", leaves, 3, 4 * time.Second},
		"the first, no body":   {"GET", "/v1/files", "", nil, 2, 4 * time.Second},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			l, asked := networkOf(t).listen(), 0
			defer l.Close()
			go serveTLS(l, certificate, func(f *http2.Framer, stream uint32) error {
				asked++
				if row.refuse != nil {
					return row.refuse(f, stream)
				}
				if asked == 1 {
					return resets(f, stream)
				}
				return answerHTTP2(f, stream, chatAnswer)
			})
			transport := proxy.NewTransport(proxy.TransportConfig{
				Connect: time.Second, TLS: &tls.Config{InsecureSkipVerify: true}, Dial: networkOf(t).dial,
			})
			closeIdle(t, transport)
			r := newFleet(t, proxy.Config{}, transport, []fleet.Endpoint{
				{Name: "e0", URL: "https://" + l.addr, Weight: 1},
				{Name: "e1", URL: serveEngine(t, answers(200, chatAnswer)), Weight: 1},
			})
			r.listen(t)
			began := time.Now()
			res, body := r.do(row.method, row.path, row.body)
			if took := time.Since(began); res.StatusCode != 200 || body != chatAnswer || took > row.within {
				t.Errorf("%d %s after %v", res.StatusCode, body, took)
			}
			retried := "e0 engine_error"
			if row.refuse == nil {
				retried = ""
			}
			if got := strings.Join(r.retry, ", "); got != retried || asked > row.most {
				t.Errorf("retried for %q, want %q; e0 was asked %d times", got, retried, asked)
			}
		}))
	}
}

// TestWhyARequestEnded: a request that the router ends fails with what it ended it for, whatever it is sent over.
func TestWhyARequestEnded(t *testing.T) {
	certificate := someCertificate()
	for name, scheme := range map[string]string{"plain": "http", "HTTP/1.1": "https", "HTTP/2": "https"} {
		t.Run(name, bubbled(func(t *testing.T) {
			l := networkOf(t).listen()
			server := &http.Server{
				Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					panic(http.ErrAbortHandler) // an answer to a client that leaves can still reach it
				}),
				TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, Time: time.Now},
			}
			if name == "HTTP/1.1" {
				server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
			}
			go func() {
				if name == "plain" {
					_ = server.Serve(l)
				}
				_ = server.ServeTLS(l, "", "")
			}()
			transport := proxy.NewTransport(proxy.TransportConfig{
				Connect: time.Second, TLS: &tls.Config{InsecureSkipVerify: true}, Dial: networkOf(t).dial,
			})
			why := errors.New("for this reason")
			ctx, end := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { end(why) })
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+l.addr, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := transport.RoundTrip(req); !errors.Is(err, why) {
				t.Errorf("got %v", err)
			}
			synctest.Wait()
			transport.CloseIdleConnections()
			_ = server.Close()
		}))
	}
}

// TestKeptConnectionEndsOverTLS: an endpoint over TLS that closes a kept connection just as a request comes is sent it
// again, as without TLS, and not blamed.
func TestKeptConnectionEndsOverTLS(t *testing.T) {
	certificate := someCertificate()
	bubble(t, func(t *testing.T) {
		l, asked := networkOf(t).listen(), 0
		defer l.Close()
		go func() {
			for {
				plain, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{certificate}})
					defer conn.Close()
					from := bufio.NewReader(conn)
					for n := range 2 {
						req, err := http.ReadRequest(from)
						if err != nil {
							return
						}
						asked++
						_, _ = io.Copy(io.Discard, req.Body)
						if _, told := req.Header["X-Idempotency-Key"]; told {
							t.Error("the endpoint is sent what is for net/http alone")
						}
						if n == 0 {
							_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+
								"Content-Length: "+strconv.Itoa(len(chatAnswer))+"\r\n\r\n"+chatAnswer)
						}
					}
				}()
			}
		}()
		transport := proxy.NewTransport(proxy.TransportConfig{
			Connect: time.Second, TLS: &tls.Config{InsecureSkipVerify: true}, Dial: networkOf(t).dial,
		})
		closeIdle(t, transport)
		r := newFleet(t, proxy.Config{}, transport, []fleet.Endpoint{{Name: "e0", URL: "https://" + l.addr, Weight: 1}})
		r.listen(t)
		for range 3 {
			if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || body != chatAnswer {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		}
		if len(r.retry) > 0 || asked != 5 {
			t.Errorf("retried for %q, asked %d times", r.retry, asked)
		}
		// what may not be repeated is not: on the connection that the last answer has left
		if res, body := r.post("/v1/unknown", chatBody); res.StatusCode != 502 {
			t.Errorf("%d %s", res.StatusCode, body)
		}
		if asked != 6 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// serveTLS serves HTTP/2 and nothing else, and answers whole requests as answer does, until that fails.
func serveTLS(l net.Listener, c tls.Certificate, answer func(f *http2.Framer, stream uint32) error) {
	for {
		plain, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{c}, NextProtos: []string{"h2"}})
			defer conn.Close()
			if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
				return
			}
			f := http2.NewFramer(conn, conn)
			err := f.WriteSettings()
			for err == nil {
				var frame http2.Frame
				if frame, err = f.ReadFrame(); err != nil {
					return
				}
				switch frame := frame.(type) {
				case *http2.SettingsFrame:
					if !frame.IsAck() {
						err = f.WriteSettingsAck()
					}
				case *http2.HeadersFrame:
					if frame.StreamEnded() {
						err = answer(f, frame.StreamID)
					}
				case *http2.DataFrame:
					if frame.StreamEnded() {
						err = answer(f, frame.StreamID)
					}
				}
			}
		}()
	}
}

// answerHTTP2 writes a whole answer.
func answerHTTP2(f *http2.Framer, stream uint32, body string) error {
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	_ = fields.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = fields.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"})
	head := http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}
	if err := f.WriteHeaders(head); err != nil {
		return err
	}
	return f.WriteData(stream, true, []byte(body))
}
