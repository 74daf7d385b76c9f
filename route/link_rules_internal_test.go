package route

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// wire is a router before a prefiller and a decoder, and what is asked of it.
type wire struct {
	*Router
	t     *testing.T
	now   time.Time
	asked int
}

func newWire(t *testing.T) *wire {
	now := time.Unix(1000, 0)
	return &wire{Router: linked(now), t: t, now: now}
}

// decoder is its decoder, to which a token is known to take so many ms over a link that transfers share.
func (w *wire) decoder(perToken float64) *endpoint {
	ep := w.byName["d"]
	ep.transfer = transfer{shared: moves{perToken: perToken, fixed: 10, prior: perToken}, alone: moves{perToken: perToken, fixed: 10, off: 1, prior: perToken}, samples: 40, at: w.now}
	w.meanTransfer(w.now)
	return ep
}

func (w *wire) decide(tokens int) Plan {
	w.t.Helper()
	w.asked++
	plan, err := w.Decide(w.now, &fleet.Request{Model: "m", PromptTokens: tokens, Stream: true, Splits: true, MintedID: strconv.Itoa(w.asked)})
	if err != nil {
		w.t.Fatal(err)
	}
	return plan
}

// hand says that the prompt of a request in two legs has been computed, and its decoder asked.
func (w *wire) hand(p Plan) Plan {
	w.t.Helper()
	if !p.Split() {
		w.t.Fatalf("not split: %s", p.Why)
	}
	w.Observe(w.now, FirstByte{Lease: p.Prefill.Lease})
	w.Observe(w.now, Transferring{Lease: p.Lease})
	w.Observe(w.now, Finished{Lease: p.Prefill.Lease})
	return p
}

func (w *wire) answer(p Plan) {
	w.Observe(w.now, FirstByte{Lease: p.Lease})
	w.Observe(w.now, Finished{Lease: p.Lease})
}

func (w *wire) wait(ms float64) { w.now = w.now.Add(time.Duration(ms * 1e6)) }

// left is how many tokens of a leg are thought to be still on their way.
func (w *wire) left(p Plan) float64 {
	f := w.flight(p.Lease)
	w.passes(w.now, f.ep)
	return f.left
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*max(1, math.Abs(want)) }

// TestWhoLeavesTheLink: a transfer has the link to itself from when another one ends, however that ends.
func TestWhoLeavesTheLink(t *testing.T) {
	for name, end := range map[string]func(w *wire, p Plan){
		"its first byte came": func(w *wire, p Plan) { w.Observe(w.now, FirstByte{Lease: p.Lease}) },
		"its client left":     func(w *wire, p Plan) { w.Observe(w.now, Finished{Lease: p.Lease, Outcome: fleet.ClientGone}) },
	} {
		w := newWire(t)
		w.decoder(0.1)
		other, p := w.hand(w.decide(4000)), w.hand(w.decide(4000))
		w.wait(200)
		end(w, other)
		w.decoder(0.1) // whatever was learnt of that
		w.wait(100)
		if got := w.left(p); !near(got, 4000-1000-1000) {
			t.Errorf("%s: %.0f tokens are left, want 2000", name, got)
		}
	}
}

// TestLinkClock: what is on its way passes once, though the clock steps back or a decoder is asked again.
func TestLinkClock(t *testing.T) {
	w := newWire(t)
	ep := w.decoder(0.1)
	p := w.hand(w.decide(4000))
	for range 10 {
		w.wait(50)
		w.left(p)
		w.wait(-50)
		w.left(p)
	}
	if got := w.left(p); !near(got, 3500) {
		t.Errorf("after 50 ms, ten times the same: %.0f tokens are left, want 3500", got)
	}
	w.wait(1050)
	w.Observe(w.now, Transferring{Lease: p.Lease})
	f := w.flight(p.Lease)
	w.wait(60)
	if got := w.left(p); !near(got, 3400) || !near(ep.link.area-f.area, 60) {
		t.Errorf("60 ms after it was asked again %.0f tokens are left, want 3400; it was among %.2f", got, (ep.link.area-f.area)/60)
	}
}

