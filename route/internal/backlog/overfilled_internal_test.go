package backlog

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"pgregory.net/rapid"
)

// overfills plays an engine that fails all of its requests when they need more memory than it has.
type overfills struct {
	*wire
	sent []uint32 // at the engine
}

func newOverfills(memory int64) *overfills {
	w := &overfills{wire: newWire(0.01)}
	w.SetConfig(Config{Ahead: time.Second, Patience: 5, Promote: time.Minute, Most: 1000, Silent: -1})
	w.Describe(0, 4, memory, false)
	return w
}

// ask opens a prompt of so many tokens, and sends it if it is not queued.
func (w *overfills) ask(tokens int) (n uint32, queued bool) {
	n, w.next = w.next, w.next+1
	j := w.Open(w.now, n, Work{Class: fleet.Turn, Stream: true, PromptTokens: tokens, MayQueue: true})
	if queued = j.Queued; !queued {
		w.Send(w.now, n)
		w.sent = append(w.sent, n)
	}
	return n, queued
}

func (w *overfills) end(n uint32, o fleet.Outcome) {
	w.Close(w.now, n, o, 0)
	for i, s := range w.sent {
		if s == n {
			w.sent = append(w.sent[:i], w.sent[i+1:]...)
			return
		}
	}
}

func (w *overfills) dispatch() {
	for _, d := range w.Dispatch(w.now, nil) {
		w.sent = append(w.sent, d.N)
	}
}

// fail ends all that the engine has, a moment one after another, as one that is overfull does.
func (w *overfills) fail() {
	for len(w.sent) > 0 {
		w.Overfilled(w.now, w.sent[0])
		w.end(w.sent[0], fleet.EngineError)
		w.wait(1)
	}
}

// TestKnownToOverfill: an engine that is known to fail its requests together is sent what fits from the first on.
func TestKnownToOverfill(t *testing.T) {
	w := newOverfills(4000)
	w.Describe(0, 4, 1000, true)
	_, first := w.ask(600)
	_, second := w.ask(600)
	if first || !second {
		t.Errorf("queued: %t, %t, want the second", first, second)
	}
	w.Describe(0, 4, 4000, false)
	if w.dispatch(); len(w.sent) != 2 {
		t.Errorf("%d sent once its slots have a context each, want both", len(w.sent))
	}
}

// TestOverfilled: an engine may be sent anything until it fails its requests for want of memory, then only what fits
// together, and one alone however large.
func TestOverfilled(t *testing.T) {
	w := newOverfills(4000)
	for range 3 {
		if _, queued := w.ask(1500); queued {
			t.Fatal("queued before it was known")
		}
	}
	w.wait(5)
	w.fail()
	if room := w.endpoints.Get(0).room; room != 4000 {
		t.Errorf("room of %d, want what is reported", room)
	}
	first, _ := w.ask(1500)
	_, second := w.ask(1500)
	_, third := w.ask(1500)
	_, small := w.ask(10)
	if second || !third || !small { // the small one goes first once there is room: it must not starve the other
		t.Errorf("queued: %t, %t, %t; want the third one and what comes after it", second, third, small)
	}
	w.wait(5)
	w.dispatch()
	if len(w.sent) != 3 {
		t.Errorf("%d at the engine, want the two and the small one", len(w.sent))
	}
	w.end(first, fleet.OK)
	w.dispatch()
	if len(w.sent) != 3 {
		t.Errorf("%d at the engine once one has ended, want three", len(w.sent))
	}
	// they still did not fit: the tokens were estimated too low
	held := w.endpoints.Get(0).held()
	w.fail()
	if room := w.endpoints.Get(0).room; room != held/2 {
		t.Errorf("room of %d, want half of the %d that did not fit", room, held)
	}
	large, queued := w.ask(50_000)
	if queued {
		t.Error("one that is alone waits for ever")
	}
	w.end(large, fleet.OK)
	if room := w.endpoints.Get(0).room; room <= held/2 || room > 4000 {
		t.Errorf("room of %d after an answer, want a little more", room)
	}
	w.Describe(0, 4, 8000, false)
	if room := w.endpoints.Get(0).room; room != 0 {
		t.Errorf("room of %d for a server that was started otherwise", room)
	}
	if err := w.Audit(0); err != nil {
		t.Error(err)
	}
}

// TestOverfilledFits: whatever is asked and ends in whatever order, an engine that was overfull is sent no more than
// its room at a time, unless it is one alone, and nothing waits while it is idle.
func TestOverfilledFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newOverfills(4000)
		for range 2 {
			w.ask(2500)
		}
		w.wait(5)
		w.fail()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			w.wait(float64(rapid.IntRange(0, 50).Draw(rt, "ms")))
			switch {
			case rapid.Bool().Draw(rt, "asks") || len(w.sent) == 0:
				w.ask(rapid.IntRange(1, 5000).Draw(rt, "tokens"))
			default:
				w.end(rapid.SampledFrom(w.sent).Draw(rt, "ends"), fleet.Abandoned)
			}
			w.wait(100)
			w.dispatch()
			e := w.endpoints.Get(0)
			if len(w.sent) > 1 && e.held() > e.room {
				rt.Fatalf("%d tokens at the engine, room for %d", e.held(), e.room)
			}
			if len(w.sent) == 0 && e.queue.n > 0 {
				rt.Fatalf("%d wait while the engine is idle", e.queue.n)
			}
		}
	})
}
