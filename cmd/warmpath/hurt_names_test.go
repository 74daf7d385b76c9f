//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// resolver is a DNS server, which can be closed and opened again.
type resolver struct {
	t    *testing.T
	mu   sync.Mutex
	all  map[string][]string // addresses by name, with the last dot
	conn net.PacketConn
	wg   sync.WaitGroup
}

const resolverAt = "127.77.7.7"

// open answers until close.
func (r *resolver) open() error {
	c, err := net.ListenPacket("udp", resolverAt+":53")
	if err != nil {
		return err
	}
	r.conn = c
	r.wg.Go(func() {
		b := make([]byte, 4096)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			r.mu.Lock()
			addresses, known := r.all[q.Name.String()]
			r.mu.Unlock()
			m.Response, m.Additionals = true, nil
			if !known {
				m.RCode = dnsmessage.RCodeNameError
			}
			for _, a := range addresses {
				if q.Type == dnsmessage.TypeA {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
						Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(a).To4())},
					})
				}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = c.WriteTo(out, from)
			}
		}
	})
	return nil
}

func (r *resolver) close() {
	_ = r.conn.Close()
	r.wg.Wait()
}

// hurtByNames: the DNS server is gone. Engines that were found stay, those named by a host are connected to where they
// were, and the log says so; when it is back, what changed meanwhile is taken. It needs the right to bind port 53 and
// to mount.
func hurtByNames(t *testing.T, bin string) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(conf,
		[]byte("nameserver "+resolverAt+"\noptions timeout:1 attempts:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mount := fmt.Sprintf("mount --bind '%s' /etc/resolv.conf", conf)
	if out, err := exec.Command("unshare", "-m", "sh", "-c", mount).CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount: %v %s", err, out)
	}
	found := runEngineAt(t, bin, "127.0.0.1:0")
	port := found.url[strings.LastIndexByte(found.url, ':')+1:]
	runEngineAt(t, bin, "127.0.0.2:"+port)
	named := runEngineAt(t, bin, "127.0.0.3:0")
	dns := &resolver{
		t: t, all: map[string][]string{"engines.test.": {"127.0.0.1", "127.0.0.2"}, "named.test.": {"127.0.0.3"}},
	}
	if err := dns.open(); err != nil {
		t.Skipf("needs port 53: %v", err)
	}
	t.Cleanup(func() { dns.close() })
	r := runRouterIn(t, []string{"unshare", "-m"}, bin, mount, fmt.Sprintf(`
policy: round_robin
probe: {interval: 100ms, load_interval: 100ms}
health: {ramp: 0s}
discovery: {dns: [{name: engines.test, port: %s, interval: 1s, remove_after: 2}]}
endpoints: [{url: "http://named.test:%s", name: named}]
`, port, named.url[strings.LastIndexByte(named.url, ':')+1:]))
	all := []string{"127.0.0.1:" + port, "127.0.0.2:" + port, "named"}
	r.up(all...)
	dns.close()
	r.says("DNS lookup failed; keeping the last answer")
	r.await("an engine is connected to without a look-up", func() bool { // once its open connections do not suffice
		for i, a := range r.streams(30, 5) {
			if !a.whole(5) {
				t.Fatalf("request %d without DNS: %+v", i, a)
			}
		}
		return strings.Contains(r.text(), "a name cannot be looked up")
	})
	for _, e := range all {
		if s := r.state(e); s != "up" {
			t.Errorf("%s is %s", e, s)
		}
	}
	dns.mu.Lock()
	dns.all["engines.test."] = []string{"127.0.0.1"}
	dns.mu.Unlock()
	if err := dns.open(); err != nil {
		t.Fatal(err)
	}
	r.await("what changed is taken", func() bool { return r.state(all[1]) == "" })
	r.up(all[0], "named")
	r.booksEmpty()
	r.ends()
}
