package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/proxy"
)

// TestOriginIsTold: engines and logs are told the client that a trusted proxy names, of requests and of upgrades; what
// others say of that is replaced.
func TestOriginIsTold(t *testing.T) {
	trusts, err := forwarded.Parse([]string{"127.0.0.1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		proxies           *forwarded.Proxies
		told, proto, host string
		client, peer      string
	}{
		{nil, "127.0.0.1", "http", "x", "127.0.0.1:", ""},
		{trusts, "1.2.3.4, 198.51.100.7, 127.0.0.1", "https", "api.example", "198.51.100.7", "127.0.0.1:"},
	} {
		seen := make(chan http.Header, 2)
		r := newRig(t, proxy.Config{Proxies: c.proxies}, func(w http.ResponseWriter, req *http.Request) {
			seen <- req.Header
			answers(200, chatAnswer)(w, req)
		})
		said := "Host: x\r\nX-Forwarded-For: 1.2.3.4\r\nx-forwarded-for: 198.51.100.7\r\nX-Forwarded-Proto: https\r\n" +
			"X-Forwarded-Host: api.example\r\nForwarded: for=1.2.3.4\r\nConnection: "
		for i, request := range []string{
			"POST /v1/chat/completions HTTP/1.1\r\n" + said + "close\r\nContent-Length: 13\r\n\r\n" + `{"model":"m"}`,
			"GET /v1/realtime HTTP/1.1\r\n" + said + "Upgrade\r\nUpgrade: websocket\r\n\r\n",
		} {
			conn := r.open(request)
			h := <-seen
			if h.Get("X-Forwarded-For") != c.told || len(h["X-Forwarded-For"]) != 1 ||
				h.Get("X-Forwarded-Proto") != c.proto || h.Get("X-Forwarded-Host") != c.host ||
				h.Get("Forwarded") != "" {
				t.Errorf("the engine was told %v, want %+v", h, c)
			}
			s := r.last(i + 1)
			if !strings.HasPrefix(s.Client, c.client) || !strings.HasPrefix(s.Peer, c.peer) ||
				(s.Peer == "") != (c.peer == "") {
				t.Errorf("client %q through %q, want %+v", s.Client, s.Peer, c)
			}
			_ = conn.Close()
		}
	}
}
