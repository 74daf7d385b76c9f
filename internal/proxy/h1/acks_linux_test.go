package h1

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// TestLostClientsAreNoticed: the kernel ends the connection of a client that acknowledges nothing within the listener's
// stall, on both kinds of listener.
func TestLostClientsAreNoticed(t *testing.T) {
	for name, of := range map[string]func(net.Listener, time.Duration) net.Listener{
		"bound": BoundListener, "lean": LeanListener,
	} {
		for _, stall := range []time.Duration{0, 90 * time.Second} {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := of(inner, stall)
			client, err := net.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			under := c
			if b, ok := c.(*boundConn); ok {
				under = b.Conn
			}
			raw, err := under.(syscall.Conn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			got := -1
			_ = raw.Control(func(fd uintptr) {
				got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
			})
			if err != nil || got != int(stall.Milliseconds()) {
				t.Errorf("%s, %v: the kernel waits %d ms, %v", name, stall, got, err)
			}
			c.Close()
			client.Close()
			l.Close()
		}
	}
}
