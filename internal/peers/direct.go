package peers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Direct carries frames over a TCP stream from each router to each other one. The routers are named by address, or found by a DNS name that
// has an address for each. A router that is not found yet is answered on the stream that it has opened.
type Direct struct {
	listener net.Listener
	targets  []string // HOST:PORT or dns://NAME:PORT
	log      *slog.Logger

	mu      sync.Mutex
	links   map[string]*link // to addresses
	order   []string         // the addresses of links, sorted
	answers map[uint64]*link // back to routers that have opened a stream
	problem string
}

// Bounds and times.
const (
	lookEvery  = 2 * time.Second // DNS
	dialEvery  = 500 * time.Millisecond
	dialFor    = 2 * time.Second
	writeFor   = 2 * time.Second
	mostWaits  = 4 << 20 // bytes that wait for one router
	mostTarget = 128     // addresses
	mostStream = 256     // streams that others have opened
	mostSaid   = 3       // addresses in a message for people
)

// NewDirect makes a transport. The listener is closed when Run ends.
func NewDirect(l net.Listener, targets []string, log *slog.Logger) *Direct {
	return &Direct{listener: l, targets: targets, log: log, links: map[string]*link{}, answers: map[uint64]*link{}}
}

// link is the stream to one address, or back to one router.
type link struct {
	mu     sync.Mutex
	to     uint64 // the router there, 0 unknown
	queue  [][]byte
	bytes  int
	open   bool
	me     bool   // the address is this router's own
	fault  string // why it is not open; "" for not yet known
	wake   chan struct{}
	cancel context.CancelFunc
}

// push queues a frame for a router, 0 for whichever is there, and returns that router; 0 when the frame cannot go there. When too much waits
// the stream is closed: what is missing then is asked for.
func (l *link) push(to uint64, b []byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || to != 0 && l.to != to {
		return 0
	}
	to = l.to
	if l.bytes += len(b); l.bytes > mostWaits {
		l.queue, l.bytes, l.open = nil, 0, false
	} else {
		l.queue = append(l.queue, b)
	}
	l.awake()
	return to
}

func (l *link) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Publish implements Transport. Each router gets a frame once, however many streams lead to it, and all its frames by the same one while that is
// open: two streams would change their order.
func (d *Direct) Publish(b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var room [16]uint64
	reached := room[:0]
	for _, a := range d.order {
		l := d.links[a]
		if to := l.router(); to != 0 && !slices.Contains(reached, to) {
			reached = append(reached, l.push(to, b))
		}
	}
	for to, l := range d.answers {
		if !slices.Contains(reached, to) {
			l.push(to, b)
		}
	}
}

// Send implements Transport.
func (d *Direct) Send(to uint64, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.order {
		if d.links[a].push(to, b) != 0 {
			return
		}
	}
	if l := d.answers[to]; l != nil {
		l.push(to, b)
	}
}

// router is the peer at the other end; 0 for none.
func (l *link) router() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to
}

// Problem implements Transport.
func (d *Direct) Problem() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.problem
}

// Unheard implements Transport: the addresses of other routers to which there is no stream, and why.
func (d *Direct) Unheard() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, a := range d.order {
		l := d.links[a]
		l.mu.Lock()
		if !l.open && !l.me && l.fault != "" {
			all = append(all, a+": "+l.fault)
		}
		l.mu.Unlock()
	}
	if len(all) > mostSaid {
		all = append(all[:mostSaid], fmt.Sprintf("and %d more", len(all)-mostSaid))
	}
	return strings.Join(all, "; ")
}

// Run implements Transport.
func (d *Direct) Run(ctx context.Context, self Self, receive func([]byte)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { d.accept(ctx, &wg, self, receive) })
	defer d.listener.Close()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		d.follow(ctx, &wg, self, receive)
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// follow opens streams to the addresses that there are now, and closes those to others.
func (d *Direct) follow(ctx context.Context, wg *sync.WaitGroup, self Self, receive func([]byte)) {
	addresses, problem := d.resolve(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.problem = problem; problem != "" && len(addresses) == 0 {
		return // what was there may still be
	}
	for a, l := range d.links {
		if !addresses[a] {
			l.cancel()
			delete(d.links, a)
		}
	}
	for a := range addresses {
		if d.links[a] == nil && len(d.links) < mostTarget {
			own, cancel := context.WithCancel(ctx)
			l := &link{wake: make(chan struct{}, 1), cancel: cancel}
			d.links[a] = l
			wg.Go(func() { l.keep(own, a, self, receive) })
		}
	}
	d.order = slices.Sorted(maps.Keys(d.links))
}

// resolve is the addresses that the targets stand for.
func (d *Direct) resolve(ctx context.Context) (addresses map[string]bool, problem string) {
	addresses = map[string]bool{}
	for _, t := range d.targets {
		name, ok := strings.CutPrefix(t, "dns://")
		if !ok {
			addresses[t] = true
			continue
		}
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			problem = err.Error()
			continue
		}
		limit, cancel := context.WithTimeout(ctx, dialFor)
		ips, err := net.DefaultResolver.LookupHost(limit, host)
		cancel()
		if err != nil {
			problem = err.Error()
			continue
		}
		for _, ip := range ips {
			addresses[net.JoinHostPort(ip, port)] = true
		}
	}
	return addresses, problem
}

