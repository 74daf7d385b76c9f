//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestEnvironmentsProxy: where the environment names a proxy, as in a company's network, engines and the sources of
// endpoints are asked past it, by the router and by doctor.
func TestEnvironmentsProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asked atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = c.Close()
		}
	}()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://"+l.Addr().String())
	}
	t.Setenv("NO_PROXY", "")
	file := filepath.Join(t.TempDir(), "warmpath.yaml")
	if err := os.WriteFile(file, []byte(`
listen: 127.0.0.1:0
admin: {listen: "off"}
endpoints: [http://engine.invalid:1]
discovery:
  etcd: [{endpoints: ["http://etcd.invalid:1"], prefix: /w/}]
  http: [{url: "http://list.invalid:1/x"}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	doctor := run(t, built(t), "doctor", "http://engine.invalid:1")
	router := run(t, built(t), "serve", "-c", file)
	for _, line := range []string{"endpoint is down", "the list of endpoints cannot be read", "cannot watch etcd"} {
		router.await(line, func() bool { return strings.Contains(router.text(), line) })
	}
	<-doctor.ended
	if n := asked.Load(); n > 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}
