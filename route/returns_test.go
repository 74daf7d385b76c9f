package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// awaits is a policy that places each request as told, and records the expected returns at each endpoint.
type awaits struct {
	at       int
	silent   bool // does not implement the wish for ReturnsPerMs
	expected [2]float64
}

func (a *awaits) Needs() pick.Needs { return pick.Needs{Name: "awaits", Returns: !a.silent} }

func (*awaits) Hooks() pick.Hooks { return pick.Hooks{} }

func (a *awaits) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	for i, c := range v.Candidates {
		takes := max(1, c.WaitMs+float64(v.PromptTokens-c.CachedTokens)*c.MsPerToken)
		a.expected[i] = c.ReturnsPerMs * takes
	}
	return pick.Choice{Index: a.at, Reason: "told"}
}

// await is a router before two endpoints whose conversations return or not.
type await struct {
	*testing.T
	p   *awaits
	r   *route.Router
	now time.Time
}

func newAwait(t *testing.T, silent bool, sessions session.Config) *await {
	p := &awaits{silent: silent}
	a := &await{
		t, p, route.New(route.Config{Policy: func() pick.Policy { return p }, Sessions: sessions}),
		time.Unix(1_000_000, 0),
	}
	a.r.Observe(a.now, route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
	}})
	for _, name := range []string{"a", "b"} {
		a.r.Observe(a.now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	return a
}

func (a *await) begin(session string, at, tokens int, tried ...string) fleet.Lease {
	a.Helper()
	a.p.at = at
	d, err := a.r.Decide(a.now, &fleet.Request{
		ID: session, Model: "m", Session: session, PromptTokens: tokens, Stream: true,
		Attempt: fleet.Attempt{Tried: tried},
	})
	if err != nil {
		a.Fatal(err)
	}
	return d.Lease
}

func (a *await) end(l fleet.Lease, o fleet.Outcome) {
	a.r.Observe(a.now, route.FirstByte{Lease: l})
	a.r.Observe(a.now, route.Finished{Lease: l, Outcome: o})
}

// TestReturnsAreForeseen: a conversation whose tools take two seconds is expected back at its home; one that has been
// away for long is not.
func TestReturnsAreForeseen(t *testing.T) {
	for _, silent := range []bool{false, true} {
		a := newAwait(t, silent, session.Config{})
		for i := range 10 {
			a.end(a.begin(fmt.Sprint("person", i), 1, 100), fleet.OK)
		}
		a.now = a.now.Add(2 * time.Hour)
		for range 40 {
			for i := range 10 {
				a.end(a.begin(fmt.Sprint("agent", i), 0, 100), fleet.OK)
				a.now = a.now.Add(200 * time.Millisecond)
			}
		}
		a.begin("new", 0, 50_000) // 5 s at the assumed speed
		busy, quiet := a.p.expected[0], a.p.expected[1]
		switch {
		case silent && (busy != 0 || quiet != 0):
			t.Errorf("nobody asks, and %.1f and %.1f are expected", busy, quiet)
		case !silent && (busy < 8 || busy > 10 || quiet > 1):
			t.Errorf("%.1f of ten agents are expected back, and %.1f of ten who left two hours ago", busy, quiet)
		}
	}
}

// look reports the conversations expected back at each endpoint, ever.
func (a *await) look(what string, atA, atB float64) {
	a.Helper()
	l := a.begin("", 0, 1_000_000_000) // all that return at all do so during its prefill
	for i, want := range [2]float64{atA, atB} {
		if got := a.p.expected[i]; got < 0.9*want || got > 1.01*want+0.01 {
			a.Errorf("%s: %.2f are expected at %d, should be %.0f", what, got, i, want)
		}
	}
	a.r.Observe(a.now, route.Finished{Lease: l, Outcome: fleet.Abandoned}) // does not become idle
}

// TestOneReturnsOnce: a conversation counts once, wherever its turns go and however they end; running turns count as
// well.
func TestOneReturnsOnce(t *testing.T) {
	a := newAwait(t, false, session.Config{})
	look := a.look
	look("nobody", 0, 0)
	first := a.begin("x", 0, 100)
	look("one is answered", 1, 0)
	a.end(first, fleet.OK)
	look("it rests", 1, 0)
	one, two := a.begin("x", 0, 100), a.begin("x", 0, 100)
	a.end(one, fleet.OK)
	a.end(two, fleet.ClientGone)
	look("two turns at once have ended", 1, 0)
	moved := a.begin("x", 1, 100)
	look("it is answered elsewhere", 0, 1)
	a.end(moved, fleet.OK)
	look("it rests elsewhere", 0, 1)
	failed := a.begin("x", 1, 100)
	again := a.begin("x", 0, 100, "b")
	a.end(failed, fleet.EngineError)
	look("it is tried again", 1, 0)
	a.end(again, fleet.OK)
	look("it rests where that was answered", 1, 0)
	one, two = a.begin("x", 0, 100), a.begin("x", 0, 100)
	a.end(one, fleet.OK)
	a.end(two, fleet.EngineError)
	look("of two turns at once one has failed", 1, 0)
	a.now = a.now.Add(24 * time.Hour)
	look("it has not come back", 0, 0)
}

// TestForgottenReturnNot: a conversation that is closed, has expired, or makes room for others is no longer expected
// back.
func TestForgottenReturnNot(t *testing.T) {
	a := newAwait(t, false, session.Config{Max: 4, IdleTTL: time.Hour})
	for i := range 4 {
		a.end(a.begin(fmt.Sprint(i), i%2, 100), fleet.OK)
	}
	a.look("they rest", 2, 2)
	a.r.Observe(a.now, route.Closed{Pools: a.r.Pools(), Session: "1"})
	a.r.Observe(a.now, route.Closed{Pools: a.r.Pools(), Session: "1"})
	a.look("one is closed", 2, 1)
	running := a.begin("2", 0, 100)
	a.r.Observe(a.now, route.Closed{Pools: a.r.Pools(), Session: "2"})
	a.end(running, fleet.OK)
	a.look("one is closed while it is answered", 1, 1)
	for i := range 4 {
		a.end(a.begin(fmt.Sprint("new", i), 1, 100), fleet.OK)
	}
	a.look("four new ones take their room", 0, 4)
	a.now = a.now.Add(61 * time.Minute)
	a.end(a.begin("new1", 0, 100), fleet.OK)
	for i := range 3 {
		a.end(a.begin(fmt.Sprint("later", i), 0, 100), fleet.OK)
	}
	a.look("their time is over", 4, 0)
}

// TestClaimedReturnsOnce: a conversation under an id of the router's that its client sends back counts once.
func TestClaimedReturnsOnce(t *testing.T) {
	a := newAwait(t, false, session.Config{})
	a.p.at = 1
	d, err := a.r.Decide(a.now, &fleet.Request{
		ID: "x", Model: "m", MintedID: "minted", PromptTokens: 100, Stream: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	a.end(d.Lease, fleet.OK)
	a.look("it rests", 0, 1)
	for range 2 {
		a.end(a.begin("minted", 1, 100), fleet.OK)
		a.look("its client sent the id back", 0, 1)
	}
}

// TestRetryIsNoReturn: a conversation whose turns are refused at one endpoint and answered at another is not thought to
// come back at once.
func TestRetryIsNoReturn(t *testing.T) {
	a := newAwait(t, false, session.Config{})
	for range 40 {
		a.now = a.now.Add(time.Minute)
		for i := range 10 {
			a.end(a.begin(fmt.Sprint(i), 1, 100), fleet.ClientError)
			a.end(a.begin(fmt.Sprint(i), 0, 100, "b"), fleet.OK)
		}
	}
	a.begin("new", 0, 5000) // 0.5 s at the assumed speed
	if at := a.p.expected[0]; at > 0.5 {
		t.Errorf("%.2f of ten that return after a minute are expected at once", at)
	}
}