// TestReplacedEngineHasItsOwnLink: what was on its way to an engine at an older address is not in the way of what goes to the new one.
func TestReplacedEngineHasItsOwnLink(t *testing.T) {
	w := newWire(t)
	for range 10 {
		w.hand(w.decide(2000))
	}
	w.Observe(w.now, Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "p", URL: "http://p", Weight: 1, Role: fleet.RolePrefill}, {Name: "d", URL: "http://d2", Weight: 1, Role: fleet.RoleDecode},
	}})
	w.Observe(w.now, Probed{Endpoint: "d", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	ep := w.decoder(0.05)
	if got := w.besides(w.now, ep, w.transferOf(w.now, ep), 1000, 0); got != 0 {
		t.Errorf("what goes to the old engine is %.0f ms in the way", got)
	}
	for i := range 200 {
		tokens := 500 + (i*7919)%4000
		p := w.hand(w.decide(tokens))
		f := w.flight(p.Lease)
		w.wait(15 + 0.02*float64(tokens))
		if w.left(p); !near(ep.link.area-f.area, 15+0.02*float64(tokens)) {
			t.Fatalf("it is thought to be among %v", (ep.link.area-f.area)/(15+0.02*float64(tokens)))
		}
		w.answer(p)
	}
	if got := ep.transfer.best(); got.perToken < 0.015 || got.perToken > 0.025 {
		t.Errorf("a token is thought to take %v ms at the new engine, it takes 0.02", got)
	}
}

// TestStallIsForgotten: transfers that all wait for a decoder that hangs say little of its link, however many they are.
func TestStallIsForgotten(t *testing.T) {
	w := newWire(t)
	ep := w.byName["d"]
	lone := func(i int) {
		tokens := 500 + (i*7919)%4000
		p := w.hand(w.decide(tokens))
		w.wait(15 + 0.1*float64(tokens))
		w.answer(p)
		if i%3 == 0 {
			a, b := w.hand(w.decide(2000)), w.hand(w.decide(2000))
			w.wait(15 + 0.1*4000)
			w.answer(a)
			w.answer(b)
		}
		w.wait(80)
	}
	for i := range 300 {
		lone(i)
	}
	if got := ep.transfer.best(); !got.shares || got.perToken < 0.09 || got.perToken > 0.11 {
		t.Fatalf("after 300 transfers: %+v", got)
	}
	var stalled []Plan
	for range 20 {
		stalled = append(stalled, w.decide(2000))
	}
	for _, p := range stalled {
		w.hand(p)
		w.wait(100)
	}
	for _, p := range stalled {
		w.answer(p)
	}
	for i := range 40 {
		lone(i)
	}
	if got := ep.transfer.best(); got.perToken < 0.06 || got.perToken > 0.14 {
		t.Errorf("after twenty waited for two seconds, and forty more: %+v, a token takes 0.1 ms", got)
	}
}

// TestBesides: what a transfer waits for others, by what they have left when it begins.
func TestBesides(t *testing.T) {
	w := newWire(t)
	ep := w.decoder(0.1)
	pace := w.transferOf(w.now, ep)
	w.hand(w.decide(4000))
	check := func(what string, tokens, in, want float64) {
		t.Helper()
		if got := w.besides(w.now, ep, pace, tokens, in); !near(got, want) {
			t.Errorf("%s: %.1f ms, want %.1f", what, got, want)
		}
	}
	check("a shorter one", 1000, 0, 100)
	check("a longer one", 9000, 0, 400)
	check("300 ms later", 9000, 300, 100)
	check("when it is over", 9000, 500, 0)
	f := w.flight(w.decide(3000).Lease)
	f.due = w.now.Add(2 * time.Second)
	check("of one that comes later", 9000, 0, 400)
	check("of one that has come by then", 9000, 2500, 300)
	pace.shares = false
	check("where they do not share", 9000, 0, 0)
}

// TestLinkIsCharged: in the decision whether to split, to the request and to the others; not when it is not split.
func TestLinkIsCharged(t *testing.T) {
	now := time.Unix(1000, 0)
	seen := &recorder{}
	r := New(Config{Policy: func() pick.Policy { return seen }, PolicyName: "seen", Disaggregation: Disaggregation{When: WhenTime}})
	r.Observe(now, Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "p", URL: "http://p", Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: "http://d", Weight: 1, Role: fleet.RoleDecode},
		{Name: "far", URL: "http://far", Weight: 1, Role: fleet.RoleDecode},
	}})
	for _, name := range []string{"p", "d", "far"} {
		r.Observe(now, Probed{Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	}
	w := &wire{Router: r, t: t, now: now}
	d, p := w.decoder(0.01), r.byName["p"]
	far := r.byName["far"]
	known := func() {
		far.transfer = transfer{shared: moves{perToken: 10, fixed: 10_000}, samples: 1, at: w.now}
		for _, ep := range []*endpoint{d, p, far} {
			ep.speed.perToken, ep.speed.fixed, ep.speed.samples = 0.1, 10, 100
		}
		far.speed.fixed = 10_000
		w.decoder(0.01)
	}
	known()
	for range 6 { // answers, so that a prompt there would be in their way
		w.wait(1000)
		w.Observe(w.now, FirstByte{Lease: w.decide(10).Lease})
	}
	w.wait(300_000) // nothing of late
	known()
	alone := w.decide(2000)
	if !alone.Split() {
		t.Fatalf("not split: %+v", alone)
	}
	for _, l := range []fleet.Lease{alone.Prefill.Lease, alone.Lease} {
		w.Observe(w.now, Finished{Lease: l, Outcome: fleet.ClientGone})
	}
	if leg := seen.of(fleet.LegDecode); leg.LinkMs != 0 || leg.DelayMs != 0 {
		t.Errorf("an idle link: %+v", leg)
	}
	long := w.decide(100_000)
	w.wait(10_010)
	f := w.flight(w.hand(long).Lease)
	w.wait(300)
	w.left(long)
	known()
	before, waits := f.left, 2000*0.01
	plan := w.decide(2000)
	if got := plan.Weighed.SplitMs - alone.Weighed.SplitMs; f.left != before || math.Abs(got-2*waits) > 2 {
		t.Errorf("beside another transfer two legs cost %.2f ms more, want twice %.2f", got, waits)
	}
	if leg := seen.of(fleet.LegDecode); !plan.Split() || !near(leg.LinkMs, waits) || !near(leg.DelayMs, waits) || leg.WaitMs < waits {
		t.Errorf("split %v, its decode leg waits for %.2f ms and others for %.2f, want %.2f of %.2f", plan.Split(), leg.LinkMs, leg.DelayMs, waits, leg.WaitMs)
	}
	if one := w.decide(1); one.Split() {
		t.Fatal("one token is split")
	}
	if whole := seen.of(fleet.LegWhole); whole.LinkMs != 0 || whole.DelayMs != 0 {
		t.Errorf("a whole request: %+v", whole)
	}
}

// recorder takes the first candidate and notes what it was.
type recorder struct{ seen []pick.View }

func (p *recorder) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	c := *v
	c.Candidates = slices.Clone(v.Candidates)
	p.seen = append(p.seen, c)
	return pick.Choice{Reason: "first"}
}

