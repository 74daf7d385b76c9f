package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/state"
	"github.com/warmpath/warmpath/route"
)

// memory is what a router has learnt as its state file has it.
type memory struct {
	router *live.Fleet
	on     *wire
	broken bool
	pause  time.Duration
}

func (m *memory) Save(conversations bool) ([]byte, error) {
	if m.broken {
		return nil, errors.New("out of order")
	}
	b, err := state.Encode(time.Now(), func(yield func(*route.Piece) bool) {
		m.router.Snapshot(func(p *route.Piece) bool { return (conversations || p.Conversations == nil) && yield(p) })
	}, 1<<30)
	time.Sleep(m.pause)
	if err == nil && m.on.garbles {
		b[len(b)/2] ^= 1
	}
	return b, err
}

func (m *memory) Load(b []byte, later time.Duration) error {
	pieces, _, err := state.Decode(b)
	if err == nil {
		m.router.Restore(pieces, later)
	}
	return err
}

// serve has a turn of a conversation served, which takes no time.
func (n *node) serve(t *testing.T, chat, pin string) {
	t.Helper()
	p, err := n.Decide(&fleet.Request{Model: "m", Session: chat, Pin: pin, PromptTokens: 1000})
	if err != nil {
		t.Fatal(err)
	}
	n.Observe(route.FirstByte{Lease: p.Lease})
	n.Observe(route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 10}})
}

// home is where a router expects the next turn of a conversation to find its cache.
func (n *node) home(t *testing.T, chat string) (name string) {
	t.Helper()
	p, err := n.Decide(&fleet.Request{Model: "m", Session: chat, PromptTokens: 1100})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Observe(route.Finished{Lease: p.Lease, Outcome: fleet.Abandoned})
	return n.saw
}

func (n *node) ready() bool {
	ok, _ := n.group.Note()
	return ok
}

// TestNewcomerLearns: a router that starts beside others knows their conversations when it is ready, which is within 2
// s, whatever goes wrong.
func TestNewcomerLearns(t *testing.T) {
	rows := map[string]struct {
		spoil func(w *wire, teachers []*node)
		chats int // 300 unless it says more
		knows bool
		says  string
	}{
		"one tells it": {
			spoil: func(*wire, []*node) {}, knows: true, says: "knows what another one has learnt",
		},
		"it is long": {
			spoil: func(*wire, []*node) {}, chats: 6000, knows: true, says: "knows what another one has learnt",
		},
		"a third is lost": {
			spoil: func(w *wire, _ []*node) { w.loses = 3 }, knows: true, says: "knows what another one has learnt",
		},
		"one has nothing": {
			spoil: func(_ *wire, all []*node) { all[0].memory.broken = true }, knows: true,
			says: "knows what another one has learnt",
		},
		"one says no more": {
			spoil: func(_ *wire, all []*node) { all[1].end.dumb = true }, knows: true,
			says: "knows what another one has learnt",
		},
		"nobody has anything": {
			spoil: func(_ *wire, all []*node) { all[0].memory.broken, all[1].memory.broken = true, true },
		},
		"both take too long": {spoil: func(_ *wire, all []*node) {
			all[0].memory.pause, all[1].memory.pause = 20*time.Second, 20*time.Second
		}},
		"it cannot be read":    {spoil: func(w *wire, _ []*node) { w.garbles = true }, says: "cannot be taken in"},
		"nobody else is there": {spoil: func(_ *wire, all []*node) { all[0].end.deaf, all[1].end.deaf = true, true }},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, chats := &wire{}, max(300, row.chats)
				a, b := w.node(t, "", "x", "y"), w.node(t, "", "x", "y")
				time.Sleep(3 * time.Second)
				for i := range chats {
					a.serve(t, fmt.Sprint("chat", i), []string{"x", "y"}[i%2])
				}
				time.Sleep(time.Second)
				w.mu.Lock()
				row.spoil(w, []*node{a, b})
				w.mu.Unlock()
				c := w.node(t, "", "x", "y")
				if c.ready() {
					t.Error("it is ready before it has learnt anything")
				}
				began := time.Now()
				for !c.ready() {
					time.Sleep(time.Millisecond)
				}
				if took := time.Since(began); took > learnFor+10*time.Millisecond {
					t.Errorf("it was ready after %v", took)
				}
				time.Sleep(3 * time.Second)
				w.mu.Lock()
				c.end.deaf = true // to ask is to place a request, of which the others would hear
				w.mu.Unlock()
				for i := range 20 {
					chat := fmt.Sprint("chat", i*chats/20)
					if got, want := c.home(t, chat), a.home(t, chat); (got == want) != row.knows {
						t.Errorf("%s is at home at %s, want %s: %t", chat, got, want, row.knows)
					}
				}
				for _, n := range []*node{a, b, c} {
					n.stop()
				}
				if log := c.log.String(); !strings.Contains(log, row.says) {
					t.Errorf("the log does not say %q:\n%s", row.says, log)
				}
			})
		})
	}
}

