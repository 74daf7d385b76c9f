package main

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/proxy"
)

// doors is the handler of the traffic listener: the door of the current configuration, and earlier ones with open
// requests.
type doors struct {
	now     atomic.Pointer[entrance]
	leaving atomic.Bool // another process accepts new connections: each answer closes its connection

	mu       sync.Mutex  // guards all and draining
	all      []*entrance // the current one last
	draining bool        // all doors refuse new requests, also those that are opened later

	ctx context.Context
	wg  sync.WaitGroup
}

// entrance is one door, and its number of requests.
type entrance struct {
	*proxy.Proxy
	inside atomic.Int64
	end    context.CancelFunc // of Run
	ended  func()             // called when no request is left
}

// ServeHTTP passes the request to the current door.
func (d *doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.leaving.Load() {
		w.Header().Set("Connection", "close") // over HTTP/2 net/http sends GOAWAY, and the streams go on
	}
	e := d.enter()
	defer e.inside.Add(-1)
	e.ServeHTTP(w, r)
}

// enter is the current door, and counts a request more inside.
func (d *doors) enter() *entrance {
	for {
		e := d.now.Load()
		e.inside.Add(1)
		if d.now.Load() == e {
			return e
		}
		e.inside.Add(-1) // retire may have seen it empty meanwhile
	}
}

// emptyEvery is how often a replaced door is checked for requests.
const emptyEvery = 250 * time.Millisecond

// open makes p the current door. The previous one is ended when its requests are, and then ended is called.
func (d *doors) open(p *proxy.Proxy, ended func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	running, end := context.WithCancel(d.ctx)
	e := &entrance{Proxy: p, end: end, ended: ended}
	d.wg.Go(func() { p.Run(running) })
	if d.draining {
		p.Drain()
	}
	before := d.now.Swap(e)
	d.all = append(d.all, e)
	if before != nil {
		d.wg.Go(func() { d.retire(before) })
	}
}

// retire waits until a replaced door has no requests.
func (d *doors) retire(e *entrance) {
	t := time.NewTicker(emptyEvery)
	defer t.Stop()
	for e.inside.Load() > 0 && d.ctx.Err() == nil {
		select {
		case <-d.ctx.Done():
		case <-t.C:
		}
	}
	e.end()
	d.mu.Lock()
	d.all = slices.DeleteFunc(d.all, func(x *entrance) bool { return x == e })
	d.mu.Unlock()
	e.ended()
}

func (d *doors) each(f func(*entrance)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.all {
		f(e)
	}
}

// current is the current door; nil before the first.
func (d *doors) current() *proxy.Proxy {
	if e := d.now.Load(); e != nil {
		return e.Proxy
	}
	return nil
}

// Open is the number of requests being served.
func (d *doors) Open() (n int) {
	d.each(func(e *entrance) { n += e.Proxy.Open() })
	return n
}

// Drain makes all doors refuse new requests.
func (d *doors) Drain() {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	d.each(func(e *entrance) { e.Proxy.Drain() })
}

// Abort ends every open request.
func (d *doors) Abort() { d.each(func(e *entrance) { e.Proxy.Abort() }) }

// bodies is the memory of request bodies; all doors share one budget.
func (d *doors) bodies() metrics.Bodies {
	m := d.current().BodyMemory()
	return metrics.Bodies{Held: m.Held, Limit: m.Limit, Refused: m.Refused}
}
