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
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/learnt"
)

// linked is a router before a prefiller and a decoder.
func linked(now time.Time) *Router {
	r := New(Config{
		Policy: func() pick.Policy { return firstOf{} }, Disaggregation: Disaggregation{When: fleet.WhenAlways},
	})
	r.Observe(now, Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "p", URL: "http://p", Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: "http://d", Weight: 1, Role: fleet.RoleDecode},
	}})
	for _, name := range []string{"p", "d"} {
		r.Observe(now, Probed{Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	}
	return r
}

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

// teach makes known how long transfers to an endpoint take, and its prompts: ms per token, and besides.
func (w *wire) teach(name string, link, prompts backlog.Transfer) backlog.Transfer {
	w.speed.Restore(w.now, w.registry.Named(name).Slot(), &learnt.Speed{
		Moves: 1, Shared: learnt.Moves{PerToken: link.MsPerToken, Fixed: fit.Quantile(link.FixedMs)},
		Prefill: learnt.Prefill{Samples: 1, PerToken: prompts.MsPerToken, Fixed: fit.Quantile(prompts.FixedMs)},
	}, 0)
	return link
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
	d := w.registry.Named("d").Slot()
	if got := w.backlog.LinkMs(w.now, d, backlog.Transfer{MsPerToken: 0.05}, 1000, 0); got != 0 {
		t.Errorf("what goes to the old engine is %.0f ms in the way", got)
	}
	p := w.hand(w.decide(2000))
	w.wait(55)
	w.Observe(w.now, FirstByte{Lease: p.Lease})
	if got := w.backlog.Job(uint32(p.Lease)).TransferArea; !near(got, 55) {
		t.Errorf("it is taken to be among %v", got/55)
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
		near, far := backlog.Transfer{MsPerToken: 0.01, FixedMs: 10}, backlog.Transfer{MsPerToken: 0.01, FixedMs: 1e4}
		w.teach("far", far, backlog.Transfer{MsPerToken: 0.1, FixedMs: 1e4})
		w.teach("p", near, backlog.Transfer{MsPerToken: 0.1, FixedMs: 10})
		return w.teach("d", near, backlog.Transfer{MsPerToken: 0.1, FixedMs: 10})
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
	if got := plan.Weighed.SplitMs - alone.Weighed.SplitMs; math.Abs(got-2*waits) > 3 {
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
		link := w.teach(
			"d",
			backlog.Transfer{MsPerToken: 0.01, FixedMs: 10},
			backlog.Transfer{MsPerToken: 0.1, FixedMs: 10},
		)
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
