package route_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// fullEngine is a router of one engine with room for three conversations of 30,000 tokens, which have come back quickly
// so far.
type fullEngine struct {
	*route.Router
	t   *testing.T
	now time.Time
}

func newFullEngine(t *testing.T, change func(*route.Config)) *fullEngine {
	t.Helper()
	c := route.Config{Policy: func() pick.Policy { return firstLeast{} }, Admission: true}
	if change != nil {
		change(&c)
	}
	s := &fullEngine{Router: route.New(c), t: t, now: time.Unix(1000, 0)}
	s.Observe(s.now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1}}})
	s.Observe(s.now, route.Probed{
		Endpoint: "e", Report: fleet.Report{Healthy: true, CacheTokens: 100_000, Models: []fleet.Model{{ID: "m"}}},
	})
	for range 20 {
		s.round()
	}
	return s
}

// round is a turn of each of the three: the engine takes ten seconds for their prompts, and they come back after a
// second. It returns what was called.
func (s *fullEngine) round() (called []fleet.Lease) {
	s.t.Helper()
	leases := []fleet.Lease{s.place("a", 0), s.place("b", 0), s.place("c", 0)}
	s.now = s.now.Add(10 * time.Second)
	for _, l := range leases {
		called = append(called, s.Observe(s.now, route.FirstByte{Lease: l}).Dispatched...)
	}
	for _, l := range leases {
		called = append(called, s.end(l)...)
	}
	s.now = s.now.Add(time.Second)
	return append(called, s.Observe(s.now, route.Tick{}).Dispatched...)
}

// ask asks for a turn of a conversation, which continues a hold.
func (s *fullEngine) ask(name string, held fleet.Lease) (route.Plan, error) {
	made, err := s.Decide(s.now, &fleet.Request{
		ID: name, Model: "m", Session: name, Class: fleet.Turn, PromptTokens: 30_000, Stream: true, MayQueue: true,
		MayHold: true, Attempt: fleet.Attempt{Hold: held}, Seed: 1,
	})
	return made.Plan, err
}

// place asks, and has the turn placed.
func (s *fullEngine) place(name string, held fleet.Lease) fleet.Lease {
	s.t.Helper()
	p, err := s.ask(name, held)
	if err != nil || p.Lease == 0 || p.Hold.Lease != 0 {
		s.t.Fatalf("%s: %+v, %v; want it placed", name, p.Hold, err)
	}
	return p.Lease
}

// hold asks, and has the turn held.
func (s *fullEngine) hold(name string) route.Hold {
	s.t.Helper()
	before := s.Stats()
	p, err := s.ask(name, 0)
	if err != nil || p.Hold.Lease == 0 || p.Lease != 0 {
		s.t.Fatalf("%s: lease %d, %v; want it held", name, p.Lease, err)
	}
	if after := s.Stats(); after.Leases != before.Leases || after.Decisions != before.Decisions ||
		after.Sessions != before.Sessions {
		s.t.Fatalf("a hold changes the accounts: %+v, then %+v", before, after)
	}
	return p.Hold
}

// end ends a turn. It returns what was called.
func (s *fullEngine) end(l fleet.Lease) []fleet.Lease {
	return slices.Clone(s.Observe(s.now, route.Finished{
		Lease: l, Usage: fleet.Usage{PromptTokens: 30_000, OutputTokens: 10},
	}).Dispatched)
}

func (s *fullEngine) wait(d time.Duration) (called []fleet.Lease) {
	for until := s.now.Add(d); s.now.Before(until); {
		s.now = s.now.Add(time.Second)
		called = append(called, s.Observe(s.now, route.Tick{}).Dispatched...)
	}
	return called
}

