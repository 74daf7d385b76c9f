package backlog

import (
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

// steady are equal rates for all endpoints.
type steady struct {
	perToken float64
	inOrder  bool
	transfer Transfer
}

func (s steady) MsPerToken(int) float64               { return s.perToken }
func (s steady) MsPerAnswer(int) float64              { return 10 }
func (s steady) DecodeMs(int) float64                 { return 500 }
func (s steady) Known(int) Known                      { return Known{true, true, 10} }
func (s steady) InOrder(int) (yes, known bool)        { return s.inOrder, true }
func (s steady) Transfer(_ time.Time, _ int) Transfer { return s.transfer }

func rates(perToken float64) steady {
	return steady{perToken, true, Transfer{perToken, 10}}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*max(1, math.Abs(want)) }

// wire is a table with one decoder.
type wire struct {
	*Table
	now  time.Time
	next uint32
}

func newWire(perToken float64) *wire {
	w := &wire{Table: New(Config{}, rates(perToken)), now: time.Unix(1000, 0)}
	w.AddEndpoint(0)
	return w
}

// expect opens a decode leg of this many tokens whose prompt is computed in readyMs.
func (w *wire) expect(tokens int, readyMs float64) uint32 {
	n := w.next
	w.next++
	w.Open(w.now, n,
		Work{Class: fleet.Turn, Leg: fleet.LegDecode, Stream: true, PromptTokens: tokens, ReadyMs: readyMs})
	w.Send(w.now, n)
	return n
}

// hand also asks its decoder.
func (w *wire) hand(tokens int) uint32 {
	n := w.expect(tokens, 0)
	w.Transferring(w.now, n)
	return n
}

func (w *wire) wait(ms float64) { w.now = w.now.Add(fleet.Duration(ms)) }

// left is how many tokens of a leg are still to be transferred according to the accounts.
func (w *wire) left(n uint32) float64 {
	w.advanceLink(w.now, w.endpoints.Get(0))
	e := w.endpoints.Get(0)
	i := slices.IndexFunc(e.pendingTransfers, func(p pending) bool { return p.job == n })
	return e.pendingTransfers[i].left
}

// TestWhoLeavesTheLink: when a transfer ends for any reason, the remaining one has the link to itself.
func TestWhoLeavesTheLink(t *testing.T) {
	for name, end := range map[string]func(w *wire, n uint32){
		"its first byte came": func(w *wire, n uint32) { w.Computed(w.now, n) },
		"its client left":     func(w *wire, n uint32) { w.Close(w.now, n, fleet.ClientGone, 0) },
	} {
		w := newWire(0.1)
		other, n := w.hand(4000), w.hand(4000)
		w.wait(200)
		end(w, other)
		w.wait(100)
		if got := w.left(n); !near(got, 4000-1000-1000) {
			t.Errorf("%s: %.0f tokens are left, want 2000", name, got)
		}
	}
}

// TestLinkClock: tokens in transfer are counted once, even if the clock goes back or a decoder is asked again.
func TestLinkClock(t *testing.T) {
	w := newWire(0.1)
	n := w.hand(4000)
	for range 10 {
		w.wait(50)
		w.left(n)
		w.wait(-50)
		w.left(n)
	}
	if got := w.left(n); !near(got, 3500) {
		t.Errorf("after 50 ms, ten times the same: %.0f tokens are left, want 3500", got)
	}
	w.wait(1050)
	w.Transferring(w.now, n)
	w.wait(60)
	if got := w.left(n); !near(got, 3400) {
		t.Errorf("60 ms after it was asked again %.0f tokens are left, want 3400", got)
	}
	if j := w.Computed(w.now, n); !near(j.TransferArea, 60) {
		t.Errorf("alone for 60 ms it was among %.2f", j.TransferArea/60)
	}
}

// TestLinkMs: the delay of a transfer by others follows from what they have left when it begins.
func TestLinkMs(t *testing.T) {
	w := newWire(0.1)
	w.hand(4000)
	check := func(what string, tokens, in, want float64) {
		t.Helper()
		if got := w.LinkMs(w.now, 0, Transfer{0.1, 10}, tokens, in); !near(got, want) {
			t.Errorf("%s: %.1f ms, want %.1f", what, got, want)
		}
	}
	check("a shorter one", 1000, 0, 100)
	check("a longer one", 9000, 0, 400)
	check("300 ms later", 9000, 300, 100)
	check("when it is over", 9000, 500, 0)
	w.wait(100)
	check("100 ms later, though nothing has ended", 9000, 0, 300)
	w.wait(-100)
	w.expect(3000, 2000)
	check("of one that comes later", 9000, 0, 400)
	check("of one that has come by then", 9000, 2500, 300)
}

// TestLinkPasses: the remaining tokens of transfers are those of a simulation in small steps, whenever they begin.
func TestLinkPasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const perToken = 0.1
	for range 200 {
		w := newWire(perToken)
		start, e := w.now, w.endpoints.Get(0)
		n := 1 + rng.IntN(6)
		begins, left := make([]int, n), make([]float64, n)
		for i := range n {
			begins[i] = rng.IntN(300)
			w.expect(1+rng.IntN(3000), 0)
			e.pendingTransfers[i].stream = rng.IntN(2) == 0
		}
		const ticks = 100 // per ms
		for at := range 400 * ticks {
			k := 0
			for i := range n {
				switch p := &e.pendingTransfers[i]; {
				case at == begins[i]*ticks:
					now := start.Add(time.Duration(begins[i]) * time.Millisecond)
					w.advanceLink(now, e)
					p.begun, p.left = true, p.tokens
					left[i] = p.left
				case at < begins[i]*ticks:
					continue
				}
				if left[i] > 0 || e.pendingTransfers[i].stream {
					k++
				}
			}
			for i := range n {
				if at >= begins[i]*ticks {
					left[i] = max(0, left[i]-1.0/ticks/perToken/float64(max(k, 1)))
				}
			}
		}
		w.advanceLink(start.Add(400*time.Millisecond), e)
		for i := range n {
			if got := e.pendingTransfers[i].left; math.Abs(got-left[i]) > 10 {
				t.Fatalf("transfer %d of %+v has %.0f tokens left, want %.0f", i, begins, got, left[i])
			}
		}
	}
}

