package proxy

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// inFlight is a request being served. The registry calls all methods while locked.
type inFlight interface {
	check(now time.Time, gone *timeouts.Unreachable, queued bool)
	skip(passed time.Duration)
	signs(to *route.StreamsAlive, now time.Time)
	stopRetries()
	abort()
}

// link is the place of a request in the registry.
type link struct {
	prev, next *link
	of         inFlight
}

// registry holds the requests being served, to enforce their limits and to end them at shutdown. A list costs one short
// lock at either end of a request, less than a timer for each request and each piece of a stream.
type registry struct {
	mu   sync.Mutex
	root link // next is the first, prev the last
	n    int
}

func (g *registry) init() { g.root.next, g.root.prev = &g.root, &g.root }

func (g *registry) add(l *link, of inFlight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.of = of
	l.prev, l.next = g.root.prev, &g.root
	l.prev.next, g.root.prev = l, l
	g.n++
}

func (g *registry) remove(l *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.next == nil {
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	*l = link{}
	g.n--
}

func (g *registry) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// locked calls f while locked: f must be quick.
func (g *registry) locked(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// each calls f for every request while locked: f must be quick.
func (g *registry) each(f func(inFlight)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := g.root.next; l != &g.root; l = l.next {
		f(l.of)
	}
}
