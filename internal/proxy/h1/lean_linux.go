package h1

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// aheadBytes is how much a leanConn for a server reads at once: the head of a request and most bodies. net/http's own
	// buffer has 4 kB and cannot be made larger, so that a request of 8 kB takes it two system calls, of which each costs
	// as much as copying ten times as much.
	aheadBytes = 16 << 10
	// callBytes bounds one system call. The garbage collector waits for those that run, at most some 0.1 ms with this.
	callBytes = 256 << 10
)

var aheadBuffers = sync.Pool{New: func() any { return new([aheadBytes]byte) }}

// leanConn is a TCP connection that makes its system calls without telling Go's scheduler. That saves a quarter of the
// CPU time of a short request: told that a thread is in the kernel, the scheduler sees after 20 µs that it is still
// there, which it is when the kernel delivers what was written to a reader on the same machine in the writer's time,
// and wakes another thread to take over. The sockets do not block, so that there is nothing to take over; waiting is
// the poller's, as with net.
//
// It is as safe for concurrent use as a net.TCPConn, deadlines and Close included.
type leanConn struct {
	*net.TCPConn
	raw  syscall.RawConn
	in   half
	out  half
	more []byte                // what out.p is followed by; guarded by out.mu
	talk func(fd uintptr) bool // speak, as a value made once
	said stage                 // of what converse does; guarded by in.mu

	stall   time.Duration   // how long a Write may wait for the peer; 0 for ever
	bound   func(time.Time) // sets the deadline of the Write in progress; nil without stall
	stalled bool            // that is set. Guarded by out.mu

	watched  atomic.Bool       // net/http need not read to see that the client leaves, see Peer
	ahead    bool              // read ahead
	buf      *[aheadBytes]byte // what has been; nil when nothing of it is left. Guarded by in.mu
	pos, end int               // guarded by in.mu
}

// half is one direction of a connection.
type half struct {
	mu  sync.Mutex            // held during Read or Write
	run func(fd uintptr) bool // makes the system calls; false: nothing can be done now. A value made once
	p   []byte                // memory to fill, or what is left to write
	n   int                   // bytes done
	err error                 // of the system call
	vec [2]syscall.Iovec      // for a gathered write
}

// lean returns c as a leanConn, or as it is when it is no TCP connection.
func lean(c net.Conn, ahead bool) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	l := &leanConn{TCPConn: tcp, raw: raw, ahead: ahead}
	l.in.run, l.out.run, l.talk = l.receive, l.transmit, l.speak
	if ahead {
		l.in.run = l.receiveAhead
	}
	return l
}

// Read returns what is buffered, or else what one system call brings.
func (l *leanConn) Read(p []byte) (int, error) {
	if len(p) == 0 || len(p) == 1 && l.watched.Load() { // only net/http's look for the client's departure wants a single byte
		return 0, nil
	}
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if l.buf == nil {
		h := &l.in
		h.p, h.n, h.err = p, 0, nil
		err := l.raw.Read(h.run)
		h.p = nil
		if err == nil {
			err = h.err
		}
		if err != nil {
			return 0, l.explain("read", err)
		}
		if l.buf == nil {
			return h.n, nil
		}
	}
	n := copy(p, l.buf[l.pos:l.end])
	if l.pos += n; l.pos == l.end {
		aheadBuffers.Put(l.buf)
		l.buf = nil
	}
	return n, nil
}

// receive reads once into the caller's memory.
func (l *leanConn) receive(fd uintptr) (done bool) {
	l.in.n, done, l.in.err = readNow(fd, l.in.p)
	return done
}

// receiveAhead reads once, into a buffer when that is larger than the caller's memory. A connection that waits holds no
// buffer: neither the idle ones nor those that wait for a generation cost any.
func (l *leanConn) receiveAhead(fd uintptr) (done bool) {
	if len(l.in.p) >= aheadBytes {
		return l.receive(fd)
	}
	buf := aheadBuffers.Get().(*[aheadBytes]byte)
	n, done, err := readNow(fd, buf[:])
	if n > 0 {
		l.buf, l.pos, l.end = buf, 0, n
		return true
	}
	aheadBuffers.Put(buf)
	l.in.err = err
	return done
}

// readNow reads what there is; done is false when there is nothing yet.
func readNow(fd uintptr, p []byte) (n int, done bool, err error) {
	for {
		n, errno := sysRead(fd, p[:min(len(p), callBytes)])
		switch {
		case errno == 0 && n == 0:
			return 0, true, io.EOF
		case errno == 0:
			return n, true, nil
		case errno == syscall.EAGAIN:
			return 0, false, nil
		case errno != syscall.EINTR:
			return 0, true, errno
		}
	}
}

// Write writes all of p.
func (l *leanConn) Write(p []byte) (int, error) { return l.gather(p, nil) }

// gather writes p and then q, in one system call where the socket takes them.
func (l *leanConn) gather(p, q []byte) (int, error) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	h := &l.out
	h.p, l.more, h.n, h.err = p, q, 0, nil
	err := l.raw.Write(h.run)
	l.forget()
	if l.stalled {
		l.stalled = false
		l.bound(time.Time{})
	}
	if err == nil {
		err = h.err
	}
	return h.n, l.explain("write", err)
}

// transmit writes until all is written or the socket takes no more.
func (l *leanConn) transmit(fd uintptr) bool {
	h := &l.out
	for {
		if len(h.p) == 0 {
			if h.p, l.more = l.more, nil; len(h.p) == 0 {
				return true
			}
		}
		n, errno := h.writeNow(fd, l.more)
		switch errno {
		case 0:
			h.n += n
			first := min(n, len(h.p))
			h.p, l.more = h.p[first:], l.more[n-first:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			if l.bound != nil && !l.stalled {
				l.stalled = true
				l.bound(time.Now().Add(l.stall))
			}
			return false
		default:
			h.err = errno
			return true
		}
	}
}

// writeNow writes what the socket takes of p, which is not empty, and of more.
func (h *half) writeNow(fd uintptr, more []byte) (int, syscall.Errno) {
	first := min(len(h.p), callBytes)
	if len(more) == 0 || first == callBytes {
		return sysWrite(fd, h.p[:first])
	}
	h.vec[0].Base, h.vec[1].Base = &h.p[0], &more[0]
	h.vec[0].SetLen(first)
	h.vec[1].SetLen(min(len(more), callBytes-first))
	return sysGather(fd, &h.vec)
}

// ReadFrom is that of a connection without more to it than its Write.
func (l *leanConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{l}, r)
}

// WriteTo is that of a connection without more to it than its Read: what is buffered must not be passed by.
func (l *leanConn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{l})
}

// explain makes of an error what net would. net/http tells by the operation's name whether a client is gone.
func (l *leanConn) explain(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	switch e := err.(type) { //nolint:errorlint // package net wraps no further
	case syscall.Errno:
		return &net.OpError{Op: op, Net: "tcp", Source: l.LocalAddr(), Addr: l.RemoteAddr(), Err: os.NewSyscallError(op, e)}
	case *net.OpError:
		e.Op = op // not "raw-read"
	}
	return err
}
