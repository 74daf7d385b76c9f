package trtserve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/route"
)

// etcdProgram is a real etcd: the program that WARMPATH_ETCD names, or the one in the path.
func etcdProgram(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("WARMPATH_ETCD"); p != "" {
		return p
	}
	p, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("no etcd in the path, and WARMPATH_ETCD names none")
	}
	return p
}

// TestEtcd: against a real etcd: workers that are there, come, are not heard of any more and go, and an etcd that is
// killed and comes back.
func TestEtcd(t *testing.T) {
	program, dir, at, peer := etcdProgram(t), t.TempDir(), freeport.Address(), freeport.Address()
	run := func() *exec.Cmd {
		c := exec.Command(program, "--data-dir", dir, "--listen-client-urls", "http://"+at,
			"--advertise-client-urls", "http://"+at, "--listen-peer-urls", "http://"+peer,
			"--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	etcd := run()
	defer func() { _ = etcd.Process.Kill(); _ = etcd.Wait() }()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{at}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	put := func(id string, port, role int, options ...clientv3.OpOption) {
		t.Helper()
		value := fmt.Sprintf(`{"worker_id":%q,"host":"10.0.0.1","port":%d,"role":%d}`, id, port, role)
		for {
			if _, err := client.Put(ctx, "/trtllm-disagg/blue/workers/"+id, value, options...); err == nil {
				return
			} else if ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	put("a", 1, 0)
	put("other", 9, 2)
	s := New(Config{Cluster: true, Etcd: "etcd://" + at, ClusterName: "blue"}, http.DefaultClient,
		slog.New(slog.NewTextHandler(io.Discard, nil)))
	var mu sync.Mutex
	var now []string
	done := make(chan struct{})
	following, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		s.Run(following, func(d route.Declared) {
			mu.Lock()
			defer mu.Unlock()
			now = nil
			for _, e := range d.Endpoints {
				now = append(now, e.Name+" "+e.Role.String())
			}
		})
	}()
	defer func() { stop(); <-done }()
	wait := func(want ...string) {
		t.Helper()
		for ctx.Err() == nil {
			mu.Lock()
			is := slices.Equal(now, want)
			mu.Unlock()
			if is {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatalf("got %v, want %v", now, want)
	}
	wait("10.0.0.1:1 prefill")
	lease, err := client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	put("b", 2, 1, clientv3.WithLease(lease.ID))
	wait("10.0.0.1:1 prefill", "10.0.0.1:2 decode")
	if _, err := client.Revoke(ctx, lease.ID); err != nil { // etcd does so itself when the time of a lease is over
		t.Fatal(err)
	}
	wait("10.0.0.1:1 prefill")
	put("c", 1, 1)
	wait("10.0.0.1:1 both")
	if got := s.workers(); len(got["context_servers"]) != 1 || got["generation_servers"][0].ID != "c" {
		t.Errorf("workers: %+v", got)
	}
	_ = etcd.Process.Kill()
	_ = etcd.Wait()
	time.Sleep(300 * time.Millisecond)
	wait("10.0.0.1:1 both") // what it named last stays
	etcd = run()
	put("d", 4, 1)
	wait("10.0.0.1:1 both", "10.0.0.1:4 decode")
	if _, err := client.Delete(ctx, "/trtllm-disagg/blue/workers/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	wait()
}
