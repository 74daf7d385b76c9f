package peers

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// mostOpen is the limit of open requests of a tenant of nodes.
const mostOpen = 12

func limited() *quota.Table {
	return quota.New(time.Now(), quota.Config{
		Tenant: true, Each: quota.Limits{Requests: mostOpen, QueueClass: fleet.QueueClass{MaxRunning: 90}},
	})
}

// enter opens requests of the tenant, until they are let go.
func (n *node) enter(t *testing.T, requests int) (let func()) {
	t.Helper()
	var all []quota.Ticket
	for range requests {
		k, err := n.limits.Enter(time.Now(), "t", netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	return func() {
		for i := range all {
			all[i].End(time.Now(), true, 1, 1)
		}
	}
}

// room is how many more requests of the tenant are let in.
func (n *node) room() int {
	var all []quota.Ticket
	for {
		k, err := n.limits.Enter(time.Now(), "t", netip.Addr{})
		if err != nil {
			break
		}
		all = append(all, k)
	}
	for i := range all {
		all[i].End(time.Now(), false, 0, 0)
	}
	return len(all)
}

// TestLimitsCountTogether: what a tenant uses at one router counts at the others, whatever becomes of that one; and how
// much of a limit the others have.
func TestLimitsCountTogether(t *testing.T) {
	const used = 3 // at the third router
	deaf := func(w *wire, n *node, is bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		n.end.deaf = is
	}
	stopped := func(w *wire, all []*node, i int) {
		deaf(w, all[i], true)
		all[i].stop()
	}
	for name, tt := range map[string]struct {
		does    func(t *testing.T, w *wire, all *[]*node, let func())
		room    int // at the first router afterwards
		running int
		says    string
	}{
		"nothing": {does: func(*testing.T, *wire, *[]*node, func()) {}, room: mostOpen - used, running: 90},
		"they end": {
			does: func(_ *testing.T, _ *wire, _ *[]*node, let func()) { let(); time.Sleep(10 * time.Millisecond) },
			room: mostOpen, running: 90,
		},
		"messages are lost": {
			does: func(t *testing.T, w *wire, all *[]*node, let func()) {
				deaf(w, (*all)[0], true)
				let()
				(*all)[2].enter(t, 1)
				time.Sleep(100 * time.Millisecond)
				deaf(w, (*all)[0], false)
				time.Sleep(time.Second)
			},
			room: mostOpen - 1, running: 90,
		},
		"it is not heard for a second": {
			does: func(_ *testing.T, w *wire, all *[]*node, _ func()) {
				deaf(w, (*all)[2], true)
				time.Sleep(time.Second)
			}, room: mostOpen - used, running: 90,
		},
		"it is not heard any more": {
			does: func(_ *testing.T, w *wire, all *[]*node, _ func()) {
				deaf(w, (*all)[2], true)
				time.Sleep(2 * time.Second)
			},
			room: mostOpen * 2 / 3, running: 60, says: "routers are missing",
		},
		"it is heard again": {
			does: func(_ *testing.T, w *wire, all *[]*node, _ func()) {
				deaf(w, (*all)[2], true)
				time.Sleep(time.Minute)
				deaf(w, (*all)[2], false)
				time.Sleep(time.Second)
			},
			room: mostOpen - used, running: 90, says: "whole limits",
		},
		"it is killed": {
			does: func(_ *testing.T, w *wire, all *[]*node, _ func()) {
				stopped(w, *all, 2)
				time.Sleep(2 * time.Second)
			}, room: mostOpen * 2 / 3, running: 60, says: "routers are missing",
		},
		"it is killed for good": {
			does: func(_ *testing.T, w *wire, all *[]*node, _ func()) {
				stopped(w, *all, 2)
				time.Sleep(2*time.Second + endedFor)
			},
			room: mostOpen, running: 90, says: "whole limits",
		},
		"both others are killed": {
			does: func(_ *testing.T, w *wire, all *[]*node, _ func()) {
				stopped(w, *all, 1)
				stopped(w, *all, 2)
				time.Sleep(2 * time.Second)
			},
			room: mostOpen / 3, running: 30, says: "routers are missing",
		},
		"another one takes its place at once": {
			does: func(t *testing.T, w *wire, all *[]*node, _ func()) {
				stopped(w, *all, 2)
				(*all)[2] = w.node(t, "", "x")
				time.Sleep(10 * time.Second)
			},
			room: mostOpen, running: 90,
		},
		"another one takes its place later": {
			does: func(t *testing.T, w *wire, all *[]*node, _ func()) {
				stopped(w, *all, 2)
				time.Sleep(10 * time.Second)
				(*all)[2] = w.node(t, "", "x")
				time.Sleep(time.Second)
			},
			room: mostOpen, running: 90, says: "whole limits",
		},
		"it leaves": {
			does: func(_ *testing.T, _ *wire, all *[]*node, let func()) { let(); (*all)[2].stop() },
			room: mostOpen, running: 90, says: "a router has left",
		},
		"a fourth one comes, and finds one missing": {
			does: func(t *testing.T, w *wire, all *[]*node, _ func()) {
				stopped(w, *all, 1)
				stopped(w, *all, 2)
				time.Sleep(10 * time.Second)
				n := w.node(t, "", "x")
				time.Sleep(time.Second)
				*all = []*node{n, n, (*all)[0]}
			},
			room: mostOpen * 2 / 3, running: 60,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{}
				all := []*node{w.node(t, "", "x"), w.node(t, "", "x"), w.node(t, "", "x")}
				begun := all
				time.Sleep(10 * time.Second)
				let := all[2].enter(t, used)
				time.Sleep(10 * time.Millisecond)
				tt.does(t, w, &all, let)
				n := all[0]
				if got := n.limits.Of("t").QueueClass.MaxRunning; got != tt.running {
					t.Errorf("%d may run, want %d", got, tt.running)
				}
				if got := n.room(); got != tt.room {
					t.Errorf("%d are let in, want %d", got, tt.room)
				}
				if _, note := n.group.Note(); strings.Contains(note, "part of their limits") != (tt.running == 60) {
					t.Errorf("the note is %q", note)
				}
				for _, n := range append(begun, all...) {
					n.stop()
				}
				if log := begun[0].log.String(); strings.Count(log, tt.says) != 1 && tt.says != "" {
					t.Errorf("the log does not say %q once:\n%s", tt.says, log)
				}
			})
		})
	}
}

