package trtllm

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
)

// desktop is a router with one of TensorRT-LLM's policies.
type desktop struct {
	t   *testing.T
	r   *route.Router
	p   []pick.Policy // in the order in which the pools were created
	now time.Time
	ids int
}

func newDesktop(t *testing.T, c router, endpoints ...string) *desktop {
	t.Helper()
	d := &desktop{t: t, now: time.Unix(1_000_000, 0)}
	d.r = route.New(route.Config{Policy: func() pick.Policy {
		p := makeTRT(t, c)
		d.p = append(d.p, p)
		return p
	}})
	d.declare(endpoints...)
	return d
}

func (d *desktop) declare(names ...string) {
	var all []fleet.Endpoint
	for _, name := range names {
		all = append(all, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
	}
	d.r.Observe(d.now, route.Declared{Source: "static", Endpoints: all})
	for _, name := range names {
		d.r.Observe(d.now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	d.now = d.now.Add(time.Minute) // past the ramp
}

func (d *desktop) ask(r *fleet.Request) route.Decision {
	d.t.Helper()
	d.ids++
	q := *r
	q.Model, q.MintedID, q.Seed = "m", fmt.Sprintf("minted-%d", d.ids), uint64(d.ids)
	q.ID = q.MintedID
	if q.Content != nil && q.PromptTokens == 0 {
		q.PromptBytes = q.Content.Bytes
	}
	out, err := d.r.Decide(d.now, &q)
	if err != nil {
		d.t.Fatal(err)
	}
	return out.Decision
}

func (d *desktop) end(x route.Decision, o fleet.Outcome) {
	d.r.Observe(d.now, route.Finished{Lease: x.Lease, Outcome: o})
	d.now = d.now.Add(time.Second)
}

func (d *desktop) turn(r *fleet.Request) string {
	d.t.Helper()
	x := d.ask(r)
	d.end(x, fleet.OK)
	return x.Endpoint.Name
}

// With a single candidate no policy chooses, and the conversation is still bound to it, for example in a retry.
func TestTRTConversationIsBoundToTheOnlyOneLeft(t *testing.T) {
	d := newDesktop(t, convConfig(ConversationConfig{}), "a", "b")
	first := d.turn(named("s", 3000))
	away := named("s", 3000)
	away.Exclude = []string{first}
	second := d.turn(away)
	if second == first {
		t.Fatal("it went to the excluded one")
	}
	for range 3 {
		if at := d.turn(named("s", 3000)); at != second {
			t.Errorf("bound anew to %s, then at %s", second, at)
		}
	}
}

// A request that continues a session may be new to the router, which then gives it an id of its own. A client that
// adopts the id stays, however busy the endpoint is, until that leaves.
func TestTRTConversationKnowsTheIDsItsClientsAreGiven(t *testing.T) {
	d := newDesktop(t, convConfig(ConversationConfig{}), "a", "b", "c")
	home := d.turn(said(2000, 2, 2500))                // minted-1
	if at := d.turn(said(2000, 3, 2500)); at != home { // minted-2: it has three quarters of its blocks in common
		t.Fatalf("continued at %s, the session is at %s", at, home)
	}
	adopted := func() *fleet.Request {
		r := said(0, 9, 5000)
		r.Session = "minted-2"
		return r
	}
	var open []route.Decision
	for range 3 {
		x := d.ask(adopted())
		if open = append(open, x); x.Endpoint.Name != home || x.Reason != pick.ReasonSession {
			t.Errorf("adopted: %s (%s), want %s", x.Endpoint.Name, x.Reason, home)
		}
	}
	for _, x := range open {
		d.end(x, fleet.OK)
	}
	d.turn(said(2000, 4, 2500)) // gets an id, which nobody has used when the endpoint leaves
	given := fmt.Sprintf("minted-%d", d.ids)
	var left []string
	for _, name := range []string{"a", "b", "c"} {
		if name != home {
			left = append(left, name)
		}
	}
	d.declare(left...)
	d.declare("a", "b", "c")
	r := said(0, 9, 100)
	r.Session = given
	if x := d.ask(r); x.Reason != reasons.Load {
		t.Errorf("its endpoint was removed, and it is sent to %s (%s)", x.Endpoint.Name, x.Reason)
	}
}

// A request's weight is returned once, however it ends; a late end does not change an endpoint that has left and
// returned.
func TestTRTConversationLoadIsExact(t *testing.T) {
	d := newDesktop(t, convConfig(ConversationConfig{}), "a", "b", "c")
	policy := func() *conversation { return d.p[len(d.p)-1].(*conversation) }
	total := func() (n int64) {
		policy().loads.Each(func(weight *int64) { n += *weight })
		return n
	}
	var open []route.Decision
	for i, r := range []*fleet.Request{
		named("s", 5000), said(0, 3, 1000), named("t", 100),
		{Class: fleet.Auxiliary},
		{Class: fleet.Embed, PromptBytes: 500},
	} {
		open = append(open, d.ask(r))
		if want := []int64{1000, 1200, 1220, 1220, 1320}[i]; total() != want {
			t.Errorf("request %d: %d in flight, want %d", i, total(), want)
		}
	}
	late := open[0]
	for i, x := range open[1:] {
		d.end(x, []fleet.Outcome{fleet.OK, fleet.ClientGone, fleet.EngineError, fleet.Busy}[i])
		d.end(x, fleet.OK) // a second end is ignored
	}
	if total() != 1000 {
		t.Errorf("%d in flight, want 1000", total())
	}
	gone := late.Endpoint.Name
	var left []string
	for _, name := range []string{"a", "b", "c"} {
		if name != gone {
			left = append(left, name)
		}
	}
	d.declare(left...)
	d.declare("a", "b", "c")
	fresh := d.ask(named("fresh", 600))
	before := total()
	d.end(late, fleet.OK)
	d.end(fresh, fleet.OK)
	policy().loads.Each(func(weight *int64) {
		if *weight != 0 {
			t.Errorf("%d in flight (%d before the late end)", *weight, before)
		}
	})
}

// Turns of two concurrent conversations stay at home, and matches follow the prediction.
func TestTRTKVCacheAwareKeepsConversations(t *testing.T) {
	for _, score := range []string{"request_share", "blocks"} {
		d := newDesktop(t, kvConfig(KVCacheAwareConfig{Score: score}), "a", "b", "c")
		at := map[int]string{}
		for turn := 1; turn <= 4; turn++ {
			for text := 2; text <= 7; text++ {
				x := d.ask(policytest.Words(0, text, 20*turn))
				d.end(x, fleet.OK)
				if home := at[text]; home != "" && x.Endpoint.Name != home {
					t.Errorf("%s: turn %d of %d is at %s, not at %s", score, turn, text, x.Endpoint.Name, home)
				}
				at[text] = x.Endpoint.Name
			}
		}
		used := map[string]int{}
		for _, name := range at {
			used[name]++
		}
		if len(used) != 3 {
			t.Errorf("%s: first turns went to %v", score, used)
		}
	}
}
