package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestMain runs six tests side by side: those with Redis wait for its time limits.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, // these sleep for some seconds after the client is closed
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// wire is a network in memory.
type wire struct {
	mu      sync.Mutex
	ends    []*end
	loses   int  // of frames to one router the one of so many that is lost, 0 for none
	garbles bool // snapshots come with a bit changed
	carried int
	shelf   *shelf // nil for none
}

// end is one router's transport on it.
type end struct {
	on    *wire
	self  Self
	inbox chan []byte
	deaf  bool // nothing reaches it, and nothing of it reaches others
	mute  bool // nothing of it reaches others
	dumb  bool // nothing of it reaches a single router

	problem string
	mangle  func([]byte) []byte
}

func (e *end) Run(ctx context.Context, self Self, receive func([]byte)) {
	e.on.mu.Lock()
	e.self = self
	e.on.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-e.inbox:
			receive(b)
		}
	}
}

func (e *end) carry(b []byte, to func(*end) bool) {
	e.on.mu.Lock()
	defer e.on.mu.Unlock()
	if e.deaf || e.mute {
		return
	}
	if e.mangle != nil {
		b = e.mangle(append([]byte(nil), b...))
	}
	for _, o := range e.on.ends {
		if o != e && !o.deaf && to(o) {
			o.inbox <- b
		}
	}
}

func (e *end) Publish(b []byte) { e.carry(b, func(*end) bool { return true }) }
func (e *end) Send(to uint64, b []byte) {
	e.on.mu.Lock()
	e.on.carried++
	// in no rhythm
	lost := e.dumb || e.on.loses > 0 && uint64(e.on.carried)*0x9e3779b97f4a7c15>>33%uint64(e.on.loses) == 0
	e.on.mu.Unlock()
	if lost {
		return
	}
	e.carry(b, func(o *end) bool { return o.self.Incarnation == to })
}

func (e *end) Problem() string {
	e.on.mu.Lock()
	defer e.on.mu.Unlock()
	return e.problem
}
func (e *end) Unheard() string { return "" }

type firstPick struct{}

func (firstPick) Needs() pick.Needs { return pick.Needs{Name: "first"} }

func (firstPick) Hooks() pick.Hooks { return pick.Hooks{} }

func (firstPick) Pick(*pick.View, *fleet.Request) pick.Choice {
	return pick.Choice{Index: 0, Reason: "first"}
}

// node is a router of a fleet.
type node struct {
	*live.Fleet
	group  *Group
	memory *memory
	limits *quota.Table
	end    *end
	log    *strings.Builder
	policy atomic.Uint64 // digest
	saw    string        // home of the latest decision's conversation
	stop   context.CancelFunc
}

// see notes where a decision found its conversation at home.
func (n *node) see(e *route.Entry) {
	if e.View == nil {
		return
	}
	if n.saw = "nowhere"; e.View.Home >= 0 {
		n.saw = e.View.Candidates[e.View.Home].Name
	}
}

func (w *wire) node(t *testing.T, secret string, endpoints ...string) *node {
	t.Helper()
	n := &node{end: &end{
		on: w, inbox: make(chan []byte, 1<<14),
	}, log: &strings.Builder{}, memory: &memory{on: w}, limits: limited()}
	n.policy.Store(1)
	c := Config{
		Fleet: "test", Secret: []byte(secret), Transport: n.end, Policy: n.policy.Load, Memory: n.memory,
		Limits: n.limits, Log: slog.New(slog.NewTextHandler(n.log, nil)),
	}
	if w.shelf != nil {
		c.Store, c.KeepFor, c.KeepMost = w.shelf, time.Hour, 100_000
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	n.group = g
	n.Fleet = live.New(route.New(route.Config{Policy: func() pick.Policy { return firstPick{} }, Replicas: true}),
		time.Now, g.Listener(), live.Listener{Entry: n.see})
	n.memory.router = n.Fleet
	g.Serve(n.Fleet)
	d := route.Declared{Source: "test"}
	for _, e := range endpoints {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: e, URL: "http://" + e, Weight: 1})
	}
	n.Observe(d)
	for _, e := range endpoints {
		n.Observe(route.Probed{Endpoint: e, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	}
	w.mu.Lock()
	w.ends = append(w.ends, n.end)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { g.Run(ctx) })
	n.stop = func() { cancel(); wg.Wait() }
	return n
}

