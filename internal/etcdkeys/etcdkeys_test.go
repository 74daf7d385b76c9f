package etcdkeys

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
)

// TestRefusedAtFirst: a client with a user's name asks etcd for a token before anything else. If that fails it is tried
// again, as any failure is.
func TestRefusedAtFirst(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer() // which knows no method of etcd
	defer server.Stop()
	go func() { _ = server.Serve(l) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failures := 0
	Follow(ctx, Config{
		Endpoints: []string{l.Addr().String()}, Prefix: "/", User: "u", Password: "p", Most: 1,
	}, func(map[string]string) {
		t.Error("keys were read")
	}, func(error) {
		if failures++; failures == 2 {
			cancel()
		}
	})
	if failures != 2 {
		t.Errorf("it failed %d times and was given up", failures)
	}
}
