package proxy_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/route"
)

const tokenHeader = "X-Session-Token"

func tokens() proxy.Config {
	return proxy.Config{
		Token:   identity.NewEndpointToken("x-session-token", []byte("a secret of sixteen bytes")),
		Pinning: true, Explain: true,
	}
}

func chatOnce(r *rig, header ...string) (endpoint, token string) {
	r.t.Helper()
	res, body := r.post("/v1/chat/completions", `{"model":"m","messages":[]}`, header...)
	if res.StatusCode != 200 {
		r.t.Fatalf("%d %s", res.StatusCode, body)
	}
	return res.Header.Get("X-Warmpath-Endpoint"), res.Header.Get(tokenHeader)
}

// A client without an id that brings the token back stays, also with another replica that has the same secret.
func TestEndpointTokenBringsBack(t *testing.T) {
	var in inbox
	r := newRig(t, tokens(), in.handler, in.handler, in.handler)
	first, token := chatOnce(r, "X-Warmpath-Exclude", "e0", "X-Warmpath-Pin", "e2")
	if first != "e2" || token == "" {
		t.Fatalf("at %s with %q", first, token)
	}
	if got := in.header.Get(tokenHeader); got != "" {
		t.Errorf("the engine was told %q", got)
	}
	for range 3 {
		at, again := chatOnce(r, tokenHeader, token)
		if at != "e2" || again == token || again == "" {
			t.Errorf("went to %s with %q", at, again)
		}
		if got := in.header.Get(tokenHeader); got != "" {
			t.Errorf("the engine was told %q", got)
		}
		token = again
	}
	if at, _ := chatOnce(r); at != "e0" {
		t.Errorf("without a token it went to %s", at)
	}
	other := newRig(t, tokens(), in.handler, in.handler, in.handler)
	if at, _ := chatOnce(other, "x-session-token", token); at != "e2" {
		t.Errorf("another replica went to %s", at)
	}
	// What the router itself remembers of a conversation is surer.
	chatOnce(other, "X-Session-ID", "s", "X-Warmpath-Pin", "e1")
	if at, _ := chatOnce(other, "X-Session-ID", "s", tokenHeader, token); at != "e1" {
		t.Errorf("a known conversation went to %s", at)
	}
}

// The names and addresses of endpoints are nowhere in a token, and nobody can make one or read another secret's.
func TestEndpointTokenTellsNothing(t *testing.T) {
	var in inbox
	r := newRig(t, tokens(), in.handler, in.handler)
	_, token := chatOnce(r, "X-Warmpath-Pin", "e1")
	sealed, ok := strings.CutPrefix(token, "w1/")
	if !ok {
		t.Fatalf("%q", token)
	}
	forged := token[:len(token)-1] + map[bool]string{true: "B", false: "A"}[strings.HasSuffix(token, "A")]
	other := newRig(t, proxy.Config{Token: identity.NewEndpointToken(tokenHeader, nil), Pinning: true, Explain: true},
		in.handler, in.handler)
	_, foreign := chatOnce(other, "X-Warmpath-Pin", "e1")
	for _, part := range []string{"e1", "127.0.0.1", "http"} {
		in := func(token string) bool {
			plain, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "w1/"))
			if err != nil {
				t.Errorf("%q: %v", token, err)
			}
			return strings.Contains(string(plain), part)
		}
		if in(token) && in(foreign) { // one may have two letters by chance
			t.Errorf("%q is in the tokens", part)
		}
	}
	for _, bad := range []string{
		forged, foreign, "w1/", "w1/!", "!", "e1", "http://10.0.0.1", sealed, strings.Repeat("A", 5000),
		base64.StdEncoding.EncodeToString([]byte("default/gone")), base64.StdEncoding.EncodeToString([]byte("e1")),
	} {
		if at, _ := chatOnce(r, tokenHeader, bad); at != "e0" {
			t.Errorf("%.40q: went to %s", bad, at)
		}
	}
}

// llm-d's own tokens are understood; a pod that is gone or takes no traffic is not insisted on.
func TestEndpointTokenOfLLMD(t *testing.T) {
	var in inbox
	r := newRig(t, tokens(), in.handler, in.handler)
	if at, _ := chatOnce(r, tokenHeader, "ZGVmYXVsdC9zaW0tYg=="); at != "e0" { // default/sim-b
		t.Errorf("an unknown pod: %s", at)
	}
	token := base64.StdEncoding.EncodeToString([]byte("default/e1"))
	if at, _ := chatOnce(r, tokenHeader, token); at != "e1" {
		t.Errorf("went to %s", at)
	}
	r.fleet.Observe(route.Drain{Endpoint: "e1"})
	if at, _ := chatOnce(r, tokenHeader, token); at != "e0" {
		t.Errorf("a draining pod: %s", at)
	}
	res, err := r.client.Get(r.url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.Header.Get(tokenHeader) != "" {
		t.Error("a list of models has a token")
	}
}

func TestEndpointTokenIsOffByDefault(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{Explain: true}, in.handler, in.handler)
	token := base64.StdEncoding.EncodeToString([]byte("default/e1"))
	if at, got := chatOnce(r, tokenHeader, token); at != "e0" || got != "" {
		t.Errorf("went to %s, token %q", at, got)
	}
	if got := in.header.Get(tokenHeader); got != token {
		t.Errorf("a header that is nothing to the router arrived as %q", got)
	}
}

// TestUpgradesTellAsRequestsDo: an upgrade reaches its engine without what is the router's, and its answer the client
// without what another router chose.
func TestUpgradesTellAsRequestsDo(t *testing.T) {
	for _, status := range []int{http.StatusSwitchingProtocols, http.StatusBadRequest} {
		var in atomic.Pointer[http.Header]
		cfg := tokens()
		cfg.Explain = false
		r := newRig(t, cfg, func(w http.ResponseWriter, q *http.Request) {
			in.Store(&q.Header)
			w.Header().Set("X-Warmpath-Reason", "theirs")
			w.Header().Set("X-Request-Id", "theirs")
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(status)
		})
		res, _ := r.raw("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"X-Session-Token: t\r\nX-Warmpath-Odd: 1\r\nX-Override-Model: m\r\n\r\n")
		for _, name := range []string{tokenHeader, "X-Warmpath-Odd", "X-Override-Model"} {
			if got := (*in.Load()).Get(name); got != "" {
				t.Errorf("the engine was told %s: %s", name, got)
			}
		}
		if res.StatusCode != status || res.Header.Get("X-Warmpath-Reason") == "theirs" ||
			res.Header.Get("X-Request-Id") == "theirs" || len(res.Header.Values("X-Request-Id")) != 1 {
			t.Errorf("%d: %d %v", status, res.StatusCode, res.Header)
		}
	}
}