func (n *node) place(t *testing.T, session string, blocks int) fleet.Lease {
	t.Helper()
	names := make([]uint64, blocks)
	for i := range names {
		names[i] = uint64(i + 1)
	}
	p, err := n.Decide(&fleet.Request{
		Model: "m", Session: session, PromptTokens: 1000, Stream: true,
		Content: &fleet.Content{Blocks: names, Bytes: blocks * fleet.BlockBytes},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Lease
}

func (n *node) books() (text string) {
	for _, s := range n.Status() {
		text += fmt.Sprintf("%s: %d requests, %d to prefill; ", s.Endpoint.Name, s.Load.Requests, s.Load.PrefillTokens)
	}
	return text
}

// TestRoutersHearEachOther: what one router places is on the books of the other at once, also of one that comes later;
// what is lost on the way is made good; and what a router that is gone had under way is forgotten in time.
func TestRoutersHearEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x", "y"), w.node(t, "", "x", "y")
		defer a.stop()
		time.Sleep(time.Second)
		first := a.place(t, "one", 40)
		time.Sleep(20 * time.Millisecond)
		agree := func(what, want string, nodes ...*node) {
			t.Helper()
			for i, n := range nodes {
				if got := n.books(); got != want {
					t.Errorf("%s: router %d has %s; want %s", what, i, got, want)
				}
			}
		}
		agree("placed", "x: 1 requests, 1000 to prefill; y: 0 requests, 0 to prefill; ", a, b)
		c := w.node(t, "", "x", "y")
		defer c.stop()
		time.Sleep(time.Second)
		agree("a newcomer", a.books(), c)
		a.Observe(route.FirstByte{Lease: first})
		time.Sleep(20 * time.Millisecond)
		agree("first byte", "x: 1 requests, 0 to prefill; y: 0 requests, 0 to prefill; ", a, b, c)

		w.mu.Lock()
		b.end.deaf = true
		w.mu.Unlock()
		a.Observe(route.Finished{Lease: first, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 10}})
		second := a.place(t, "one", 60)
		time.Sleep(100 * time.Millisecond)
		w.mu.Lock()
		b.end.deaf = false
		w.mu.Unlock()
		time.Sleep(time.Second)
		agree("after a gap", a.books(), b, c)
		if s := b.group.Status(); s.Lost == 0 || len(s.Peers) != 2 {
			t.Errorf("no gap was noticed: %+v", s)
		}
		b.place(t, "two", 10)
		time.Sleep(20 * time.Millisecond)
		agree("of two", b.books(), a, c)
		if got := a.Status()[0].Load.Requests; got != 2 {
			t.Errorf("%d requests of two routers", got)
		}
		w.mu.Lock()
		b.end.deaf = true // it dies without a word
		w.mu.Unlock()
		b.stop()
		time.Sleep(2 * time.Second)
		agree("one is gone", a.books(), c)
		if got := a.Status()[0].Load.Requests; got != 1 {
			t.Errorf("%d requests when one router is gone", got)
		}
		if log := a.log.String(); !strings.Contains(log, "a router is gone") {
			t.Errorf("nobody says so:\n%s", log)
		}
		a.Observe(route.Finished{Lease: second})
		time.Sleep(20 * time.Millisecond)
		agree("at the end", "x: 0 requests, 0 to prefill; y: 0 requests, 0 to prefill; ", a, c)
	})
}

