package zmtp

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	mostServed = 256                   // connections of a Server
	mostQueued = 1000                  // messages for one subscriber, as ZeroMQ's high-water mark
	redial     = 50 * time.Millisecond // of a Publisher that dials
)

// Server accepts connections and hands each to a function after its handshake. It is what simulated engines listen
// with.
type Server struct {
	l       net.Listener
	serving sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// Serve accepts connections at HOST:PORT until Close. handle returns when it is done with one.
func Serve(addr string, cfg Config, handle func(*Conn)) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{l: l, conns: map[net.Conn]bool{}}
	s.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			full := s.closed || len(s.conns) >= mostServed
			if !full {
				s.conns[c] = true
			}
			s.mu.Unlock()
			if full {
				_ = c.Close()
				continue
			}
			s.serving.Go(func() {
				defer s.leave(c)
				if conn, err := Open(c, cfg); err == nil {
					handle(conn)
				}
			})
		}
	})
	return s, nil
}

func (s *Server) leave(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Addr is HOST:PORT.
func (s *Server) Addr() string { return s.l.Addr().String() }

// Close closes the listener and all connections, and waits for their functions.
func (s *Server) Close() {
	_ = s.l.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// Publisher is a PUB socket. A subscriber that is behind loses messages, and one that has not subscribed yet gets none.
type Publisher struct {
	server *Server // nil for one that dials
	cancel context.CancelFunc
	ctx    context.Context
	dialer sync.WaitGroup

	mu   sync.Mutex
	subs map[*Conn]chan [][]byte
}

func newPublisher() *Publisher {
	ctx, cancel := context.WithCancel(context.Background())
	return &Publisher{ctx: ctx, cancel: cancel, subs: map[*Conn]chan [][]byte{}}
}

// ListenPublisher publishes to those that connect to HOST:PORT.
func ListenPublisher(addr string) (*Publisher, error) {
	p := newPublisher()
	var err error
	p.server, err = Serve(addr, Config{Kind: Pub}, p.serve)
	return p, err
}

// DialPublisher publishes to the subscriber that listens at HOST:PORT. It dials again whenever the connection breaks.
func DialPublisher(addr string) *Publisher {
	p := newPublisher()
	p.dialer.Go(func() {
		for p.ctx.Err() == nil {
			if c, err := Dial(p.ctx, "tcp://"+addr, Config{Kind: Pub}); err == nil {
				stop := context.AfterFunc(p.ctx, func() { _ = c.Close() })
				p.serve(c)
				stop()
			}
			select {
			case <-p.ctx.Done():
			case <-time.After(redial):
			}
		}
	})
	return p
}

// serve sends to one subscriber until the connection ends.
func (p *Publisher) serve(c *Conn) {
	queue := make(chan [][]byte, mostQueued)
	p.mu.Lock()
	p.subs[c] = queue
	p.mu.Unlock()
	var writer sync.WaitGroup
	writer.Go(func() {
		for m := range queue {
			if c.Send(m...) != nil {
				_ = c.Close()
			}
		}
	})
	_, _ = c.Receive() // a subscriber sends subscriptions only: this ends with the connection
	_ = c.Close()
	p.mu.Lock()
	delete(p.subs, c)
	close(queue)
	p.mu.Unlock()
	writer.Wait()
}

// Send queues a message for the subscribers of its first frame.
func (p *Publisher) Send(frames ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, queue := range p.subs {
		if !c.wants(string(frames[0])) {
			continue
		}
		select {
		case queue <- frames:
		default:
		}
	}
}

// Subscribed reports whether somebody has subscribed to anything.
func (p *Publisher) Subscribed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.subs {
		if c.subscribed.Load() > 0 {
			return true
		}
	}
	return false
}

// Close closes the socket and ends its goroutines.
func (p *Publisher) Close() {
	p.cancel()
	if p.server != nil {
		p.server.Close()
	}
	p.dialer.Wait()
}

// Addr is HOST:PORT of a publisher that listens.
func (p *Publisher) Addr() string { return p.server.Addr() }