// of is the latest candidate for such a leg.
func (p *recorder) of(leg fleet.Leg) pick.Candidate {
	for _, v := range slices.Backward(p.seen) {
		if v.Leg == leg {
			return v.Candidates[0]
		}
	}
	return pick.Candidate{}
}

// TestSharingIsAssumed: an endpoint without a transfer is thought to be as most others are.
func TestSharingIsAssumed(t *testing.T) {
	for _, c := range []struct {
		alone []float64 // by how much less wrong that line is
		want  bool
	}{{[]float64{1, 1}, true}, {[]float64{100, 1}, false}, {[]float64{100, 1, 1}, true}} {
		r := &Router{}
		for _, off := range c.alone {
			r.endpoints = append(r.endpoints, &endpoint{transfer: transfer{shared: moves{perToken: 1, off: fit.Mean(off)}, alone: moves{perToken: 1, off: 1}, samples: 1}})
		}
		r.meanTransfer(time.Unix(0, 0))
		if got := r.transferOf(time.Unix(0, 0), &endpoint{}).shares; got != c.want {
			t.Errorf("%v: thought to share %v", c.alone, got)
		}
	}
}

// TestFreeIsChargedForTheLink: where roles are free a decode leg waits for the others on its link, and they for it.
func TestFreeIsChargedForTheLink(t *testing.T) {
	w := newWire(t)
	ep := w.decoder(0.01)
	w.hand(w.decide(100_000))
	w.decide(2000) // the tables are those of this one, which is coming by now
	answers := &w.pad.decode
	if len(answers.Candidates) != 1 || answers.Candidates[0].Name != "d" {
		t.Fatalf("%d candidates to answer", len(answers.Candidates))
	}
	prefiller := pick.Candidate{FixedMs: 10, MsPerToken: 0.1}
	busy, _ := w.answersFor(&w.pad, &answers.Candidates[0], &prefiller)
	coming := ep.coming
	ep.coming = nil
	idle, _ := w.answersFor(&w.pad, &answers.Candidates[0], &prefiller)
	ep.coming = coming
	if got := busy.Wait - idle.Wait; !near(got, 2*20) {
		t.Errorf("it waits for the two others on its link for %v ms, want 40", got)
	}
	if got := busy.Others - idle.Others; !near(got, 2*20) {
		t.Errorf("they wait for it for %v ms, want 40", got)
	}
}

