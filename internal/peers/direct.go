package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/places"
)

// Direct carries frames over a TCP stream from each router to each other one. The routers are named by address, or
// found by a DNS name that has an address for each. A router that is not found yet is answered on the stream that it
// has opened.
type Direct struct {
	listener net.Listener
	targets  []string // HOST:PORT or dns://NAME:PORT
	log      *slog.Logger
	found    map[string][]string // the addresses of each target that is a name, as they were found last; follow's alone

	mu      sync.Mutex       // guards what follows
	links   map[string]*link // to addresses
	order   []string         // the addresses of links, sorted
	answers map[uint64]*link // back to routers that have opened a stream
	problem string
	said    time.Time // when it was last logged that a stream is not taken
}

// Bounds and times.
const (
	lookEvery   = 2 * time.Second // DNS
	dialEvery   = 500 * time.Millisecond
	dialFor     = 2 * time.Second
	writeFor    = 2 * time.Second
	mostWaits   = 4 << 20 // bytes that wait for one router
	mostTarget  = 128     // addresses
	mostStream  = 256     // streams that others have opened
	mostFromOne = 64      // of these from one address
	mostSaid    = 3       // addresses in a message for people
)

// NewDirect makes a transport. The listener is closed when Run ends.
func NewDirect(l net.Listener, targets []string, log *slog.Logger) *Direct {
	return &Direct{
		listener: l, targets: targets, log: log, found: map[string][]string{}, links: map[string]*link{},
		answers: map[uint64]*link{},
	}
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

// push queues a frame for a router, 0 for whichever is there, and returns that router; 0 when the frame cannot go
// there. When too much waits the stream is closed: what is missing then is asked for.
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

// Publish implements Transport. Each router gets a frame once, however many streams lead to it, and all its frames by
// the same one while that is open: two streams would change their order.
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
	d.problem = problem
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
			wg.Go(func() {
				panics.Keep(own, d.log, panics.Peers, dialEvery, func() { l.keep(own, a, self, receive, d.log) })
			})
		}
	}
	d.order = slices.Sorted(maps.Keys(d.links))
}

// resolve is the addresses that the targets stand for. A name that cannot be resolved stands for what it stood for: the
// routers there may still be.
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
		} else {
			d.found[t] = ips
		}
		for _, ip := range d.found[t] {
			addresses[net.JoinHostPort(ip, port)] = true
		}
	}
	return addresses, problem
}

// keep holds the stream to an address open.
func (l *link) keep(ctx context.Context, address string, self Self, receive func([]byte), log *slog.Logger) {
	for ctx.Err() == nil {
		me, err := l.stream(ctx, address, self, receive, log)
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

// stream sends frames over one connection until it breaks, and takes in what is answered there. me says that it leads
// back to this router, and the error why it was not opened.
func (l *link) stream(
	ctx context.Context, address string, self Self, receive func([]byte), log *slog.Logger,
) (me bool, err error) {
	dialer := net.Dialer{Timeout: dialFor}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	s, to, err := open(c, self)
	if s == nil {
		return err == nil, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.Close()
	l.begin(to)    // before the other side may be gone
	wg.Go(func() { // that it is shows here
		defer c.Close()
		defer l.close()
		panics.Catch(log, panics.Peers, func() { s.read(0, receive) })
	})
	log.Info("connected to another router", "address", address, "router", name(to))
	l.pump(ctx, s)
	return false, nil
}

// begin opens the link to a router.
func (l *link) begin(to uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.open, l.queue, l.bytes = to, true, nil, 0
}

// pump writes what is queued until the connection breaks or the link is closed.
func (l *link) pump(ctx context.Context, s *stream) {
	defer l.close()
	w := bufio.NewWriterSize(s, 64<<10)
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
		_ = s.SetWriteDeadline(time.Now().Add(writeFor))
		for _, b := range queue {
			s.write(w, b)
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
	seats := places.New(mostStream, mostFromOne)
	for {
		c, err := d.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(dialEvery)
			continue
		}
		leave, err := seats.Take(c.RemoteAddr())
		if err != nil {
			_ = c.Close()
			continue
		}
		wg.Go(func() {
			defer leave()
			panics.Catch(d.log, panics.Peers, func() { d.serve(ctx, c, self, receive) })
		})
	}
}

// serve takes in one stream, and answers on it.
func (d *Direct) serve(ctx context.Context, c net.Conn, self Self, receive func([]byte)) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	s, err := accepted(c, self)
	if errors.Is(err, errRelease) || errors.Is(err, errSecret) {
		d.strange(c, err)
	}
	if s == nil {
		return
	}
	l := &link{wake: make(chan struct{}, 1)}
	l.begin(s.other)
	d.mu.Lock()
	d.answers[s.other] = l
	d.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer c.Close()
		l.pump(ctx, s)
	})
	panics.Catch(d.log, panics.Peers, func() { s.read(10*silentFor, receive) }) // routers speak all the time
	l.close()
	d.mu.Lock()
	if d.answers[s.other] == l {
		delete(d.answers, s.other)
	}
	d.mu.Unlock()
}

// strange says now and then why a stream that another one has opened is not taken.
func (d *Direct) strange(c net.Conn, why error) {
	d.mu.Lock()
	say := time.Since(d.said) > strangeFor
	if say {
		d.said = time.Now()
	}
	d.mu.Unlock()
	if say {
		d.log.Warn("a router that connects is not heard",
			"address", c.RemoteAddr(), "reason", strings.Replace(why.Error(), "the router there", "it", 1))
	}
}