// TestHolds: where three conversations fill the cache, a fourth one's turn is held before it is placed, and goes when
// they have been idle for so long that keeping their cache does not pay.
func TestHolds(t *testing.T) {
	s := newFullEngine(t, nil)
	h := s.hold("d")
	if called := s.end(s.place("a", 0)); len(called) > 0 {
		t.Fatalf("%v are called although nothing has changed", called)
	}
	if called := s.wait(10 * time.Minute); !slices.Equal(called, []fleet.Lease{h.Lease}) {
		t.Fatalf("%v are called, want %v once", called, h.Lease)
	}
	s.end(s.place("d", h.Lease))
	if s.Held() != 0 {
		t.Errorf("%d are held, want none", s.Held())
	}
	if s.Observe(s.now, route.Finished{Lease: h.Lease}); s.Stats().DoubleFinished != 1 {
		t.Error("a hold that was placed could be ended again")
	}
}

// TestHeldClientLeaves: its hold ends with its Finished, once, whether it was called or not.
func TestHeldClientLeaves(t *testing.T) {
	s := newFullEngine(t, nil)
	first, second := s.hold("d"), s.hold("e")
	s.Observe(s.now, route.Finished{Lease: first.Lease, Outcome: fleet.ClientGone})
	if called := s.wait(10 * time.Minute); !slices.Equal(called, []fleet.Lease{second.Lease}) {
		t.Fatalf("%v are called, want %v", called, second.Lease)
	}
	s.Observe(s.now, route.Finished{Lease: second.Lease, Outcome: fleet.ClientGone})
	if stats := s.Stats(); s.Held() != 0 || stats.DoubleFinished != 0 || stats.Leases != 0 {
		t.Fatalf("%d are held, %+v", s.Held(), stats)
	}
}

// TestNotHeld: what can not wait before it is placed is placed.
func TestNotHeld(t *testing.T) {
	for name, change := range map[string]func(*fleet.Request){
		"callers that cannot":  func(r *fleet.Request) { r.MayHold = false },
		"retries":              func(r *fleet.Request) { r.Tried = []string{"f"} },
		"pinned requests":      func(r *fleet.Request) { r.Pin = "e" },
		"requests but turns":   func(r *fleet.Request) { r.Class = fleet.Auxiliary },
		"a conversation of it": func(r *fleet.Request) { r.Session = "a" },
		"what a member began":  func(r *fleet.Request) { r.Parent = "a" },
	} {
		s := newFullEngine(t, nil)
		req := fleet.Request{
			ID: "d", Model: "m", Session: "d", Class: fleet.Turn, PromptTokens: 30_000, MayQueue: true,
			MayHold: true, Seed: 1,
		}
		change(&req)
		if p, err := s.Decide(s.now, &req); err != nil || p.Lease == 0 {
			t.Errorf("%s: %+v, %v; want it placed", name, p.Hold, err)
		}
	}
	s := newFullEngine(t, func(c *route.Config) { c.Admission = false })
	s.place("d", 0)
}

// TestTooLongIsNotHeld: a prompt that exceeds the engine's context goes there at once, to be refused, and the members
// keep their places.
func TestTooLongIsNotHeld(t *testing.T) {
	s := newFullEngine(t, nil)
	s.Observe(s.now, route.Probed{Endpoint: "e", Report: fleet.Report{
		Healthy: true, CacheTokens: 100_000, Models: []fleet.Model{{ID: "m", ContextTokens: 90_000}},
	}})
	s.hold("d")
	made, err := s.Decide(s.now, &fleet.Request{
		Model: "m", Session: "long", Class: fleet.Turn, PromptTokens: 95_000, MayQueue: true, MayHold: true, Seed: 1,
	})
	if err != nil || made.Lease == 0 {
		t.Fatalf("%+v, %v; want it placed", made.Hold, err)
	}
	members := []fleet.Lease{s.place("a", 0), s.place("b", 0), s.place("c", 0)}
	s.Observe(s.now, route.Finished{Lease: made.Lease, Outcome: fleet.ClientError})
	for _, l := range members {
		s.end(l)
	}
	s.hold("f")
}

