package peers

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// load has a router serve conversations until it is stopped: each request takes half a second.
type load struct {
	wg     sync.WaitGroup
	stop   chan struct{}
	mu     sync.Mutex
	served int
	failed []error
}

func (n *node) load(name string) *load {
	l := &load{stop: make(chan struct{})}
	for i := range 10 {
		l.wg.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-l.stop:
					return
				case <-time.After(time.Duration(10+7*i) * time.Millisecond):
				}
				p, err := n.Decide(&fleet.Request{
					Model: "m", Session: fmt.Sprint(name, i), PromptTokens: 1000 + 100*turn, Stream: true,
				})
				l.mu.Lock()
				if l.served++; err != nil {
					l.failed = append(l.failed, err)
				}
				l.mu.Unlock()
				if err != nil {
					continue
				}
				time.Sleep(200 * time.Millisecond)
				n.Observe(route.FirstByte{Lease: p.Lease})
				time.Sleep(300 * time.Millisecond)
				n.Observe(route.Finished{
					Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 1000 + 100*turn, OutputTokens: 10},
				})
			}
		})
	}
	return l
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// leases is how many requests of all routers are on a router's books.
func (n *node) leases() (all int) {
	for _, s := range n.Status() {
		all += s.Load.Requests
	}
	return all
}

// TestFailures: three routers under load. Whatever fails, no request does but those of a router that died; what that
// one had under way is forgotten within 2 s; the books of all agree within 5 s after it is over; and each is said,
// once.
func TestFailures(t *testing.T) {
	set := func(w *wire, do func()) { // what the network does
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	}
	rows := map[string]struct {
		fail, mend func(t *testing.T, w *wire, all []*node)
		says       []string // of the first router's log
		note       string   // of the first router while it lasts
		dies       bool     // the third router
		differs    bool     // the third router's books go by other endpoints
		quiet      bool     // nothing is to be said
	}{
		"a router is killed": {
			fail: func(_ *testing.T, w *wire, all []*node) { set(w, func() { all[2].end.deaf = true }); all[2].stop() },
			says: []string{"a router is gone"}, dies: true,
		},
		"the network stalls for 10 s": {
			fail: func(_ *testing.T, w *wire, all []*node) { set(w, func() { all[0].end.deaf = true }) },
			mend: func(_ *testing.T, w *wire, all []*node) { set(w, func() { all[0].end.deaf = false }) },
			says: []string{"a router is gone", "another router is there"},
			note: "no other router of the fleet is heard",
		},
		"one way only": {
			fail: func(_ *testing.T, w *wire, all []*node) { set(w, func() { all[2].end.mute = true }) },
			mend: func(_ *testing.T, w *wire, all []*node) { set(w, func() { all[2].end.mute = false }) },
			says: []string{"a router is gone", "another router is there"},
		},
		"messages come a second late, all at once": {
			fail: func(_ *testing.T, w *wire, all []*node) {
				set(w, func() { all[0].end.deaf = true })
				time.Sleep(time.Second)
				set(w, func() { all[0].end.deaf = false })
			},
		},
		"a clock goes back by minutes": {
			fail:  func(_ *testing.T, _ *wire, all []*node) { all[2].group.clock.ahead.Store(-int64(5 * time.Minute)) },
			quiet: true,
		},
		"clocks are half a second apart": {
			fail: func(_ *testing.T, _ *wire, all []*node) {
				all[2].group.clock.ahead.Store(int64(500 * time.Millisecond))
			},
			quiet: true,
		},
		"a clock jumps by minutes": {
			fail: func(_ *testing.T, _ *wire, all []*node) { all[2].group.clock.ahead.Add(int64(5 * time.Minute)) },
			mend: func(_ *testing.T, _ *wire, all []*node) { all[2].group.clock.ahead.Add(-int64(5 * time.Minute)) },
			says: []string{"clock is not believed"},
		},
		"the store is full": {
			fail: func(_ *testing.T, w *wire, _ []*node) {
				w.shelf.set(func() { w.shelf.fault = errors.New("OOM command not allowed") })
			},
			mend: func(_ *testing.T, w *wire, _ []*node) { w.shelf.set(func() { w.shelf.fault = nil }) },
			says: []string{"cannot be kept", "is kept again"}, note: "OOM",
		},
		"a router has other endpoints": {
			fail: func(_ *testing.T, _ *wire, all []*node) {
				all[2].Observe(route.Declared{
					Source: "test", Endpoints: []fleet.Endpoint{{Name: "z", URL: "http://z", Weight: 1}},
				})
				all[2].Observe(route.Probed{
					Endpoint: "z", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
				})
			},
			says: []string{"a router of the fleet differs"}, note: "other endpoints", differs: true,
		},
		"a router has another policy": {
			fail: func(_ *testing.T, _ *wire, all []*node) { all[2].policy.Store(2) },
			mend: func(_ *testing.T, _ *wire, all []*node) { all[2].policy.Store(1) },
			says: []string{"a router of the fleet differs", "agrees again"}, note: "another policy",
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := onShelf()
				all := []*node{w.node(t, "", "x", "y"), w.node(t, "", "x", "y"), w.node(t, "", "x", "y")}
				time.Sleep(4 * time.Second)
				var loads []*load
				for i, n := range all {
					loads = append(loads, n.load(fmt.Sprint("chat", i)))
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				before := all[0].log.String()
				row.fail(t, w, all)
				if row.dies {
					time.Sleep(2 * time.Second)
					for i, n := range all[:2] {
						if s := n.group.Status(); len(s.Peers) != 1 || n.leases() > 20 {
							t.Errorf("router %d still hears %d others and has %d requests after 2 s",
								i, len(s.Peers), n.leases())
						}
					}
				}
				time.Sleep(10 * time.Second)
				if ok, note := all[0].group.Note(); !ok || !strings.Contains(note, row.note) {
					t.Errorf("ready is %t: %q; want %q", ok, note, row.note)
				}
				if row.mend != nil {
					row.mend(t, w, all)
				}
				time.Sleep(5 * time.Second)
				for i, l := range loads {
					l.end()
					if len(l.failed) > 0 || l.served < 200 {
						t.Errorf("of the %d requests of router %d %d failed: %v",
							l.served, i, len(l.failed), l.failed[:min(1, len(l.failed))])
					}
				}
				open := all[0].place(t, "open", 20) // of which all are to know, and of nothing else
				time.Sleep(300 * time.Millisecond)
				for i, n := range all {
					if row.dies && i == 2 || row.differs && i == 2 {
						continue
					}
					if n.books() != all[0].books() || n.leases() != 1 {
						t.Errorf("books of router %d: %s; of the first one: %s", i, n.books(), all[0].books())
					}
				}
				all[0].Observe(route.Finished{Lease: open})
				for i, n := range all {
					if !row.dies || i < 2 {
						n.stop()
					}
				}
				log := strings.TrimPrefix(all[0].log.String(), before)
				for _, say := range row.says {
					if n := strings.Count(log, say); n < 1 || n > 2 { // of one router or of both
						t.Errorf("the log says %q %d times:\n%s", say, n, log)
					}
				}
				if row.quiet && log != "" {
					t.Errorf("the log says:\n%s", log)
				}
			})
		})
	}
}