// TestLimitsWhileRoutersRestart: in a rolling restart of all routers, one after the other, no router has less than the
// whole limits.
func TestLimitsWhileRoutersRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		all := []*node{w.node(t, "", "x"), w.node(t, "", "x"), w.node(t, "", "x")}
		time.Sleep(10 * time.Second)
		for i := range all {
			all[i].stop()
			all[i] = w.node(t, "", "x")
			for range 20 {
				time.Sleep(503 * time.Millisecond) // nothing else happens then
				for k, n := range all {
					if got := n.room(); got != mostOpen {
						t.Errorf("router %d restarts: %d of %d are let in at router %d", i, got, mostOpen, k)
					}
				}
			}
		}
		for _, n := range all {
			n.stop()
		}
	})
}

// TestLimitsDirect: the same over streams from router to router.
func TestLimitsDirect(t *testing.T) {
	t.Parallel()
	at := []string{freePort(), freePort()}
	var all []*node
	for _, port := range at {
		n := &node{log: &strings.Builder{}, limits: limited()}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(Config{
			Fleet: "test", Transport: NewDirect(l, []string{"127.0.0.1:" + at[0], "127.0.0.1:" + at[1]},
				slog.New(slog.DiscardHandler)),
			Policy: func() uint64 { return 1 }, Limits: n.limits, Log: slog.New(slog.NewTextHandler(n.log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		n.group = g
		n.Fleet = live.New(route.New(route.Config{Policy: func() pick.Policy { return firstPick{} }, Replicas: true}),
			time.Now, g.Listener())
		g.Serve(n.Fleet)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.Run(ctx) })
		n.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
		t.Cleanup(n.stop)
		all = append(all, n)
	}
	until(t, func() bool { return all[0].group.Peers() == 1 && all[1].group.Peers() == 1 })
	let := all[0].enter(t, 5)
	all[0].enter(t, 3) // before room opens all that is left: the first router hears of that, at some time
	until(t, func() bool { return all[1].room() == mostOpen-8 })
	let()
	until(t, func() bool { return all[1].room() == mostOpen-3 })
	all[0].stop()
	until(t, func() bool { return all[1].group.Peers() == 0 })
	if got := all[1].room(); got != mostOpen {
		t.Errorf("%d are let in when the other one has left", got)
	}
	all[1].stop()
	if log := all[1].log.String(); !strings.Contains(log, "a router has left") {
		t.Errorf("nobody says so:\n%s", log)
	}
}