const hello = "WPR1"

// greeting is what both sides of a stream say first.
func greeting(s Self) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(hello), s.Fleet), s.Incarnation)
}

// Why a stream to an address is not opened, for people.
var (
	errNoRouter   = errors.New("what answers there is no warmpath router: give the address of its peers.listen")
	errNoAnswer   = errors.New("what listens there does not answer: does that router hang?")
	errOtherFleet = errors.New("the router there has another peers.fleet")
)

func greeted(c net.Conn, self Self) (other uint64, err error) {
	var b [len(hello) + 16]byte
	_, err = io.ReadFull(c, b[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, errNoAnswer
	}
	if err != nil || string(b[:len(hello)]) != hello {
		return 0, errNoRouter
	}
	if binary.BigEndian.Uint64(b[len(hello):]) != self.Fleet {
		return 0, errOtherFleet
	}
	return binary.BigEndian.Uint64(b[len(hello)+8:]), nil
}

// keep holds the stream to an address open.
func (l *link) keep(ctx context.Context, address string, self Self, receive func([]byte)) {
	for ctx.Err() == nil {
		me, err := l.stream(ctx, address, self, receive)
		l.note(me, err)
		if me {
			<-ctx.Done()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(dialEvery):
		}
	}
}

// note keeps why the stream ended. me says that the address is this router's own.
func (l *link) note(me bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.me = me; err == nil {
		err = errors.New("the connection was lost")
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" { // the address is said anyway
		err = op.Err
	}
	l.fault = err.Error()
}

// stream sends frames over one connection until it breaks, and takes in what is answered there. me says that it leads back to this router, and the
// error why it was not opened.
func (l *link) stream(ctx context.Context, address string, self Self, receive func([]byte)) (me bool, err error) {
	dialer := net.Dialer{Timeout: dialFor}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(dialFor))
	if _, err := c.Write(greeting(self)); err != nil {
		return false, err
	}
	to, err := greeted(c, self)
	if err != nil || to == self.Incarnation {
		return err == nil, err
	}
	_ = c.SetDeadline(time.Time{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.Close()
	wg.Go(func() { // that the other side is gone shows here
		read(c, 0, receive)
		l.close()
	})
	l.begin(to)
	l.pump(ctx, c)
	return false, nil
}

// begin opens the link to a router.
func (l *link) begin(to uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.open, l.queue, l.bytes = to, true, nil, 0
}

// pump writes what is queued until the connection breaks or the link is closed.
func (l *link) pump(ctx context.Context, c net.Conn) {
	defer l.close()
	w := bufio.NewWriterSize(c, 64<<10)
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		queue, open := l.queue, l.open
		l.queue, l.bytes = nil, 0
		l.mu.Unlock()
		if !open {
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(writeFor))
		for _, b := range queue {
			var n [4]byte
			binary.BigEndian.PutUint32(n[:], uint32(len(b)))
			_, _ = w.Write(n[:])
			_, _ = w.Write(b)
		}
		if w.Flush() != nil {
			return
		}
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.open, l.queue, l.bytes = 0, false, nil, 0
	l.awake()
}

// accept takes in the streams of others.
func (d *Direct) accept(ctx context.Context, wg *sync.WaitGroup, self Self, receive func([]byte)) {
	places := make(chan struct{}, mostStream)
	for {
		c, err := d.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(dialEvery)
			continue
		}
		select {
		case places <- struct{}{}:
			wg.Go(func() {
				defer func() { <-places }()
				d.serve(ctx, c, self, receive)
			})
		default:
			_ = c.Close()
		}
	}
}

// serve takes in one stream, and answers on it.
func (d *Direct) serve(ctx context.Context, c net.Conn, self Self, receive func([]byte)) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(dialFor))
	other, err := greeted(c, self)
	if errors.Is(err, errOtherFleet) {
		_, _ = c.Write(greeting(self)) // so that it can say why
	}
	if err != nil {
		return
	}
	if _, err := c.Write(greeting(self)); err != nil || other == self.Incarnation {
		return
	}
	_ = c.SetDeadline(time.Time{})
	l := &link{wake: make(chan struct{}, 1)}
	l.begin(other)
	d.mu.Lock()
	d.answers[other] = l
	d.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer c.Close()
		l.pump(ctx, c)
	})
	read(c, 10*silentFor, receive) // routers speak all the time
	l.close()
	d.mu.Lock()
	if d.answers[other] == l {
		delete(d.answers, other)
	}
	d.mu.Unlock()
}

// read takes in frames until the stream breaks, or is silent for a time that is not 0.
func read(c net.Conn, silent time.Duration, receive func([]byte)) {
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		if silent > 0 {
			_ = c.SetReadDeadline(time.Now().Add(silent))
		}
		var n [4]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(n[:])
		if size > 4*mostFrame+8*mostChain {
			return
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(r, b); err != nil {
			return
		}
		receive(b)
	}
}