// clone is a deep copy of a table.
func clone(t *Table) Table {
	c := Table{cfg: t.cfg, queued: t.queued, order: append([]int(nil), t.order...)}
	for i := range t.endpoints.Len() {
		e := *t.endpoints.Get(i)
		e.pendingTransfers = slices.Clone(e.pendingTransfers)
		e.queue.groupAt = maps.Clone(e.queue.groupAt)
		e.queue.groups = slices.Clone(e.queue.groups)
		for k, g := range e.queue.groups {
			g := *g
			for _, o := range []*ordered{&g.byKey, &g.byArrival} {
				o.chunks = slices.Clone(o.chunks)
				for i := range o.chunks {
					o.chunks[i].jobs = slices.Clone(o.chunks[i].jobs)
				}
			}
			e.queue.groups[k] = &g
		}
		came := *e.prompts.arrivals
		e.prompts.arrivals = &came
		e.prompts.nonStreaming.open = append([]uint32(nil), e.prompts.nonStreaming.open...)
		*c.endpoints.Grow(i) = e
	}
	for i := range t.jobs.Len() {
		*c.jobs.Grow(i) = *t.jobs.Get(i)
	}
	return c
}

// TestAccounts: after any sequence of operations the open prompts of non-streamed answers are those of open jobs in
// order, readers change nothing and predict plausible waits, and closing all jobs leaves nothing.
func TestAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perToken, now := rapid.SampledFrom([]float64{0.01, 0.1, 2}).Draw(t, "speed"), time.Unix(1000, 0)
		table := New(Config{Ahead: 100 * time.Millisecond, Patience: 5, Promote: time.Minute}, rates(perToken))
		for slot := range 2 {
			table.AddEndpoint(slot)
			table.Describe(slot, rapid.IntRange(0, 4).Draw(t, "places"), rapid.Int64Range(0, 50_000).Draw(t, "memory"),
				rapid.Bool().Draw(t, "together"))
		}
		var open []uint32
		free, next := []uint32(nil), uint32(0)
		read := func() {
			before, reader := clone(table), table.Reader
			q, pace := Newcomer{Now: now, PromptTokens: 1000, OutputTokens: 100}, pick.Pace{MsPerToken: perToken}
			for i, c := range []pick.Candidate{
				{Endpoint: pick.Endpoint{Slot: 0, CacheTokens: 5000, EngineRequests: 3, Load: reader.Load(0)}},
				{Endpoint: pick.Endpoint{Slot: 1, Load: reader.Load(1)}, Cached: pick.Cached{CachedTokens: 500}},
			} {
				c.Pace = pace
				c.Wait = reader.Expect(&q, &c.Endpoint, &c.Cached, 0, &pace)
				wait, link := reader.ExpectDecode(now, &c, 1000, 50)
				for _, w := range []pick.Wait{c.Wait, wait} {
					if !(w.WaitMs >= 0 && w.WaitMs < 1e9 && w.Occupancy >= 0 && w.OccupancyMs >= 0 && w.Decoding >= 0 &&
						w.Prompts >= 0) {
						t.Fatalf("a prediction of %+v", w)
					}
				}
				if !(link.WaitMs >= 0 && link.WaitMs <= wait.WaitMs && link.DelayMs == link.WaitMs &&
					link.MsPerToken > 0) {
					t.Fatalf("a prediction of %+v of %+v", link, wait)
				}
				reader.Overdue(now, i, now)
				reader.Idle(i)
			}
			if after := clone(table); !reflect.DeepEqual(before, after) {
				t.Fatalf("a reader made %+v\nof %+v", after, before)
			}
			for slot := range 2 {
				w, tokens, last := &table.endpoints.Get(slot).prompts.nonStreaming, int64(0), int64(0)
				for _, n := range w.open {
					j := table.jobs.Get(int(n))
					if !j.open || j.Stream || j.computed || j.Queued || j.Slot != slot || j.End <= last {
						t.Fatalf("among the prompts after %d: %+v", last, j)
					}
					last, tokens = j.End, tokens+j.Prefill
				}
				if tokens != w.tokens {
					t.Fatalf("%d tokens, counted %d", tokens, w.tokens)
				}
			}
		}
		end := func(i int) {
			n := open[i]
			open, free = append(open[:i], open[i+1:]...), append(free, n)
			outcome := rapid.SampledFrom([]fleet.Outcome{fleet.OK, fleet.ClientGone}).Draw(t, "outcome")
			table.Close(now, n, outcome, rapid.IntRange(0, 40).Draw(t, "answer"))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 500).Draw(t, "ms")) * time.Millisecond)
			table.rates = steady{perToken, rapid.Bool().Draw(t, "in order"), Transfer{perToken, 10}}
			what := rapid.IntRange(0, 9).Draw(t, "what")
			switch {
			case what < 4:
				n := next
				if len(free) > 0 {
					n, free = free[0], free[1:]
				} else {
					next++
				}
				prompt := rapid.IntRange(0, 5000).Draw(t, "prompt")
				leg := rapid.SampledFrom([]fleet.Leg{
					fleet.LegUnsplit, fleet.LegUnsplit, fleet.LegPrefill, fleet.LegDecode,
				}).Draw(t, "leg")
				w := Work{
					Slot: rapid.IntRange(0, 1).Draw(t, "slot"), Class: rapid.SampledFrom([]fleet.Class{
						fleet.Turn, fleet.Turn, fleet.Embed, fleet.Auxiliary,
					}).Draw(t, "class"), Leg: leg, Stream: leg == fleet.LegPrefill || rapid.Bool().Draw(t, "stream"),
					PromptTokens: prompt, CachedTokens: rapid.IntRange(0, prompt).Draw(t, "cached"), OutputTokens: 100,
					MaxTokens: rapid.IntRange(0, 200).Draw(t, "most"), MsPerToken: perToken, TTFTMs: 100, ReadyMs: 200,
					MayQueue: leg != fleet.LegDecode && rapid.Bool().Draw(t, "queues"),
				}
				if !table.Open(now, n, w).Queued {
					table.Send(now, n)
				}
				open = append(open, n)
			case len(open) == 0:
			case what < 6:
				n := open[rapid.IntRange(0, len(open)-1).Draw(t, "of")]
				if j := table.Job(n); !j.Queued && !j.computed {
					if table.Computed(now, n); j.Timed {
						table.Rebase(now, j.Slot)
					}
				}
			case what == 6:
				table.Transferring(now, open[rapid.IntRange(0, len(open)-1).Draw(t, "of")])
			default:
				end(rapid.IntRange(0, len(open)-1).Draw(t, "of"))
			}
			for _, s := range table.Dispatch(now, nil) {
				if j := table.Job(s.N); j.Queued || j.Sent != now || s.Ms < 0 {
					t.Fatalf("dispatched %+v", j)
				}
			}
			read()
		}
		for len(open) > 0 {
			end(0)
			read()
		}
		for slot := range 2 {
			if err := table.Audit(slot); err != nil || !table.Idle(slot) ||
				table.Queued() != 0 {
				t.Fatalf("left at %d: %v", slot, err)
			}
			if w := &table.endpoints.Get(slot).prompts.nonStreaming; len(w.open) != 0 || w.tokens != 0 {
				t.Fatalf("left at %d: %+v", slot, w)
			}
		}
	})
}

