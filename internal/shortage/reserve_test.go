//go:build linux

package shortage_test

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/shortage"
)

// TestReserve: clients leave the last files to connections to engines, and both leave some to all others.
func TestReserve(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil || was.Max < 256 {
		t.Skip("the limit of open files cannot be set: ", err)
	}
	const limit = 256
	clients, engines := shortage.Reserve(limit)
	if engines < 4 || clients < 2*engines || clients > limit/4 {
		t.Fatalf("of %d files %d and %d are reserved", limit, clients, engines)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) }()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	l := shortage.Traffic(at)
	toEngine := net.Dialer{Control: shortage.ToEngine()}
	address := at.Addr().String()
	dial := func(d net.Dialer) error {
		c, err := d.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	fill := func(to int64) { // the next file gets this number
		for {
			f, err := os.Open("/")
			if err != nil {
				t.Fatal(err)
			}
			if int64(f.Fd()) >= to {
				_ = f.Close()
				return
			}
			files = append(files, f)
		}
	}
	accept := func() error {
		_ = at.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
		c, err := l.Accept()
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	fill(limit - clients - 4)
	if err := dial(toEngine); err != nil {
		t.Fatal(err)
	}
	if err := accept(); err != nil {
		t.Errorf("with files for clients: %v", err)
	}
	fill(limit - clients)
	if err := accept(); !shortage.Is(err) {
		t.Errorf("a client takes a reserved file: %v", err)
	}
	if err := dial(toEngine); err != nil {
		t.Errorf("with files for connections to engines: %v", err)
	}
	fill(limit - engines)
	if err := dial(toEngine); !shortage.Is(err) {
		t.Errorf("a connection to an engine takes what is reserved from them: %v", err)
	}
	if err := dial(net.Dialer{}); err != nil {
		t.Errorf("others have nothing: %v", err)
	}
	for _, f := range files {
		_ = f.Close()
	}
	files = nil
	if err := accept(); err != nil {
		t.Errorf("with free files again: %v", err)
	}
}
