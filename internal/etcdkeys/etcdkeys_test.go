package etcdkeys

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestRefusedAtFirst: a client with a user's name asks etcd for a token before anything else. If that fails it is tried
// again, as any failure is, which is told once.
func TestRefusedAtFirst(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int32
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		if asked.Add(1) == 3 {
			cancel()
		}
		return status.Error(codes.Unimplemented, "no method of etcd is known")
	}))
	defer server.Stop()
	go func() { _ = server.Serve(l) }()
	failures := 0
	Follow(ctx, Config{
		Endpoints: []string{l.Addr().String()}, Prefix: "/", User: "u", Password: "p", Most: 1,
	}, func(map[string]string) {
		t.Error("keys were read")
	}, func(error) { failures++ })
	if failures != 1 || asked.Load() < 3 {
		t.Errorf("it was asked %d times, and told %d failures, want 3 and 1", asked.Load(), failures)
	}
}
