package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/proxy"
)

// doors is the handler of the traffic listener: the door of the running configuration, and those of earlier ones whose requests have not
// ended yet.
type doors struct {
	now     atomic.Pointer[entrance]
	leaving atomic.Bool // another process takes new connections: each answer ends the one that it goes out on

	mu  sync.Mutex
	all []*entrance // the running one last
	ctx context.Context
	wg  sync.WaitGroup
}

// entrance is one door, and how many requests are in it.
type entrance struct {
	*proxy.Proxy
	inside atomic.Int64
	end    context.CancelFunc // of Run
	ended  func()             // called when nobody is inside any more
}

// ServeHTTP has the running door answer.
func (d *doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.leaving.Load() && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	for {
		e := d.now.Load()
		e.inside.Add(1)
		if d.now.Load() != e { // it may have been taken for empty meanwhile
			e.inside.Add(-1)
			continue
		}
		defer e.inside.Add(-1)
		e.ServeHTTP(w, r)
		return
	}
}

// emptyEvery is how often a door that was replaced is looked at.
const emptyEvery = 250 * time.Millisecond

// open makes p the running door. The one before is ended, with ended called, when its requests have.
func (d *doors) open(p *proxy.Proxy, ended func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	running, end := context.WithCancel(d.ctx)
	e := &entrance{Proxy: p, end: end, ended: ended}
	d.wg.Go(func() { p.Run(running) })
	before := d.now.Swap(e)
	d.all = append(d.all, e)
	if before != nil {
		d.wg.Go(func() { d.retire(before) })
	}
}

// retire waits until nobody is inside a door that was replaced.
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
	for i, x := range d.all {
		if x == e {
			d.all = append(d.all[:i:i], d.all[i+1:]...)
			break
		}
	}
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

// current is the running door; nil before the first one is opened.
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
func (d *doors) Drain() { d.each(func(e *entrance) { e.Proxy.Drain() }) }

// Abort ends every open request.
func (d *doors) Abort() { d.each(func(e *entrance) { e.Proxy.Abort() }) }

// bodies says how much memory request bodies take; all doors share one budget.
func (d *doors) bodies() metrics.Bodies {
	m := d.current().BodyMemory()
	return metrics.Bodies{Held: m.Held, Limit: m.Limit, Refused: m.Refused}
}