// TestNewsWaitForTheSnapshot: what others place while a newcomer learns is taken in after what it follows.
func TestNewsWaitForTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a := w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		for i := range 50 { // it learns how fast x is
			p, err := a.Decide(&fleet.Request{
				Model: "m", Session: fmt.Sprint(i), Pin: "x", PromptTokens: 1000, Stream: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			a.Observe(route.FirstByte{Lease: p.Lease})
			a.Observe(route.Finished{
				Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 10, CachedKnown: true},
			})
		}
		a.serve(t, "chat", "x")
		a.memory.pause = time.Second
		b := w.node(t, "", "x", "y")
		time.Sleep(800 * time.Millisecond)
		a.serve(t, "chat", "y") // the snapshot has been made
		lease := a.place(t, "other", 10)
		if b.ready() {
			t.Fatal("it is ready too early")
		}
		for !b.ready() {
			time.Sleep(time.Millisecond)
		}
		if got := b.home(t, "chat"); got != "y" {
			t.Errorf("the conversation is at home at %s", got)
		}
		if there, here := a.Status()[0].PrefillPerSec, b.Status()[0].PrefillPerSec; here < there/2 || there == 0 {
			t.Errorf("x computes %.0f tokens a second, here it is thought %.0f", there, here)
		}
		if got := b.books(); got != a.books() {
			t.Errorf("the books: %s; the other's: %s", got, a.books())
		}
		a.Observe(route.Finished{Lease: lease})
		a.stop()
		b.stop()
	})
}

// TestAwayAndBack: two routers that did not hear each other for some time know what was done meanwhile on both sides.
func TestAwayAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x", "y"), w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		a.serve(t, "both", "x")
		deaf := func(yes bool) {
			w.mu.Lock()
			a.end.deaf = yes
			w.mu.Unlock()
		}
		time.Sleep(time.Second)
		deaf(true)
		time.Sleep(5 * time.Second)
		a.serve(t, "one side", "y")
		a.serve(t, "both", "x")
		time.Sleep(time.Second)
		b.serve(t, "other side", "y")
		b.serve(t, "both", "y")
		time.Sleep(4 * time.Second)
		deaf(false)
		time.Sleep(3 * time.Second)
		deaf(true) // to ask is to place a request, as above
		for who, n := range map[string]*node{"one": a, "the other": b} {
			for _, chat := range []string{"one side", "other side", "both"} {
				if got := n.home(t, chat); got != "y" {
					t.Errorf("%s: %q is at home at %s, want y", who, chat, got)
				}
			}
		}
		a.stop()
		b.stop()
	})
}

// TestOfferedToThoseThatAsk: a snapshot is offered to the routers that have asked for it, and to no others, and one of
// them that asks again gets the same.
func TestOfferedToThoseThatAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x", "y"), w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		a.serve(t, "chat", "y")
		time.Sleep(time.Second)
		c := w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if !strings.Contains(c.log.String(), "knows what another one has learnt") {
			t.Errorf("the newcomer's log:\n%s", c.log)
		}
		for who, n := range map[string]*node{"one": a, "the other": b} {
			if got := len(n.group.learning.lessons); got != 0 {
				t.Errorf("%s, which asked for nothing, was offered %d", who, got)
			}
			for _, o := range n.group.teaching.offers {
				if !slices.Equal(o.of, []uint64{c.group.self.Incarnation}) {
					t.Errorf("%s has an offer for %x", who, o.of)
				}
			}
		}
		a.stop()
		b.stop()
		c.stop()
	})
}

// TestEarlierLessons: what a router said to an earlier question is no answer to this one.
func TestEarlierLessons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x", "y"), w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		from := b.group.self.Incarnation
		for _, state := range []offerState{offersNow, offersNothing} {
			a.group.lesson(lesson{from: from, kind: kindOffer, state: state, id: 1, size: 1 << 20})
			if !a.group.learnFrom(t.Context(), from) {
				t.Errorf("after an offer of state %d from before nothing was learnt", state)
			}
		}
		a.stop()
		b.stop()
	})
}
