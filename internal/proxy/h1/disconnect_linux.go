package h1

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// serverConn is a leanConn of a server. It reports its client's departure.
type serverConn struct {
	*leanConn
	disconnects *disconnects // nil when the client's end is not watched
	id          uint64       // in disconnects
	deadline    writeDeadline

	mu    sync.Mutex
	left  bool         // guarded by mu
	watch GoneListener // guarded by mu
}

// serve makes a server's connection of one that was accepted.
func (d *disconnects) serve(c net.Conn, stall time.Duration) net.Conn {
	l, ok := lean(c, true).(*leanConn)
	if !ok {
		if stall <= 0 {
			return c
		}
		return newBoundConn(c, stall)
	}
	s := &serverConn{leanConn: l, deadline: writeDeadline{set: l.TCPConn.SetWriteDeadline}}
	if l.stall = stall; stall > 0 {
		l.bound = s.deadline.bound
	}
	d.add(s)
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

// Watch calls w when the client leaves.
func (s *serverConn) Watch(w GoneListener) bool {
	if s.disconnects == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched.Store(true)
	if s.watch = w; s.left {
		w.Left()
	}
	return true
}

// Unwatch ends the watch.
func (s *serverConn) Unwatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched.Store(false)
	s.watch = nil
}

// disconnect notes that the client is gone.
func (s *serverConn) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return
	}
	if s.left = true; s.watch != nil {
		s.watch.Left()
	}
}

// Close closes the connection.
func (s *serverConn) Close() error {
	if s.disconnects != nil {
		s.disconnects.remove(s.id)
	}
	err := s.leanConn.Close()
	s.disconnect()
	return err
}

// disconnects waits for the ends of a listener's connections, with one goroutine and one epoll descriptor for all. Go's own
// poller waits for that descriptor, so that no thread is blocked.
type disconnects struct {
	mu     sync.Mutex
	conns  map[uint64]*serverConn // guarded by mu
	last   uint64                 // guarded by mu
	file   *os.File               // guarded by mu; nil before the first connection and after the last
	fd     int                    // of file; guarded by mu
	failed bool                   // there is no epoll; guarded by mu
	closed bool                   // the listener is closed; guarded by mu
}

// add registers a connection once for its life: the kernel reports nothing until the client has closed its half.
func (d *disconnects) add(s *serverConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil && !d.open() {
		return
	}
	d.last++
	event := syscall.EpollEvent{Events: syscall.EPOLLRDHUP | edgeTriggered, Fd: int32(uint32(d.last)), Pad: int32(uint32(d.last >> 32))}
	_ = s.raw.Control(func(fd uintptr) {
		if syscall.EpollCtl(d.fd, syscall.EPOLL_CTL_ADD, int(fd), &event) == nil {
			s.disconnects, s.id = d, d.last
			d.conns[s.id] = s
		}
	})
}

// open makes the descriptor and starts the wait. The caller holds mu.
func (d *disconnects) open() bool {
	if d.failed {
		return false
	}
	d.failed = true
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil || file.SetDeadline(time.Time{}) != nil { // the latter fails if Go's poller cannot wait for it
		_ = file.Close()
		return false
	}
	d.failed, d.fd, d.file, d.conns = false, fd, file, map[uint64]*serverConn{}
	go d.run(raw, fd)
	return true
}

// edgeTriggered is EPOLLET, which package syscall has with the wrong sign.
const edgeTriggered = 1 << 31

// remove forgets a connection. Closing it removes it from the kernel's list. A pending report is dropped, since ids are not
// reused.
func (d *disconnects) remove(id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, id)
	d.finish()
}

// close notes that the listener is closed.
func (d *disconnects) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.finish()
}

// finish ends the wait after the last connection. The caller holds mu.
func (d *disconnects) finish() {
	if d.closed && len(d.conns) == 0 && d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
}

// run reports disconnects until the descriptor is closed.
func (d *disconnects) run(raw syscall.RawConn, fd int) {
	var events [64]syscall.EpollEvent
	n := 0
	look := func(uintptr) bool {
		n, _ = syscall.EpollWait(fd, events[:], 0)
		return n > 0
	}
	for raw.Read(look) == nil {
		for _, e := range events[:n] {
			d.mu.Lock()
			s := d.conns[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]
			d.mu.Unlock()
			if s != nil && e.Events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
				s.disconnect()
			}
		}
	}
}
