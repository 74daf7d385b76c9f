package route

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// wire is a router before a prefiller and a decoder, with helpers.
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

// teach shows a decoder's transfers at this ms per token over a shared link, and returns what was learnt.
func (w *wire) teach(name string, perToken, fixed float64) backlog.Transfer {
	slot := w.endpoints.Named(name).Slot()
	w.speed.RemoveEndpoint(slot)
	w.speed.AddEndpoint(slot)
	for i := range 400 {
		tokens, among := 500+(i*7919)%4000, float64(1+i%4)
		took := fixed + float64(tokens)*among*perToken
		j := backlog.Job{
			Work: backlog.Work{Slot: slot, Leg: fleet.LegDecode, Stream: true}, Transfer: int64(tokens),
			TransferArea: took * among,
		}
		j.Handed = w.now.Add(-time.Duration(took * 1e6))
		w.speed.Computed(w.now, &j)
	}
	learnt, _ := w.speed.Reader().LearntTransfer(slot)
	if math.Abs(learnt.MsPerToken-perToken) > perToken/10 {
		w.t.Fatalf("of %v ms a token it has learnt %+v", perToken, learnt)
	}
	return learnt
}

// teachPrompts shows an endpoint's prefill times.
func (w *wire) teachPrompts(name string, perToken, fixed float64) {
	slot := w.endpoints.Named(name).Slot()
	for i := range 400 {
		tokens := 500 + (i*7919)%4000
		j := backlog.Job{
			Work: backlog.Work{Slot: slot, Class: fleet.Turn}, Prefill: int64(tokens), WasIdle: true, First: w.now,
		}
		j.Sent = w.now.Add(-time.Duration((fixed + float64(tokens)*perToken) * 1e6))
		w.speed.Ended(w.now, &j, true, &fleet.Usage{PromptTokens: tokens, OutputTokens: 1})
	}
}

func (w *wire) decide(tokens int) Plan {
	w.t.Helper()
	w.asked++
	plan, err := w.Decide(w.now, &fleet.Request{
		Model: "m", PromptTokens: tokens, Stream: true, Splits: true, MintedID: strconv.Itoa(w.asked),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return plan.Plan
}

// hand reports that a split request's prompt has been computed and its decoder asked.
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

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*max(1, math.Abs(want)) }

// TestReplacedEngineHasItsOwnLink: transfers to an engine at the old address do not delay those to the new one.
func TestReplacedEngineHasItsOwnLink(t *testing.T) {
	w := newWire(t)
	for range 10 {
		w.hand(w.decide(2000))
	}
	w.Observe(w.now, Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "p", URL: "http://p", Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: "http://d2", Weight: 1, Role: fleet.RoleDecode},
	}})
	w.Observe(w.now, Probed{Endpoint: "d", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	d := w.endpoints.Named("d").Slot()
	if got := w.backlog.Reader().LinkMs(w.now, d, w.teach("d", 0.05, 10), 1000, 0); got != 0 {
		t.Errorf("what goes to the old engine is %.0f ms in the way", got)
	}
	for i := range 200 {
		tokens := 500 + (i*7919)%4000
		p := w.hand(w.decide(tokens))
		took := 15 + 0.02*float64(tokens)
		w.wait(took)
		w.answer(p)
		if got := w.backlog.Reader().Job(uint32(p.Lease)).TransferArea; !near(got,
			float64(time.Duration(took*1e6).Microseconds())/1000) {
			t.Fatalf("it is thought to be among %v", got/took)
		}
	}
	if got, _ := w.speed.Reader().LearntTransfer(d); got.MsPerToken < 0.015 || got.MsPerToken > 0.025 {
		t.Errorf("a token is thought to take %v ms at the new engine, it takes 0.02", got)
	}
}

// TestStallIsForgotten: transfers that wait for a hanging decoder teach little about its link, however many.
func TestStallIsForgotten(t *testing.T) {
	w := newWire(t)
	d := w.endpoints.Named("d").Slot()
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
	if got, _ := w.speed.Reader().LearntTransfer(d); got.MsPerToken < 0.09 || got.MsPerToken > 0.11 {
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
	if got, _ := w.speed.Reader().LearntTransfer(d); got.MsPerToken < 0.06 || got.MsPerToken > 0.14 {
		t.Errorf("after twenty waited for two seconds, and forty more: %+v, a token takes 0.1 ms", got)
	}
}

// TestLinkIsCharged: the link's cost enters the decision to split, for the request and for others; not when it is not
// split.
func TestLinkIsCharged(t *testing.T) {
	now := time.Unix(1000, 0)
	seen := &recorder{}
	r := New(Config{Policy: func() pick.Policy { return seen }, Disaggregation: Disaggregation{When: fleet.WhenTime}})
	r.Observe(now, Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "p", URL: "http://p", Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: "http://d", Weight: 1, Role: fleet.RoleDecode},
		{Name: "far", URL: "http://far", Weight: 1, Role: fleet.RoleDecode},
	}})
	for _, name := range []string{"p", "d", "far"} {
		r.Observe(now, Probed{Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	}
	w := &wire{Router: r, t: t, now: now}
	known := func() (link backlog.Transfer) {
		w.teach("far", 0.01, 10_000)
		link = w.teach("d", 0.01, 10)
		w.speed.RemoveEndpoint(r.endpoints.Named("p").Slot())
		w.speed.AddEndpoint(r.endpoints.Named("p").Slot())
		w.teachPrompts("p", 0.1, 10)
		w.teachPrompts("d", 0.1, 10)
		w.teachPrompts("far", 0.1, 10_000)
		return link
	}
	known()
	for range 6 { // answers that a prefill there would delay
		w.wait(1000)
		w.Observe(w.now, FirstByte{Lease: w.decide(10).Lease})
	}
	w.wait(300_000) // nothing recent
	known()
	alone := w.decide(2000)
	if !alone.Split() {
		t.Fatalf("not split: %+v", alone)
	}
	for _, l := range []fleet.Lease{alone.Prefill.Lease, alone.Lease} {
		w.Observe(w.now, Finished{Lease: l, Outcome: fleet.ClientGone})
	}
	if leg := seen.of(fleet.LegDecode); leg.Link.WaitMs != 0 || leg.Link.DelayMs != 0 {
		t.Errorf("an idle link: %+v", leg)
	}
	long := w.decide(100_000)
	w.wait(10_010)
	w.hand(long)
	w.wait(300)
	link := known()
	waits := 2000 * link.MsPerToken
	plan := w.decide(2000)
	if got := plan.Weighed.SplitMs - alone.Weighed.SplitMs; math.Abs(got-2*waits) > 2 {
		t.Errorf("beside another transfer two legs cost %.2f ms more, want twice %.2f", got, waits)
	}
	if leg := seen.of(fleet.LegDecode); !plan.Split() || !near(leg.Link.WaitMs, waits) ||
		!near(leg.Link.DelayMs, waits) || leg.WaitMs < waits {
		t.Errorf("split %v, its decode leg waits for %.2f ms and others for %.2f, want %.2f of %.2f",
			plan.Split(), leg.Link.WaitMs, leg.Link.DelayMs, waits, leg.WaitMs)
	}
	if one := w.decide(1); one.Split() {
		t.Fatal("one token is split")
	}
	if whole := seen.of(fleet.LegUnsplit); whole.Link.WaitMs != 0 || whole.Link.DelayMs != 0 {
		t.Errorf("a whole request: %+v", whole)
	}
}

// recorder picks the first candidate and records the view.
type recorder struct{ seen []pick.View }

func (*recorder) Needs() pick.Needs { return pick.Needs{Name: "seen"} }

func (*recorder) Hooks() pick.Hooks { return pick.Hooks{} }

func (p *recorder) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	c := *v
	c.Candidates = slices.Clone(v.Candidates)
	p.seen = append(p.seen, c)
	return pick.Choice{Reason: "first"}
}

