package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestWhichListener: clients' connections are read with raw system calls only if that is asked for, and the listener
// and the client towards engines are chosen as the setting says.
func TestWhichListener(t *testing.T) {
	for setting, want := range map[string]struct {
		listener string // the type of a client's connection
		netHTTP  bool   // towards engines
	}{
		"":                         {"*h1.boundConn", false},
		"transport: lean":          {"*h1.boundConn", false},
		"transport: lean-listener": {"*h1.serverConn", false},
		"transport: net/http":      {"*h1.boundConn", true},
	} {
		cfg, err := config.Parse("w.yaml", []byte(setting), nil)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := clientsOn(plain, &cfg)
		c, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "linux" {
			want.listener = "*h1.boundConn"
		}
		if got := fmt.Sprintf("%T", accepted); got != want.listener || cfg.NetHTTP() != want.netHTTP {
			t.Errorf("%q: %s, net/http to engines %v, want %+v", setting, got, cfg.NetHTTP(), want)
		}
		_, _, _ = accepted.Close(), c.Close(), l.Close()
	}
	_, err := config.Parse("w.yaml", []byte("transport: listener"), nil)
	if err == nil || !strings.Contains(err.Error(),
		`w.yaml:1:1: transport: is "listener", must be one of lean, lean-listener, net/http`) {
		t.Errorf("got %v", err)
	}
}

// TestAmbiguousRequests: a request with chunks and a length is answered, and what follows on its connection is not, on
// each kind of listener.
func TestAmbiguousRequests(t *testing.T) {
	for _, transport := range []string{"lean", "lean-listener", "net/http"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1, func(c *config.Config) { c.Transport = transport })
			for _, at := range []string{r.url + "/v1/chat/completions", r.adminURL + "/admin/endpoints"} {
				u, err := url.Parse(at)
				if err != nil {
					t.Fatal(err)
				}
				c, err := net.Dial("tcp", u.Host)
				if err != nil {
					t.Fatal(err)
				}
				body := `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`
				_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n"+
					"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"+
					"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", u.Path, len(body), body)
				answers := bufio.NewReader(c)
				res, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				if rest, _ := io.ReadAll(answers); !res.Close || len(rest) > 0 {
					t.Errorf("%s: answered %d, closes %v, then %q", at, res.StatusCode, res.Close, rest)
				}
				if at == r.url+"/v1/chat/completions" && res.StatusCode != http.StatusOK {
					t.Errorf("%s: answered %d", at, res.StatusCode)
				}
				_ = c.Close()
			}
		})
	}
}
