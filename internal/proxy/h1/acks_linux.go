package h1

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT (tcp(7)), which package syscall lacks.
const tcpUserTimeout = 18

// boundAcks has the kernel end a connection on which the peer has acknowledged nothing for a time: data, or a probe of
// a silent connection.
func boundAcks(c *net.TCPConn, most time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	ms := int(max(1, min(most.Milliseconds(), 1<<31-1)))
	_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, ms) })
}