// TestStrangers: routers with another secret, of another version or with broken frames are not heard, and one with
// other endpoints is named.
func TestStrangers(t *testing.T) {
	rows := map[string]struct {
		secret   string
		mangle   func([]byte) []byte
		endpoint string
		heard    int
		says     string // the log, once
		note     string // on /readyz
	}{
		"another secret": {
			secret: "another secret of the fleet", heard: 0, says: "another peers.secret", note: "another peers.secret",
		},
		"another version": {
			mangle: func(b []byte) []byte { b[0] = 9; return b }, heard: 0, says: "speaks another version",
			note: fmt.Sprintf("version 9, this one %d", Version),
		},
		"broken frames": {
			mangle: func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, heard: 0, says: "does not open",
			note: "does not open",
		},
		"other endpoints": {endpoint: "z", heard: 1, says: "other endpoints", note: "other endpoints"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, endpoint := &wire{}, "x"
				if row.endpoint != "" {
					endpoint = row.endpoint
				}
				a, b := w.node(t, "", "x"), w.node(t, row.secret, endpoint)
				w.mu.Lock()
				b.end.mangle = row.mangle
				w.mu.Unlock()
				time.Sleep(4 * time.Second)
				b.place(t, "one", 10)
				time.Sleep(time.Second)
				if ready, note := a.group.Note(); !ready || !strings.Contains(note, row.note) {
					t.Errorf("ready %t: %q", ready, note)
				}
				a.stop()
				b.stop()
				if n := a.group.Peers(); n != row.heard {
					t.Errorf("%d are heard", n)
				}
				if log := a.log.String(); strings.Count(log, row.says) != 1 {
					t.Errorf("the log does not say %q once:\n%s", row.says, log)
				}
				if got := a.books(); got != "x: 0 requests, 0 to prefill; " {
					t.Errorf("on the books: %s", got)
				}
			})
		})
	}
}

// TestFarClock: a router whose clock is days ahead is not heard, which is said once and noted for as long as it is
// there.
func TestFarClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x"), w.node(t, "", "x")
		b.group.clock.ahead.Store(int64(48 * time.Hour))
		time.Sleep(5 * time.Second)
		if ready, note := a.group.Note(); !ready || !strings.Contains(note, "clock") ||
			!strings.Contains(a.group.Status().Strange, "clock") {
			t.Errorf("ready %t: %q", ready, note)
		}
		b.stop()
		time.Sleep(5 * time.Second)
		if _, note := a.group.Note(); strings.Contains(note, "clock") {
			t.Errorf("it is gone, and noted is %q", note)
		}
		a.stop()
		if n := strings.Count(a.log.String(), "clock is not believed"); n != 1 {
			t.Errorf("it is said %d times", n)
		}
	})
}

// TestNamesNotFound: that names of routers are not found for a while takes nothing from the routers that are heard.
func TestNamesNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x"), w.node(t, "", "x")
		time.Sleep(5 * time.Second)
		set := func(problem string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			a.end.problem = problem
		}
		for range 2 {
			set("lookup routers: no such host")
			time.Sleep(5 * time.Second)
			if ready, note := a.group.Note(); !ready || strings.Contains(note, "cannot be reached") ||
				!strings.Contains(note, "no such host") {
				t.Errorf("ready %t: %q", ready, note)
			}
			set("")
			time.Sleep(time.Second)
		}
		if _, note := a.group.Note(); note != "" {
			t.Errorf("afterwards %q", note)
		}
		set("lookup routers: no such host")
		w.mu.Lock()
		b.end.deaf = true
		w.mu.Unlock()
		b.stop()
		time.Sleep(5 * time.Second)
		if _, note := a.group.Note(); !strings.Contains(note, "cannot be reached: lookup") {
			t.Errorf("alone: %q", note)
		}
		a.stop()
		log := a.log.String()
		if strings.Count(log, "no such host") != 4 || strings.Count(log, "decides for itself") != 1 {
			t.Errorf("the log says:\n%s", log)
		}
	})
}

