package proxy

import "sync"

// registry holds the calls being served, so that their limits can be enforced and shutdown can end them. A list costs one
// short lock at either end of a request; a timer for each request and each piece of a stream would cost more.
type registry struct {
	mu   sync.Mutex
	root call // next is the first, prev the last
	n    int
}

func (g *registry) init() { g.root.next, g.root.prev = &g.root, &g.root }

func (g *registry) add(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.prev, c.next = g.root.prev, &g.root
	c.prev.next, g.root.prev = c, c
	g.n++
}

func (g *registry) remove(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.next == nil {
		return
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.next, c.prev = nil, nil
	g.n--
}

func (g *registry) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// each calls f for every open call, inside the lock: f must be quick.
func (g *registry) each(f func(*call)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := g.root.next; c != &g.root; c = c.next {
		f(c)
	}
}