// TestTooLongElsewhere: a prompt that exceeds the engine's context makes no members end at another router either.
func TestTooLongElsewhere(t *testing.T) {
	replica := func(c *route.Config) { c.Replicas = true }
	one, other := newFullEngine(t, replica), newFullEngine(t, replica)
	for _, s := range []*fullEngine{one, other} {
		s.Observe(s.now, route.Probed{Endpoint: "e", Report: fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: "m", ContextTokens: 90_000}},
		}})
	}
	before := other.Status(other.now)[0].WorkingSet
	made, err := one.Decide(one.now, &fleet.Request{
		Model: "m", Session: "long", Class: fleet.Turn, PromptTokens: 95_000, MayQueue: true, MayHold: true, Seed: 1,
	})
	if err != nil || len(made.News) != 1 {
		t.Fatalf("%d news, %v; want one of its place", len(made.News), err)
	}
	other.Observe(other.now, route.PeerNews{Peer: 1, At: one.now, News: &made.News[0]})
	if after := other.Status(other.now)[0].WorkingSet; after != before || before == 0 {
		t.Errorf("a working set of %d tokens, want %d as before", after, before)
	}
}

// TestHeldCountAsWaiting: limits.waiting bounds those that are held too.
func TestHeldCountAsWaiting(t *testing.T) {
	s := newFullEngine(t, func(c *route.Config) { c.Queue.Most = 2 })
	s.hold("d")
	s.hold("e")
	var full *route.QueueFullError
	if _, err := s.ask("f", 0); !errors.As(err, &full) || full.RetryAfter < time.Second ||
		full.RetryAfter > time.Minute {
		t.Fatalf("%v, want that the queue is full, and for how long", err)
	}
	if _, err := s.Decide(s.now, &fleet.Request{
		Model: "m", Session: "f", Class: fleet.Turn, PromptTokens: 2_000_000, MayQueue: true, MayHold: true,
	}); !errors.As(err, &full) || full.RetryAfter != time.Minute {
		t.Fatalf("%v, want that a large one is asked to come again after a minute", err)
	}
	one := fleet.QueueClass{MaxRunning: 1}
	for _, want := range []bool{false, true} { // the first goes on, the second would have to be queued
		_, err := s.Decide(s.now, &fleet.Request{
			Model: "m", Session: "a", Class: fleet.Turn, PromptTokens: 30_000, MayQueue: true, QueueClass: one,
		})
		if refused := errors.As(err, &full) && err != nil; refused != want || refused && full.Waiting != 2 {
			t.Errorf("queued beside those that are held: %v, want refused %v of 2", err, want)
		}
	}
	s = newFullEngine(t, nil)
	for n, tenant := range []string{"x", "y", "x"} {
		_, err := s.Decide(s.now, &fleet.Request{
			Model: "m", Session: "d", Class: fleet.Turn, PromptTokens: 60_000, MayQueue: true, MayHold: true, Seed: 1,
			Tenant: tenant, QueueClass: fleet.QueueClass{MaxWaiting: 1},
		})
		if refused := errors.As(err, &full) && full.Tenant; refused != (n == 2) {
			t.Errorf("turn %d, of tenant %s: %v", n, tenant, err)
		}
	}
}

// TestHeldCountInAllPools: the limit of a tenant is one for all models, as it is for turns that are queued.
func TestHeldCountInAllPools(t *testing.T) {
	s := newFullEngine(t, func(c *route.Config) { c.Aliases = []fleet.Alias{{Name: "other", Models: []string{"m"}}} })
	for n, model := range []string{"m", "other"} {
		_, err := s.Decide(s.now, &fleet.Request{
			Model: model, Session: "d", Class: fleet.Turn, PromptTokens: 60_000, MayQueue: true, MayHold: true, Seed: 1,
			Tenant: "x", QueueClass: fleet.QueueClass{MaxWaiting: 1},
		})
		var full *route.QueueFullError
		if refused := errors.As(err, &full) && full.Tenant && full.Waiting == 1; refused != (n == 1) {
			t.Errorf("turn %d, for %s: %v", n, model, err)
		}
	}
	if s.Stats().Held != 1 {
		t.Errorf("%d are held, want the first", s.Stats().Held)
	}
}