// TestLineIsWeighed: on either side a prompt costs those in line that it goes in front of, and nobody while it stands in line itself.
func TestLineIsWeighed(t *testing.T) {
	w := newWire(t)
	w.decoder(0.01)
	w.decide(2000) // what has been considered for it is there still
	whole, prefiller := &w.pad.whole.Candidates[0], &w.pad.prefill.Candidates[0]
	weigh := func() (float64, float64) {
		_, got := w.weigh(&w.pad)
		return got.WholeMs, got.SplitMs
	}
	for _, c := range []*pick.Candidate{whole, prefiller} {
		c.MsPerToken, c.FixedMs, c.WaitMs, c.LineMs, c.Behind, c.TurnsPerMs, c.Busy = 0.1, 10, 1000, 800, 0, 0.01, 0.5
	}
	const each, comers = 200.0, 0.01 / 0.5 // ms of the prompt; those who come in a ms, and what their waiting makes of it
	wholeMs, splitMs := weigh()
	if want := 1000 + each + 10 + comers*each*(200+each/2); !near(wholeMs, want) || splitMs <= want {
		t.Errorf("at the end of both lines: %v and %v, want %v and the transfer besides", wholeMs, splitMs, want)
	}
	transfer := splitMs - wholeMs
	whole.Behind, prefiller.Behind = 2, 5
	if a, b := weigh(); !near(a, wholeMs+2*each) || !near(b, wholeMs+5*each+transfer) {
		t.Errorf("in front of two and of five: %v and %v, want %v and %v", a, b, wholeMs+2*each, wholeMs+5*each+transfer)
	}
}

// TestPlacesAreNoLink: what waits for a place at a decoder says nothing of how fast KV cache comes to it.
func TestPlacesAreNoLink(t *testing.T) {
	w := newWire(t)
	w.Observe(w.now, Probed{Endpoint: "d", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}, Slots: 4}})
	ep := w.decoder(0.01)
	var answered []Plan
	for range 4 {
		p := w.hand(w.decide(1000))
		w.wait(20)
		w.Observe(w.now, FirstByte{Lease: p.Lease})
		answered = append(answered, p)
	}
	before := ep.transfer
	for range 20 {
		p := w.hand(w.decide(1000))
		w.wait(5000)
		w.answer(p)
	}
	if ep.transfer != before {
		t.Errorf("from waiting for one of four places it is learnt that a transfer takes %v ms, and %v for a token", ep.transfer.best().fixed, ep.transfer.best().perToken)
	}
	for _, p := range answered {
		w.Observe(w.now, Finished{Lease: p.Lease})
	}
	p := w.hand(w.decide(1000))
	w.wait(20)
	w.answer(p)
	if ep.transfer.samples != before.samples+1 {
		t.Errorf("one that found a place is the %dth sample, want the %dth", ep.transfer.samples, before.samples+1)
	}
}
