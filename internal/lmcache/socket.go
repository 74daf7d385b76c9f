package lmcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/places"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// Counts are what came to the socket and what became of it.
type Counts struct {
	Taken     uint64 // notifications of hand-overs that were waited for
	Unknown   uint64 // of none that is: of another router, of an attempt that was given up, too many
	Malformed uint64 // messages that are no notification
	Missing   uint64 // hand-overs that were waited for and not told of in time
	Refused   uint64 // connections beyond the bound, or of peers that do not speak the protocol
}

const (
	// mostConnections bounds the prefillers' ranks that are connected at once.
	mostConnections = 4096
	// mostFromOne bounds those from one address: eight GPUs of a host, or as many hosts behind one address as one may
	// think of.
	mostFromOne = 512
	// mostWaiting bounds the hand-overs that are waited for; each is a request in flight.
	mostWaiting = 1 << 16
	// hopeless is after how many hand-overs in a row without a notification they are waited for less, and by how much.
	hopeless, lessPatient = 8, 20
)

// Socket is where prefillers tell that KV cache has been pushed. Close it.
type Socket struct {
	log      *slog.Logger
	listener net.Listener
	timeout  time.Duration
	places   *places.Places
	serving  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	conns   map[net.Conn]bool
	closed  bool
	waiting map[string]*waiter
	inARow  int // hand-overs that nothing was told of, since something was
	counts  Counts
}

// waiter is a hand-over that is waited for.
type waiter struct {
	left int
	done chan struct{} // closed when all notifications have come
}

// Listen opens the socket at HOST:PORT. A timeout of 0 is DefaultTimeout.
func Listen(address string, timeout time.Duration, log *slog.Logger) (*Socket, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for notifications of LMCache: %w", err)
	}
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	s := &Socket{
		log: log, listener: l, timeout: timeout, places: places.New(mostConnections, mostFromOne),
		conns: map[net.Conn]bool{}, waiting: map[string]*waiter{},
	}
	s.serving.Go(s.accept)
	return s, nil
}

// Addr is where the socket listens.
func (s *Socket) Addr() string { return s.listener.Addr().String() }

// Close ends the socket and all connections.
func (s *Socket) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	s.serving.Wait()
}

// Counts says what has come so far.
func (s *Socket) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *Socket) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.Warn("notifications of LMCache: cannot accept", "error", err)
			time.Sleep(100 * time.Millisecond) // out of file descriptors, as a rule
			continue
		}
		leave, err := s.places.Take(conn.RemoteAddr())
		s.mu.Lock()
		if err != nil {
			s.counts.Refused++
		} else if s.closed {
			leave()
			err = net.ErrClosed
		} else {
			s.conns[conn] = true
		}
		s.mu.Unlock()
		if err != nil {
			_ = conn.Close()
			continue
		}
		s.serving.Go(func() {
			defer leave()
			s.serve(conn)
		})
	}
}

// serve reads one connection to its end.
func (s *Socket) serve(conn net.Conn) {
	var err error
	panics.Catch(s.log, panics.LMCache, func() { err = s.read(conn) })
	s.mu.Lock()
	delete(s.conns, conn)
	if errors.Is(err, zmtp.ErrNotZMTP) {
		s.counts.Refused++
	}
	s.mu.Unlock()
	_ = conn.Close() // who sees its end finds it counted
	s.log.Debug("notifications of LMCache: connection ended", "peer", conn.RemoteAddr().String(), "error", err)
}

// read takes the messages of one connection until it ends. A notification is about a hundred bytes.
func (s *Socket) read(conn net.Conn) error {
	c, err := zmtp.Open(conn, zmtp.Config{Kind: zmtp.Pull, Message: 4 << 10})
	for err == nil {
		var frames [][]byte
		if frames, err = c.Receive(); err == nil {
			s.message(frames)
		}
	}
	return err
}

// message takes one message: its last frame is the notification.
func (s *Socket) message(frames [][]byte) {
	id, err := ReadNotif(frames[len(frames)-1])
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[id]
	switch {
	case err != nil:
		s.counts.Malformed++
	case w == nil || w.left == 0:
		s.counts.Unknown++
	default:
		s.counts.Taken++
		s.inARow = 0
		if w.left--; w.left == 0 {
			close(w.done)
		}
	}
}

// Expect begins to wait for so many notifications of a hand-over, before its prefiller is asked. wait returns true when
// they have come, false when they did not in time or ctx ended. After some hand-overs in a row that nothing was told
// of, wait is short: the prefillers then do not know the socket. forget must be called.
func (s *Socket) Expect(id string, count int) (wait func(ctx context.Context) bool, forget func()) {
	w := &waiter{left: count, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.waiting[id]; twice || len(s.waiting) >= mostWaiting || s.closed {
		return func(context.Context) bool { return false }, func() {}
	}
	s.waiting[id] = w
	return func(ctx context.Context) bool { return s.wait(ctx, w) }, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting[id] == w {
			delete(s.waiting, id)
		}
	}
}

func (s *Socket) wait(ctx context.Context, w *waiter) bool {
	s.mu.Lock()
	patience := s.timeout
	if s.inARow >= hopeless {
		patience /= lessPatient
	}
	s.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.left == 0 {
		return true
	}
	s.counts.Missing++
	s.inARow++
	return false
}
