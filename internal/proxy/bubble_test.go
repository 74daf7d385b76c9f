package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/h1"
)

// bubbles are the networks of the tests that run on a virtual clock, by test.
var bubbles sync.Map // testing.TB to *network

// bubble runs a test on a virtual clock, with a network in memory: a limit is over when nothing else can happen,
// however busy the machine is. What serves and dials there: serveEngine, refuses and the rigs.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bubbles.Store(t, &network{at: map[string]*port{}})
		defer bubbles.Delete(t)
		test(t)
	})
}

// bubbled is a test, or a part of one, that runs in a bubble.
func bubbled(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { bubble(t, test) }
}

// networkOf is the network of a test's bubble, nil outside of one.
func networkOf(t testing.TB) *network {
	n, _ := bubbles.Load(t)
	in, _ := n.(*network)
	return in
}

// serveEngine starts a server, in memory within a bubble, and returns its address.
func serveEngine(t testing.TB, h http.Handler) string {
	t.Helper()
	return engineServer(t, h).URL
}

// engineServer does that, and returns the server.
func engineServer(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if n := networkOf(t); n != nil {
		_ = s.Listener.Close()
		s.Listener = n.listen()
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// transportSetting is the router's setting that the tests run with: WARMPATH_TRANSPORT=net/http go test
// ./internal/proxy It is read while a test runs, so that go test does not take the result of one for the other.
var transportSetting = sync.OnceValue(func() string { return os.Getenv("WARMPATH_TRANSPORT") })

func netHTTP() bool { return transportSetting() == "net/http" }

// transportOf connects a router to engines.
func transportOf(t testing.TB) http.RoundTripper {
	cfg := proxy.TransportConfig{Connect: time.Minute, NetHTTP: netHTTP()}
	if n := networkOf(t); n != nil {
		cfg.Dial = n.dial
	}
	c := proxy.NewTransport(cfg)
	closeIdle(t, c)
	return c
}

// closeIdle closes a transport's connections at the end of a test. Over HTTP/2 a connection counts as in use until the
// goroutine of a request that was given up has run, so a bubble waits for it.
func closeIdle(t testing.TB, c interface{ CloseIdleConnections() }) {
	in := networkOf(t)
	t.Cleanup(func() {
		if in != nil {
			synctest.Wait()
		}
		c.CloseIdleConnections()
	})
}

// plainListener is what a router's traffic listener makes of l.
func plainListener(l net.Listener, idle time.Duration) net.Listener {
	if transportSetting() == "lean-listener" {
		return h1.LeanListener(l, idle)
	}
	return h1.BoundListener(l, idle)
}

// dialTo connects a client.
func dialTo(t testing.TB, addr string) (net.Conn, error) {
	if n := networkOf(t); n != nil {
		return n.dial(context.Background(), "tcp", addr)
	}
	return net.Dial("tcp", addr)
}

// network is what listens in a bubble.
type network struct {
	mu   sync.Mutex
	last int
	at   map[string]*port
}

// dial connects to who listens at an address, as a net.Dialer does.
func (n *network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	p := n.at[addr]
	n.mu.Unlock()
	near, far := pipe(address(addr))
	if p == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	select {
	case p.come <- far:
		return near, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
}

// address is a new one, where nobody listens.
func (n *network) address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	return fmt.Sprintf("127.1.0.1:%d", n.last)
}

func (n *network) listen() *port {
	p := &port{network: n, addr: n.address(), come: make(chan net.Conn, 128), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[p.addr] = p
	return p
}

// port is a listener of a network.
type port struct {
	network *network
	addr    string
	come    chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (p *port) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *port) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.network.mu.Lock()
		delete(p.network.at, p.addr)
		p.network.mu.Unlock()
	})
	return nil
}

func (p *port) Addr() net.Addr { return address(p.addr) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// pipeConn is an end of a connection in memory. Unlike net.Pipe's, what is written waits for its reader, up to the size
// of a socket's buffer, and each direction ends by itself.
type pipeConn struct {
	in, out *flow
	addr    net.Addr
}

func pipe(addr net.Addr) (near, far net.Conn) {
	a, b := newFlow(), newFlow()
	return &pipeConn{a, b, addr}, &pipeConn{b, a, addr}
}

func (c *pipeConn) Read(p []byte) (int, error)         { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error)        { return c.out.write(p) }
func (c *pipeConn) LocalAddr() net.Addr                { return c.addr }
func (c *pipeConn) RemoteAddr() net.Addr               { return c.addr }
func (c *pipeConn) SetReadDeadline(t time.Time) error  { c.in.until(&c.in.readBy, t); return nil }
func (c *pipeConn) SetWriteDeadline(t time.Time) error { c.out.until(&c.out.writeBy, t); return nil }

func (c *pipeConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// CloseWrite ends one direction.
func (c *pipeConn) CloseWrite() error {
	c.out.end(func(f *flow) { f.ended = true })
	return nil
}

func (c *pipeConn) Close() error {
	c.in.end(func(f *flow) { f.left, f.data = true, nil })
	return c.CloseWrite()
}

// flow is one direction of a connection.
type flow struct {
	mu              sync.Mutex
	changed         *sync.Cond
	data            []byte
	ended, left     bool // by who writes, by who reads
	readBy, writeBy deadline
}

// deadline is a time after which an operation fails.
type deadline struct {
	passed bool
	timer  *time.Timer
}

const flowRoom = 256 << 10

func newFlow() *flow {
	f := &flow{}
	f.changed = sync.NewCond(&f.mu)
	return f
}

func (f *flow) end(how func(f *flow)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
	f.changed.Broadcast()
}

// until sets a deadline.
func (f *flow) until(d *deadline, t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	left := time.Until(t)
	d.passed = !t.IsZero() && left <= 0
	if !t.IsZero() && left > 0 {
		var own *time.Timer
		own = time.AfterFunc(left, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if d.timer == own {
				d.passed = true
				f.changed.Broadcast()
			}
		})
		d.timer = own
	}
	f.changed.Broadcast()
}

func (f *flow) read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.left:
			return 0, net.ErrClosed
		case f.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case len(f.data) > 0 || len(p) == 0:
			n := copy(p, f.data)
			f.data = f.data[n:]
			f.changed.Broadcast()
			return n, nil
		case f.ended:
			return 0, io.EOF
		}
		f.changed.Wait()
	}
}

func (f *flow) write(p []byte) (written int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.ended:
			return written, net.ErrClosed
		case f.left:
			return written, syscall.EPIPE
		case f.writeBy.passed:
			return written, os.ErrDeadlineExceeded
		}
		n := min(len(p), flowRoom-len(f.data))
		f.data = append(f.data, p[:n]...)
		if written, p = written+n, p[n:]; n > 0 {
			f.changed.Broadcast()
		}
		if len(p) == 0 {
			return written, nil
		}
		f.changed.Wait()
	}
}