// of is the latest candidate for a leg.
func (p *recorder) of(leg fleet.Leg) pick.Candidate {
	for _, v := range slices.Backward(p.seen) {
		if v.Leg == leg {
			return v.Candidates[0]
		}
	}
	return pick.Candidate{}
}

// TestDecodeLegIsChargedForTheLink: a decode leg waits for others on its link, and they for it.
func TestDecodeLegIsChargedForTheLink(t *testing.T) {
	row := func(others int) (pick.Candidate, backlog.Transfer) {
		w := newWire(t)
		link := w.teach("d", 0.01, 10)
		for range others {
			w.hand(w.decide(100_000))
		}
		d := w.decide(2000) // the views recorded are this one's
		w.Observe(w.now, Finished{Lease: d.Prefill.Lease})
		w.Observe(w.now, Finished{Lease: d.Lease, Outcome: fleet.ClientGone})
		q := asked{now: w.now, scratch: w.scratch}
		answers := w.readers.fillDecode(&q, &q.views[fleet.LegUnsplit], 210)
		if len(answers.Candidates) != 1 || answers.Candidates[0].Name != "d" {
			t.Fatalf("%d candidates to answer", len(answers.Candidates))
		}
		return answers.Candidates[0], link
	}
	busy, link := row(2)
	idle, _ := row(0)
	want := 2 * 2000 * link.MsPerToken
	if got := busy.WaitMs - idle.WaitMs; !near(got, want) {
		t.Errorf("it waits for the two others on its link for %v ms, want %v", got, want)
	}
	if got := busy.Link.DelayMs - idle.Link.DelayMs; !near(got, want) {
		t.Errorf("they wait for it for %v ms, want %v", got, want)
	}
}

// TestPlacesAreNoLink: waiting for a slot at a decoder teaches nothing about transfer speed.
func TestPlacesAreNoLink(t *testing.T) {
	w := newWire(t)
	w.Observe(w.now, Probed{
		Endpoint: "d", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}, Slots: 4},
	})
	d := w.endpoints.Named("d").Slot()
	w.teach("d", 0.01, 10)
	var answered []Plan
	for range 4 {
		p := w.hand(w.decide(1000))
		w.wait(20)
		w.Observe(w.now, FirstByte{Lease: p.Lease})
		answered = append(answered, p)
	}
	before, _ := w.speed.Reader().LearntTransfer(d)
	for range 20 {
		p := w.hand(w.decide(1000))
		w.wait(5000)
		w.answer(p)
	}
	if got, _ := w.speed.Reader().LearntTransfer(d); got != before {
		t.Errorf("from waiting for one of four places it is learnt that transfers are as %+v, they were as %+v",
			got, before)
	}
	for _, p := range answered {
		w.Observe(w.now, Finished{Lease: p.Lease})
	}
	p := w.hand(w.decide(1000))
	w.wait(20)
	w.answer(p)
	if got, _ := w.speed.Reader().LearntTransfer(d); got == before {
		t.Errorf("of one that found a place nothing is learnt: %+v", got)
	}
}