// TestDiffersForAMoment: that one router finds an endpoint before the other is not said.
func TestDiffersForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x"), w.node(t, "", "x")
		time.Sleep(5 * time.Second)
		for _, n := range []*node{b, a} {
			n.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
				{Name: "x", URL: "http://x", Weight: 1}, {Name: "y", URL: "http://y", Weight: 1},
			}})
			time.Sleep(2 * time.Second)
		}
		if _, note := a.group.Note(); note != "" {
			t.Errorf("it is noted that %s", note)
		}
		a.stop()
		b.stop()
		if log := a.log.String() + b.log.String(); strings.Contains(log, "differs") || strings.Contains(log, "agrees") {
			t.Errorf("the logs say:\n%s", log)
		}
	})
}

// TestDirect: frames go over TCP from each router to each other one, and not back to itself.
func TestDirect(t *testing.T) {
	const n = 3
	var listeners []net.Listener
	var targets []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners, targets = append(listeners, l), append(targets, l.Addr().String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var all []*Direct
	got := make(chan string, 1000)
	for i, l := range listeners {
		d := NewDirect(l, targets, slog.New(slog.DiscardHandler))
		all = append(all, d)
		wg.Go(func() {
			d.Run(ctx, Self{Fleet: 1, Incarnation: uint64(i + 1)}, func(b []byte) {
				got <- fmt.Sprintf("%s at %d", b, i+1)
			})
		})
	}
	want := func(send func(), frames ...string) {
		t.Helper()
		missing := map[string]bool{}
		for _, f := range frames {
			missing[f] = true
		}
		for len(missing) > 0 {
			send() // until the streams are open it is lost
			select {
			case f := <-got:
				delete(missing, f)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	want(func() { all[0].Publish([]byte("all")) }, "all at 2", "all at 3")
	want(func() { all[2].Send(1, []byte("one")) }, "one at 1")
	for len(got) > 0 {
		if f := <-got; f == "all at 1" || strings.HasPrefix(f, "one") && f != "one at 1" {
			t.Errorf("%s", f)
		}
	}
}

// dnsServer is a server whose answer to every question is what has is, or none while that has nothing.
func dnsServer(t *testing.T, has *atomic.Pointer[string]) *net.Resolver {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			var q dnsmessage.Message
			if q.Unpack(b[:n]) != nil {
				continue
			}
			q.Response, q.Additionals = true, nil
			if at := *has.Load(); at == "" {
				q.RCode = dnsmessage.RCodeServerFailure
			} else if of := q.Questions[0]; of.Type == dnsmessage.TypeA {
				q.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: of.Name, Class: of.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(at).As4()},
				}}
			}
			if out, err := q.Pack(); err == nil {
				_, _ = c.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
}

// TestDirectWithoutDNS: a name that is not resolved any more stands for what it stood for, whatever other addresses
// there are.
func TestDirectWithoutDNS(t *testing.T) {
	var has atomic.Pointer[string]
	before := net.DefaultResolver
	net.DefaultResolver = dnsServer(t, &has)
	defer func() { net.DefaultResolver = before }()
	for name, more := range map[string][]string{"alone": nil, "beside an address": {"127.0.0.1:1"}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			d := NewDirect(l, append([]string{"dns://routers.test.:2"}, more...), slog.New(slog.DiscardHandler))
			var wg sync.WaitGroup
			defer wg.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, step := range []struct{ has, want string }{
				{"127.0.0.2", "127.0.0.2:2"}, {"", "127.0.0.2:2"}, {"127.0.0.3", "127.0.0.3:2"}, {"", "127.0.0.3:2"},
			} {
				has.Store(&step.has)
				d.follow(ctx, &wg, Self{Fleet: 1, Incarnation: 1}, func([]byte) {})
				want := append(slices.Clone(more), step.want)
				if slices.Sort(want); !slices.Equal(d.order, want) || (d.Problem() != "") != (step.has == "") {
					t.Errorf("it has %q: there are streams to %v, want %v; %q", step.has, d.order, want, d.Problem())
				}
			}
		})
	}
}