// TestWorkingSetIsTold: the status says how much of an endpoint's cache the conversations under way need, and the
// statistics what those need that are held.
func TestWorkingSetIsTold(t *testing.T) {
	s := newFullEngine(t, nil)
	s.hold("d")
	e, stats := s.Status(s.now)[0], s.Stats()
	if e.WorkingSet < 90_000 || e.WorkingSet > e.WorkingRoom || e.WorkingRoom > 100_000 {
		t.Errorf("%d tokens of %d are needed, want those of three conversations of 100,000",
			e.WorkingSet, e.WorkingRoom)
	}
	if stats.Held != 1 || stats.HeldTokens < 30_000 || stats.HeldTokens > 35_000 {
		t.Errorf("%d are held, %d tokens; want 1 of 30,000 and its answer", stats.Held, stats.HeldTokens)
	}
}

// TestHeldTurnsAreTold: who is held, where its conversation was, and until when, until it is placed; the decision then
// says how long it was held.
func TestHeldTurnsAreTold(t *testing.T) {
	s := newFullEngine(t, nil)
	s.end(s.place("a", 0))
	first, second := s.hold("d"), s.hold("e")
	got := s.HeldTurns(10)
	if len(got) != 2 || got[0].Conversation != "d" || got[0].Request != "d" || got[0].Pool != "m" ||
		got[0].Home != "" || got[0].Until != first.Until || !got[0].Since.Equal(s.now) || got[1].Until != second.Until {
		t.Fatalf("held: %+v", got)
	}
	if got := s.HeldTurns(1); len(got) != 1 || got[0].Conversation != "d" {
		t.Fatalf("the first of those held: %+v", got)
	}
	began := s.now
	s.wait(10 * time.Minute)
	p, err := s.ask("d", first.Lease)
	if err != nil || p.Held != s.now.Sub(began) {
		t.Fatalf("held for %v, want %v: %v", p.Held, s.now.Sub(began), err)
	}
	s.end(p.Lease)
	s.end(s.place("e", second.Lease))
	if got := s.HeldTurns(10); len(got) != 0 || len(s.Stats().HeldPools) != 0 {
		t.Fatalf("still held: %+v, %+v", got, s.Stats().HeldPools)
	}
}

// TestFullIsTold: a turn goes where there is room for it, and its decision says how many endpoints have none, whether
// turns are held or not.
func TestFullIsTold(t *testing.T) {
	s := newFullEngine(t, nil)
	s.Observe(s.now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
		{Name: "e", URL: "http://e", Weight: 1}, {Name: "f", URL: "http://f", Weight: 1},
	}})
	s.Observe(s.now, route.Probed{
		Endpoint: "f", Report: fleet.Report{Healthy: true, CacheTokens: 100_000, Models: []fleet.Model{{ID: "m"}}},
	})
	ask := func(name, pin string) route.Plan {
		t.Helper()
		made, err := s.Decide(s.now, &fleet.Request{
			Model: "m", Session: name, Class: fleet.Turn, PromptTokens: 30_000, Stream: true, MayQueue: true,
			MayHold: true, Pin: pin,
		})
		if err != nil {
			t.Fatal(err)
		}
		return made.Plan
	}
	for range 20 {
		var leases []fleet.Lease
		for _, name := range []string{"a", "b", "c"} {
			leases = append(leases, ask(name, "e").Lease, ask(name+"f", "f").Lease)
		}
		s.now = s.now.Add(10 * time.Second)
		for _, l := range leases {
			s.Observe(s.now, route.FirstByte{Lease: l})
		}
		for _, l := range leases {
			s.end(l)
		}
		s.now = s.now.Add(time.Second)
		s.Observe(s.now, route.Tick{})
	}
	told := func(when string) {
		t.Helper()
		p := ask("a", "")
		if p.Endpoint.Name != "e" || p.Candidates != 1 || p.Full != 1 {
			t.Errorf("%s: at %s of %d candidates, %d full; want e alone", when, p.Endpoint.Name, p.Candidates, p.Full)
		}
		s.end(p.Lease)
	}
	told("while nothing is held")
	s.hold("d")
	told("while a turn is held")
}

