package peers

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// server starts a redis-server and returns its address and how to kill it. The test is skipped where there is none.
func server(t *testing.T, port string, options ...string) (address string, kill func()) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server (apt-get install redis-server)")
	}
	c := exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, options...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { _ = c.Process.Kill(); _ = c.Wait() })
	t.Cleanup(kill)
	return "127.0.0.1:" + port, kill
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func overRedis(t *testing.T, url, fleetName string) *node {
	t.Helper()
	d, err := NewRedis(url)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{log: &strings.Builder{}}
	if n.group, err = New(Config{Fleet: fleetName, Transport: d, Policy: func() uint64 { return 1 }, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	n.Fleet = live.New(route.New(route.Config{Policy: func() pick.Policy { return firstPick{} }, PolicyName: "first", Replicas: true}), time.Now, n.group.Listener())
	n.group.Serve(n.Fleet)
	n.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{{Name: "x", URL: "http://x", Weight: 1}}})
	n.Observe(route.Probed{Endpoint: "x", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.group.Run(ctx) })
	n.stop = func() { cancel(); wg.Wait() }
	return n
}

// until waits until it is so; the test ends by its own time limit if it never is.
func until(t *testing.T, so func() bool) {
	t.Helper()
	for !so() {
		select {
		case <-t.Context().Done():
			t.Fatal("it is not so in time")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestRedis: routers hear each other over a real server: one that is full and holds what others keep there too, and again after it was killed;
// a fleet of another name on it is not heard.
func TestRedis(t *testing.T) {
	port := freePort(t)
	address, kill := server(t, port, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	url := "redis://" + address + "/0"
	a, b, other := overRedis(t, url, "one"), overRedis(t, url, "one"), overRedis(t, url, "two")
	defer a.stop()
	defer b.stop()
	defer other.stop()
	requests := func(n *node) int { return n.Status()[0].Load.Requests }
	synced := func(n *node) bool { s := n.group.Status(); return len(s.Peers) == 1 && s.Peers[0].Synced }
	until(t, func() bool { return synced(a) && synced(b) })
	a.place(t, "one", 40)
	until(t, func() bool { return requests(b) == 1 })
	kill()
	until(t, func() bool {
		_, why := b.group.Note()
		return b.group.Peers() == 0 && requests(b) == 0 && strings.Contains(why, "Redis")
	})
	a.place(t, "two", 10)
	server(t, port)
	until(t, func() bool { return synced(a) && synced(b) && requests(b) == 2 })
	if n := other.group.Peers(); n != 0 || requests(other) != 0 {
		t.Errorf("the other fleet hears %d", n)
	}
}