// TestFirstByteHeardOfLate: the first byte of another router's stream, heard of after a later one here, leaves what is
// still to wait as it would be had it been heard of in time; so do its end without an answer and a whole answer.
func TestFirstByteHeardOfLate(t *testing.T) {
	for name, end := range map[string]func(w *wire, at time.Time, n uint32){
		"its first byte came": func(w *wire, at time.Time, n uint32) {
			w.Computed(at, n)
			w.Rebase(at, 0)
		},
		"its client left": func(w *wire, at time.Time, n uint32) { w.Close(at, n, fleet.ClientGone, 0) },
		"its answer came": func(w *wire, at time.Time, n uint32) { w.Computed(at, n) },
	} {
		until := func(late bool) time.Time {
			w := newWire(0.01)
			for n := range uint32(3) {
				w.Open(w.now, n, Work{
					Class: fleet.Turn, Stream: n > 0 || name != "its answer came", PromptTokens: 4000, MsPerToken: 0.01,
				})
				w.Send(w.now, n)
			}
			at := w.now.Add(fleet.Duration(85))
			first := func() {
				w.Computed(w.now.Add(fleet.Duration(100)), 1)
				w.Rebase(w.now.Add(fleet.Duration(100)), 0)
			}
			if !late {
				end(w, at, 0)
			}
			if first(); late {
				end(w, at, 0)
			}
			return w.endpoints.Get(0).prompts.until
		}
		if got, want := until(true), until(false); !got.Equal(want) {
			t.Errorf("%s: the last prompt is expected %v later than if it had been heard of in time",
				name, got.Sub(want))
		}
	}
}

// TestArrivalHeardOfLate: the end of the queue by a time is known although an earlier arrival was heard of after a
// later one.
func TestArrivalHeardOfLate(t *testing.T) {
	var c arrivalRing
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	c.note(at(10), 100)
	c.note(at(20), 200)
	c.note(at(15), 300)
	if end, ok := c.by(at(17)); end != 100 || !ok {
		t.Errorf("by 17 s the queue ends at %d, %v, want 100: what stands behind the arrival at 20 s came after it",
			end, ok)
	}
}
