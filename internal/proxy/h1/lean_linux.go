package h1

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// aheadBytes is how much a leanConn of a server reads at once: the head of a request and most bodies. net/http's
	// own buffer has 4 kB and cannot be made larger, so a request of 8 kB needs two system calls with it, and each
	// costs as much as copying ten times as much.
	aheadBytes = 16 << 10
	// callBytes bounds one system call. The garbage collector waits for those that run, at most some 0.1 ms with this.
	callBytes = 256 << 10
)

var aheadBuffers = sync.Pool{New: func() any { return new([aheadBytes]byte) }}

// leanConn is a TCP connection that makes its system calls without telling Go's scheduler. That saves a quarter of the
// CPU time of a short request. If the scheduler knows that a thread is in the kernel, and finds it there 20 µs later,
// it wakes another thread to take over. That happens when the kernel delivers the bytes to a reader on the same machine
// during the writer's call. The sockets do not block, so taking over is useless; waiting is left to the poller, as in
// net.
//
// It is as safe for concurrent use as a net.TCPConn, deadlines and Close included.
type leanConn struct {
	*net.TCPConn
	raw      syscall.RawConn
	in       half
	out      half
	more     []byte                // written after out.p; guarded by out.mu
	stepFunc func(fd uintptr) bool // sendReceiveStep as a function value, made once
	stage    stage                 // progress of sendAndReceive; guarded by in.mu
	writing  writing               // its request; guarded by in.mu

	stall   time.Duration   // longest wait of a Write for the peer; 0 for no limit
	bound   func(time.Time) // sets the deadline of the Write in progress; nil without stall
	stalled bool            // the deadline of bound is set. Guarded by out.mu

	ahead    bool              // read ahead
	buf      *[aheadBytes]byte // bytes read ahead; nil when it is empty. Guarded by in.mu
	pos, end int               // guarded by in.mu
}

// serverConn is a leanConn of a server.
type serverConn struct {
	*leanConn
	deadline writeDeadline
}

// serve makes a server's connection of one that was accepted.
func serve(c net.Conn, stall time.Duration) net.Conn {
	l, ok := lean(c, true).(*leanConn)
	if !ok {
		return bound(c, stall)
	}
	s := &serverConn{leanConn: l, deadline: writeDeadline{set: l.TCPConn.SetWriteDeadline}}
	if l.stall = stall; stall > 0 {
		l.bound = s.deadline.bound
	}
	return s
}

// SetWriteDeadline implements net.Conn.
func (s *serverConn) SetWriteDeadline(t time.Time) error { return s.deadline.ask(t) }

// SetDeadline implements net.Conn.
func (s *serverConn) SetDeadline(t time.Time) error {
	if err := s.SetReadDeadline(t); err != nil {
		return err
	}
	return s.deadline.ask(t)
}

// half is one direction of a connection.
type half struct {
	mu  sync.Mutex            // held during Read or Write
	run func(fd uintptr) bool // makes the system calls; false means that it must wait. Made once
	p   []byte                // memory to fill, or the rest to write
	m   memory                // lends p while there are bytes; nil if the caller gave p
	n   int                   // bytes done
	err error                 // of the system call
	vec [2]syscall.Iovec      // for a gathered write
}

// lean returns c as a leanConn, or unchanged if it is not a TCP connection.
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
	l.in.run, l.out.run, l.stepFunc = l.receive, l.transmit, l.sendReceiveStep
	if ahead {
		l.in.run = l.receiveAhead
	}
	return l
}

// Read returns buffered bytes, or else the bytes of one system call.
func (l *leanConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
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

// readLent returns the number of bytes of one system call, which are in the memory that m has lent.
func (l *leanConn) readLent(m memory) (int, error) {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	h := &l.in
	h.m, h.n, h.err = m, 0, nil
	err := l.raw.Read(h.run)
	h.p, h.m = nil, nil
	if err == nil {
		err = h.err
	}
	return h.n, l.explain("read", err)
}

// receive reads once into the caller's memory, or into memory that is lent for it.
func (l *leanConn) receive(fd uintptr) (done bool) {
	h := &l.in
	if h.m != nil {
		h.p = h.m.take()
	}
	h.n, done, h.err = readNow(fd, h.p)
	if h.m != nil && h.n == 0 {
		h.p = nil
		h.m.give()
	}
	return done
}

// receiveAhead reads once, into a buffer if that is larger than the caller's memory. A waiting connection has no
// buffer: idle ones and those that wait for a generation cost no memory.
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

// readNow reads the available bytes; done is false when there are none yet.
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

// transmit writes until everything is written or the socket takes no more.
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

// writeNow writes the bytes that the socket takes of p, which is not empty, and of more.
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

// ReadFrom uses only Write.
func (l *leanConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{l}, r)
}

// WriteTo uses only Read: buffered bytes must not be skipped.
func (l *leanConn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{l})
}

// explain turns an error into the one that net would return. net/http recognises by the operation's name that a client
// is gone.
func (l *leanConn) explain(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	switch e := err.(type) { //nolint:errorlint // package net wraps no deeper
	case syscall.Errno:
		return &net.OpError{
			Op: op, Net: "tcp", Source: l.LocalAddr(), Addr: l.RemoteAddr(), Err: os.NewSyscallError(op, e),
		}
	case *net.OpError:
		e.Op = op // not "raw-read"
	}
	return err
}