// TestHoldsAfterALoss: conversations whose cache was lost keep no room, whether their engine slept or was restarted.
func TestHoldsAfterALoss(t *testing.T) {
	for name, reports := range map[string][]fleet.Report{
		"asleep":    {{Healthy: true, Sleep: fleet.Asleep}, {Healthy: true, Sleep: fleet.Awake}},
		"restarted": {{Refused: true}, {Healthy: true}},
	} {
		t.Run(name, func(t *testing.T) {
			after := func(reports []fleet.Report) *fullEngine {
				s := newFullEngine(t, nil)
				for i := range reports {
					s.Observe(s.now, route.Probed{Endpoint: "e", Report: reports[i]})
				}
				s.now = s.now.Add(300 * time.Millisecond)
				s.Observe(s.now, route.Tick{})
				return s
			}
			after(nil).hold("d")
			s := after(reports)
			s.end(s.place("d", 0))
		})
	}
}

// TestTurnsThatAreNotComputed: they leave what their conversation had in the cache before, and nothing of what is new.
func TestTurnsThatAreNotComputed(t *testing.T) {
	for _, outcome := range []fleet.Outcome{fleet.Busy, fleet.ClientError, fleet.EngineError, fleet.Abandoned} {
		s := newFullEngine(t, nil)
		s.Observe(s.now, route.Finished{Lease: s.place("a", 0), Outcome: outcome})
		s.hold("d")
	}

	s := newFullEngine(t, nil)
	s.wait(time.Hour)
	one := fleet.QueueClass{MaxRunning: 1}
	ask := func(name string) route.Plan {
		made, err := s.Decide(s.now, &fleet.Request{
			Model: "m", Session: name, Class: fleet.Turn, PromptTokens: 30_000, Stream: true, MayQueue: true,
			QueueClass: one,
		})
		if err != nil {
			t.Fatal(err)
		}
		return made.Plan
	}
	members := func() int64 { return s.Status(s.now)[0].WorkingSet }
	running := ask("x")
	alone := members()
	queued := ask("y")
	if !queued.Queued || members() <= alone {
		t.Fatalf("the second is not queued: %+v", queued)
	}
	s.Observe(s.now, route.Finished{Lease: queued.Lease, Outcome: fleet.ClientGone})
	if got := members(); got != alone {
		t.Errorf("a client that has left while it was queued leaves %d tokens", got-alone)
	}
	s.end(running.Lease)
}

