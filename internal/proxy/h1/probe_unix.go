//go:build unix

package h1

import "syscall"

// probe tests an unused connection with one non-blocking read. An idle peer sends nothing, so any result but "try
// again" (data, end of file, reset) means that the connection is unusable; the byte read is lost with it.
type probe struct {
	raw   syscall.RawConn
	read  func(fd uintptr) bool // made once, so that a test allocates nothing
	buf   [1]byte
	again bool
}

func (p *probe) init(sc syscall.Conn) {
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	p.raw = raw
	p.read = func(fd uintptr) bool {
		_, done, _ := readNow(fd, p.buf[:])
		p.again = !done
		return true
	}
}

// quiet reports that the peer has neither sent bytes nor closed. A connection that cannot be tested passes.
func (p *probe) quiet() bool {
	if p.raw == nil {
		return true
	}
	p.again = false
	return p.raw.Read(p.read) == nil && p.again
}
