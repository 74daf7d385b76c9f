package forwarded

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// v2 is a header of version 2 from one address to another.
func v2(t *testing.T, from string) string {
	t.Helper()
	to := &net.TCPAddr{IP: net.IPv6loopback, Port: 80}
	at, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	if at.IP.To4() != nil {
		to.IP = net.IPv4(127, 0, 0, 1)
	}
	b, err := proxyproto.HeaderProxyFromAddrs(2, at, to).Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestListener: a connection of a trusted proxy is its client's, and any other ends.
func TestListener(t *testing.T) {
	const here = "127.0.0.1"
	for _, c := range []struct {
		name, trusted, says string
		want                string // address of the client; "" where the connection ends
	}{
		{"version 1", here, "PROXY TCP4 198.51.100.7 127.0.0.1 4711 80\r\n", "198.51.100.7:4711"},
		{"version 1, IPv6", here, "PROXY TCP6 2001:db8::7 ::1 4711 80\r\n", "[2001:db8::7]:4711"},
		{"version 2", here, v2(t, "198.51.100.7:4711"), "198.51.100.7:4711"},
		{"version 2, IPv6", here, v2(t, "[2001:db8::7]:4711"), "[2001:db8::7]:4711"},
		{"a question of the proxy's own", here, string(proxyproto.SIGV2) + "\x20\x00\x00\x00", here},
		{"it does not know", here, "PROXY UNKNOWN\r\n", here},
		{"nothing", here, "", ""},
		{"no header", here, "GET / HTTP/1.1\r\n", ""},
		{"half a header", here, "PROXY TCP4 198.51", ""},
		{"rubbish for a header", here, "PROXY TCP4 a b c d\r\n", ""},
		{"not trusted", "10.0.0.0/8", "PROXY TCP4 198.51.100.7 127.0.0.1 4711 80\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			proxies := mustParse(t, "", c.trusted)
			var log strings.Builder
			l = Listener(l, func() *Proxies { return proxies }, time.Hour, slog.New(slog.NewTextHandler(&log, nil)))
			var wg sync.WaitGroup
			defer wg.Wait()
			defer l.Close()
			wg.Go(func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					if _, below := Unwrap(conn).(*net.TCPConn); !below {
						t.Errorf("below is %T", Unwrap(conn))
					}
					line, err := bufio.NewReader(conn).ReadString('\n')
					if err == nil {
						_, _ = io.WriteString(conn, conn.RemoteAddr().String()+" said "+line)
					}
					_ = conn.Close()
				}
			})
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			says := c.says
			if c.want != "" {
				says += "hello\n"
			}
			_, _ = io.WriteString(conn, says)
			_ = conn.(*net.TCPConn).CloseWrite()
			got, _ := io.ReadAll(conn)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("it was answered %q", got)
			case c.want != "" &&
				(!strings.HasPrefix(string(got), c.want) || !strings.HasSuffix(string(got), " said hello\n")):
				t.Errorf("got %q, want a client at %s", got, c.want)
			}
			_ = l.Close()
			wg.Wait()
			if told, want := strings.Count(log.String(), "a connection was "), 1; c.want != "" || c.says == "" {
				if told != 0 {
					t.Errorf("the log has %s", log.String())
				}
			} else if told != want || !strings.Contains(log.String(), "from=127.0.0.1:") {
				t.Errorf("the log has %q, want why the connection ended", log.String())
			}
		})
	}
}