// TestDirectAnswers: a router that nobody has an address of is answered on the stream that it has opened; one to which
// several streams lead gets each frame once.
func TestDirectAnswers(t *testing.T) {
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	at := listeners[1].Addr().String()
	_, port, _ := net.SplitHostPort(at)
	unknown := NewDirect(listeners[0], []string{at, "localhost:" + port}, slog.New(slog.DiscardHandler))
	found := NewDirect(listeners[1], nil, slog.New(slog.DiscardHandler))
	got := make(chan string, 10_000)
	for i, d := range []*Direct{unknown, found} {
		wg.Go(func() {
			d.Run(ctx, Self{Fleet: 1, Incarnation: uint64(i + 1)}, func(b []byte) {
				got <- fmt.Sprintf("%s at %d", b, i+1)
			})
		})
	}
	open := func() (streams int) {
		found.mu.Lock()
		defer found.mu.Unlock()
		unknown.mu.Lock()
		defer unknown.mu.Unlock()
		for _, l := range unknown.links {
			if l.router() == 2 {
				streams++
			}
		}
		if l := found.answers[1]; l == nil || l.router() != 1 {
			return 0
		}
		return streams
	}
	until(t, func() bool { return open() == 2 })
	unknown.Publish([]byte("all"))
	found.Publish([]byte("all"))
	found.Send(1, []byte("one"))
	unknown.Send(2, []byte("end"))
	counts := map[string]int{}
	for counts["end at 2"] == 0 || counts["one at 1"] == 0 || counts["all at 1"] == 0 || counts["all at 2"] == 0 {
		counts[<-got]++
	}
	for what, n := range counts {
		if n != 1 {
			t.Errorf("%q came %d times", what, n)
		}
	}
}

// TestDirectKeepsOrder: frames to one router come in order, also where several addresses lead to it, as with a name
// that has an IPv4 and an IPv6 address of each.
func TestDirectKeepsOrder(t *testing.T) {
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	at := listeners[1].Addr().String()
	_, port, _ := net.SplitHostPort(at)
	from := NewDirect(listeners[0], []string{at, "localhost:" + port}, slog.New(slog.DiscardHandler))
	to := NewDirect(listeners[1], nil, slog.New(slog.DiscardHandler))
	const frames = 2000
	got := make(chan string, frames)
	wg.Go(func() { from.Run(ctx, Self{Fleet: 1, Incarnation: 1}, func([]byte) {}) })
	wg.Go(func() { to.Run(ctx, Self{Fleet: 1, Incarnation: 2}, func(b []byte) { got <- string(b) }) })
	until(t, func() bool {
		from.mu.Lock()
		defer from.mu.Unlock()
		open := 0
		for _, l := range from.links {
			if l.router() == 2 {
				open++
			}
		}
		return open == 2
	})
	for i := range frames {
		if frame := fmt.Append(nil, i); i%2 == 0 {
			from.Publish(frame)
		} else {
			from.Send(2, frame)
		}
	}
	for i := range frames {
		if f := <-got; f != fmt.Sprint(i) {
			t.Fatalf("frame %s came in the place of %d", f, i)
		}
	}
}

// TestDirectSaysWhy: an address at which no router of the fleet is reached is named with the reason, this router's own
// is not.
func TestDirectSaysWhy(t *testing.T) {
	var listeners []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	address := func(i int) string { return listeners[i].Addr().String() }
	nothing := freeport.Address()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	here := NewDirect(listeners[0], []string{address(0), address(1), address(2), nothing}, quiet)
	other := NewDirect(listeners[1], nil, quiet)
	wg.Go(func() { here.Run(ctx, Self{Fleet: 1, Incarnation: 1}, func([]byte) {}) })
	wg.Go(func() { other.Run(ctx, Self{Fleet: 2, Incarnation: 2}, func([]byte) {}) })
	wg.Go(func() { // a server of something else
		defer listeners[2].Close()
		for {
			c, err := listeners[2].Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.Close()
		}
	})
	defer listeners[2].Close()
	until(t, func() bool {
		said := here.Unheard()
		return strings.Contains(said, address(1)+": the router there has another peers.fleet") &&
			strings.Contains(said, address(2)+": what answers there is no warmpath router") &&
			strings.Contains(said, nothing+": connect: connection refused") && !strings.Contains(said, address(0))
	})
}