// TestTenantsOfHeldTurns: users see their names, also where routers tell each other hashes of them.
func TestTenantsOfHeldTurns(t *testing.T) {
	s := newFullEngine(t, func(c *route.Config) { c.Replicas = true })
	s.end(s.place("a", 0))
	made, err := s.Decide(s.now, &fleet.Request{
		Model: "m", Session: "d", Tenant: "acme", Class: fleet.Turn, PromptTokens: 70_000, Stream: true, MayQueue: true,
		MayHold: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.HeldTurns(10); made.Hold.Lease == 0 || len(got) != 1 || got[0].Tenant != "acme" {
		t.Errorf("held: %+v", got)
	}
}

// TestSharedPrefixOfAnAlias: what a prompt shares with an engine's members counts once, whichever of an alias's models
// that engine serves, and in whatever order the engines were declared.
func TestSharedPrefixOfAnAlias(t *testing.T) {
	for _, order := range [][2]string{{"m", "n"}, {"n", "m"}} {
		r := route.New(route.Config{
			Policy: func() pick.Policy { return firstLeast{} }, Admission: true,
			Aliases: []fleet.Alias{{Name: "chat", Models: order[:]}},
		})
		now := time.Unix(1000, 0)
		d := route.Declared{Source: "s"}
		for _, model := range order {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: "of " + model, URL: "http://" + model, Weight: 1})
		}
		r.Observe(now, d)
		for _, model := range order {
			r.Observe(now, route.Probed{Endpoint: "of " + model, Report: fleet.Report{
				Healthy: true, CacheTokens: 100_000, Models: []fleet.Model{{ID: model}},
			}})
		}
		// a prompt of 30,000 tokens, of which two thirds are the beginning
		ask := func(model, session string, first uint64) route.Plan {
			c := fleet.Content{Bytes: 120_000}
			for i := range uint64(c.Bytes / fleet.BlockBytes) {
				name := first<<32 | i
				if i > 625 {
					name += numberOf(session)
				}
				c.Blocks = append(c.Blocks, name)
			}
			made, err := r.Decide(now, &fleet.Request{
				Model: model, Session: session, Class: fleet.Turn, PromptBytes: c.Bytes, Content: &c, Stream: true,
				MayQueue: true, MayHold: true, Seed: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			return made.Plan
		}
		end := func(p route.Plan) {
			r.Observe(now, route.FirstByte{Lease: p.Lease})
			r.Observe(now, route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 30_000, OutputTokens: 10}})
		}
		round := func(sessions ...string) { // the first one's prompt is computed before the others come
			var open []route.Plan
			for n, s := range sessions {
				open = append(open, ask("m", s, 1))
				if n < 3 {
					open = append(open, ask("n", "n"+s[:1], uint64(n+2)))
				}
				if n > 0 && n < len(sessions)-1 {
					continue
				}
				now = now.Add(10 * time.Second)
				for _, p := range open {
					if p.Lease == 0 {
						t.Fatalf("%s is held", s)
					}
					end(p)
				}
				open = nil
			}
			now = now.Add(time.Second)
		}
		for range 18 {
			round("a", "b", "c")
		}
		for _, s := range []string{"a", "b", "c"} {
			r.Observe(now, route.Closed{Session: s, Pools: []string{"m"}})
		}
		for range 2 { // five that begin alike at m, three that do not at n
			round("ax", "bx", "cx", "d", "e")
		}
		if p := ask("n", "other", 9); p.Hold.Lease == 0 {
			t.Fatalf("a conversation of its own goes to %s, want it held", p.Endpoint.Name)
		}
		if p := ask("chat", "new", 1); p.Hold.Lease != 0 {
			t.Errorf("of %v, one that begins like those at m is held", order)
		}
	}
}

func numberOf(s string) (h uint64) {
	for _, c := range s {
		h = h*31 + uint64(c)
	}
	return h << 16
}

// TestAdmissionSwitched: while it is off nothing is known of members, and what was held goes on at once. Turns that run
// across the change leave nothing behind.
func TestAdmissionSwitched(t *testing.T) {
	s := newFullEngine(t, nil)
	running := s.place("a", 0)
	h := s.hold("d")
	change := func(on bool) []fleet.Lease {
		c := s.Config()
		c.Admission = on
		return slices.Clone(s.Observe(s.now, route.Configured{Config: c}).Dispatched)
	}
	if called := change(false); !slices.Equal(called, []fleet.Lease{h.Lease}) {
		t.Fatalf("%v are called, want %v", called, h.Lease)
	}
	s.end(s.place("d", h.Lease))
	if e := s.Status(s.now)[0]; e.WorkingSet != 0 || e.WorkingRoom != 0 {
		t.Errorf("%d of %d tokens are needed, want that nothing is said", e.WorkingSet, e.WorkingRoom)
	}
	s.end(s.place("b", 0))
	change(true)
	s.end(running)
	s.wait(time.Second)
	if e := s.Status(s.now)[0]; e.WorkingSet != 0 {
		t.Errorf("%d tokens are needed before any turn has come", e.WorkingSet)
	}
	s.round()
	s.hold("d")
}

