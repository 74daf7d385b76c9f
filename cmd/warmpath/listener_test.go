package main

import (
	"fmt"
	"net"
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