// TestGreeting: what is no router is told from one that hangs, and from one of another fleet.
func TestGreeting(t *testing.T) {
	for answer, want := range map[string]error{
		"": errNoAnswer, "WPR2": errNoAnswer, "WPR1": errRelease, "WPR1 and more bytes of it": errRelease,
		"HTTP/1.1 400 Bad Request": errNoRouter, string(greeting(Self{Fleet: 2, Incarnation: 2})): errOtherFleet,
		string(greeting(Self{Fleet: 1, Incarnation: 2})): nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, other := net.Pipe()
			defer c.Close()
			go func() { _, _ = other.Write([]byte(answer)) }()
			_ = c.SetDeadline(time.Now().Add(dialFor))
			if _, _, err := greeted(c, Self{Fleet: 1, Incarnation: 1}); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", answer, err, want)
			}
		})
	}
}

// TestLongPrompt: a prompt of more names than a message may have is told as far as it goes, and costs no router its
// place.
func TestLongPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x"), w.node(t, "", "x")
		time.Sleep(4 * time.Second)
		for range 2 { // the second goes on from the first
			a.place(t, "long", 8*(mostChain+1000))
			time.Sleep(2 * time.Second)
		}
		if s := b.group.Status(); s.Bad > 0 || len(s.Peers) != 1 || !s.Peers[0].Synced || a.books() != b.books() {
			t.Errorf("%+v; %s and %s", s, a.books(), b.books())
		}
		a.stop()
		b.stop()
	})
}

// BenchmarkTold is what a request costs two routers beside its decision, of which ten come in a frame: it is told,
// sealed, opened and heard.
func BenchmarkTold(b *testing.B) {
	w := &wire{}
	router := func() *node {
		n := &node{end: &end{on: w}}
		g, err := New(Config{
			Fleet: "test", Transport: n.end, Policy: n.policy.Load, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		n.group = g
		n.Fleet = live.New(route.New(route.Config{Policy: func() pick.Policy { return firstPick{} }, Replicas: true}),
			time.Now, g.Listener())
		g.Serve(n.Fleet)
		n.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{{Name: "x", URL: "http://x", Weight: 1}}})
		n.Observe(route.Probed{
			Endpoint: "x", Report: fleet.Report{Healthy: true, CacheTokens: 1 << 22, Models: []fleet.Model{{ID: "m"}}},
		})
		g.release()
		return n
	}
	teller, hearer := router(), router()
	heard := make(chan []byte, 10)
	w.ends = []*end{{on: w, inbox: heard}}
	hear := func() {
		for len(heard) > 0 {
			hearer.group.Receive(<-heard)
		}
	}
	teller.group.out.flush(teller.group.lives())
	hear()
	for _, m := range hearer.group.members {
		m.synced, m.number = true, teller.group.out.number
	}
	n := 0
	for _, told := range []bool{false, true} {
		b.Run(map[bool]string{false: "told", true: "told and heard"}[told], func(b *testing.B) {
			blocks := make([]uint64, 64)
			for range b.N {
				n++
				for i := range blocks {
					blocks[i] = uint64(n/8)<<32 + uint64(i) // every eighth is new
				}
				p, err := teller.Decide(&fleet.Request{
					Model: "m", Session: fmt.Sprint("chat", n/8), PromptTokens: 2000, Stream: true,
					Content: &fleet.Content{Blocks: blocks[:48+n%8*2], Bytes: (48 + n%8*2) * fleet.BlockBytes},
				})
				if err != nil {
					b.Fatal(err)
				}
				teller.Observe(route.FirstByte{Lease: p.Lease})
				teller.Observe(route.Finished{
					Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 100},
				})
				if n%10 != 9 {
					continue
				}
				teller.group.out.flush(nil)
				if told {
					hear()
				}
				for len(heard) > 0 {
					<-heard
				}
			}
		})
		for _, m := range hearer.group.members {
			m.number = teller.group.out.number
		}
	}
	if s := hearer.group.Status(); s.Lost > 0 || s.Bad > 0 {
		b.Fatalf("%+v", s)
	}
}