// TestEndsElsewhere: a conversation that is closed at one router makes room for the turns that others hold.
func TestEndsElsewhere(t *testing.T) {
	replica := func(c *route.Config) { c.Replicas = true }
	one, other := newFullEngine(t, replica), newFullEngine(t, replica)
	h := other.hold("d")
	closed := one.Observe(one.now, route.Closed{Pools: []string{"m"}, Session: "a"})
	if len(closed.News) != 1 {
		t.Fatalf("%d news, want one of the end", len(closed.News))
	}
	called := other.Observe(other.now, route.PeerNews{Peer: 1, At: one.now, News: &closed.News[0]}).Dispatched
	if !slices.Equal(called, []fleet.Lease{h.Lease}) {
		t.Errorf("%v are called, want %v", called, h.Lease)
	}
}

// TestFamilyElsewhere: what a conversation starts keeps it a member at all routers while it runs, whichever placed it.
func TestFamilyElsewhere(t *testing.T) {
	replica := func(c *route.Config) { c.Replicas = true }
	one, other := newFullEngine(t, replica), newFullEngine(t, replica)
	made, err := one.Decide(one.now, &fleet.Request{
		Model: "m", Session: "d", Parent: "a", Class: fleet.Turn, PromptTokens: 1000, MayQueue: true, MayHold: true,
		Seed: 1,
	})
	if err != nil || len(made.News) != 1 {
		t.Fatalf("%d news, %v; want one of its place", len(made.News), err)
	}
	other.Observe(other.now, route.PeerNews{Peer: 1, At: one.now, News: &made.News[0]})
	for name, s := range map[string]*fullEngine{"that placed it": one, "that heard of it": other} {
		s.wait(10 * time.Minute)
		if set := s.Status(s.now)[0].WorkingSet; set < 31_000 || set > 35_000 {
			t.Errorf("the router %s counts %d tokens, want those of the conversation and of what it started", name, set)
		}
	}
}

// TestHeldElsewhere: where two routers hold turns, the one whose bound comes first has the room, whichever holds it,
// and so it is for a router that came later. Once the other router is gone, nothing waits for what it held.
func TestHeldElsewhere(t *testing.T) {
	replica := func(c *route.Config) { c.Replicas = true }
	for name, joins := range map[string]bool{"heard": false, "joined": true} {
		t.Run(name, func(t *testing.T) {
			one, other := newFullEngine(t, replica), newFullEngine(t, replica)
			tell := func(news []route.News) {
				for i := range news {
					other.Observe(other.now, route.PeerNews{Peer: 1, At: one.now, News: &news[i]})
				}
			}
			one.hold("d")
			if news := one.Observe(one.now, route.Tick{}).News; joins {
				one.TellOpen(one.now, tell)
			} else {
				tell(news)
			}
			if news := one.Observe(one.now, route.Tick{}).News; len(news) > 0 {
				t.Errorf("%+v is told although nothing has changed", news)
			}
			other.now = other.now.Add(time.Second)
			h := other.hold("e")
			ended := func(name string) []fleet.Lease {
				e := other.Observe(other.now, route.Closed{Pools: []string{"m"}, Session: name})
				return slices.Clone(e.Dispatched)
			}
			if called := ended("a"); len(called) > 0 {
				t.Fatal("the room is taken from the other router's turn, whose bound comes first")
			}
			called := other.Observe(other.now, route.PeerGone{Peer: 1}).Dispatched
			if !slices.Equal(called, []fleet.Lease{h.Lease}) {
				t.Errorf("%v are called once the other router is gone, want %v", called, h.Lease)
			}
		})
	}
}
