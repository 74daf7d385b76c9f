package peers

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// closing is a connection that notes that it is closed.
type closing struct {
	net.Conn
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return c.Conn.Close()
}

// TestCutOverTLS: a connection whose other end reads no more is cut at once: no closing message of TLS is waited for.
func TestCutOverTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conn := &closing{near, make(chan struct{})}
		server := tls.Server(far, &tls.Config{Certificates: s.TLS.Certificates, SessionTicketsDisabled: true})
		go func() { _ = server.Handshake() }()
		client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		now, cut := context.WithCancel(t.Context())
		guard(now, client)
		cut()
		synctest.Wait()
		select {
		case <-conn.closed:
		default:
			t.Error("it is open")
		}
		_ = far.Close()
	})
}

// TestReplies holds that replies which would end the process in the client's own goroutine, or fill the memory, break
// the connection, however they are cut, and that others pass and are counted.
func TestReplies(t *testing.T) {
	for text, want := range map[string]int{
		"+OK\r\n":                                              1,
		"-ERR no\r\n:1\r\n":                                    2,
		"$5\r\nhe\r\no\r\n$-1\r\n*-1\r\n_\r\n":                 4,
		"*2\r\n$0\r\n\r\n*1\r\n:1\r\n":                         1,
		"%1\r\n+server\r\n+redis\r\n":                          1,
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n+OK\r\n": 1,
		"|1\r\n+a\r\n+b\r\n:7\r\n":                             1,
		"*0\r\n%0\r\n":                                         2,
		"=4\r\ntxt:\r\n":                                       1,
		"$4611686018427387904\r\n":                             -1,
		"$2147483647\r\n":                                      -1,
		"*1099511627776\r\n":                                   -1,
		"*2000000\r\n":                                         -1,
		"%1000000\r\n":                                         -1,
		"$-2\r\n":                                              -1,
		"*-5\r\n":                                              -1,
		"%-1\r\n":                                              -1,
		"$?\r\n;4\r\nabcd\r\n":                                 -1,
		"*?\r\n:1\r\n.\r\n":                                    -1,
		"hello\r\n":                                            -1,
		"\r\n":                                                 -1,
		"+OK\n":                                                -1,
		"$+5\r\n":                                              -1,
		"$ 5\r\n":                                              -1,
		strings.Repeat("*1\r\n", 9):                            -1,
		"*900\r\n" + strings.Repeat("*2000\r\n"+strings.Repeat(":1\r\n", 2000), 600): -1,
		strings.Repeat("*1\r\n", 8) + "+x\r\n":                                       1,
		"+" + strings.Repeat("a", 70_000):                                            -1,
		"$33554432\r\n" + strings.Repeat("a", 32<<20) + "\r\n":                       1,
	} {
		for _, step := range []int{len(text), 1, 7} {
			if step < 7 && len(text) > 1<<17 {
				continue
			}
			var r respReader
			got := 0
			for from := 0; from < len(text) && got >= 0; from += step {
				n, ok := r.read([]byte(text[from:min(from+step, len(text))]))
				if got += n; !ok {
					got = -1
				}
			}
			if got != want {
				t.Errorf("%.60q in pieces of %d: %d replies, want %d", text, step, got, want)
			}
		}
	}
}

// FuzzReplies holds that how replies are cut makes no difference.
func FuzzReplies(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$1\r\na\r\n:1\r\n", ">1\r\n+a\r\n+b\r\n", "|1\r\n+a\r\n+b\r\n_\r\n", "$-1\r\n%0\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var whole, pieces respReader
		replies, ok := whole.read(b)
		n, good := 0, true
		for i := range b {
			if good {
				var k int
				k, good = pieces.read(b[i : i+1])
				n += k
			}
		}
		if n != replies || ok != good {
			t.Fatalf("%q: %d %t whole, %d %t in bytes", b, replies, ok, n, good)
		}
	})
}
