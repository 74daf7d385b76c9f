package route_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// shop is a router before one engine, which answers at once when it has computed a prompt.
type shop struct {
	t   rapid.TB
	r   *route.Router
	now time.Time

	engine engine
	queue  []doing
	known  bool // the router knows the engine's speed

	leases map[string]fleet.Lease
	names  map[fleet.Lease]string
	tokens map[string]int
	sent   []string // in the order in which the engine got them
	first  []string // in the order of their first bytes
	came   map[string]time.Time
	ttft   map[string]time.Duration
	inLine map[string]bool
}

// engine is the way in which an engine computes prompts.
type engine struct {
	each   time.Duration // per token of a prompt that is computed alone
	beside int           // prompts computed concurrently
	apart  bool          // each of these as if alone
	last   bool          // latest first
}

// The kinds: vLLM, llama-server with four slots in one batch or one by one, and a fake that does not compute.
var (
	inTurn  = engine{each: 100 * time.Microsecond, beside: 1}
	inSlots = engine{each: 440 * time.Microsecond, beside: 4}
	latest  = engine{each: 440 * time.Microsecond, beside: 1, last: true}
	atOnce  = engine{each: 100 * time.Microsecond, beside: 1 << 20, apart: true}
)

// doing is a prompt at the engine.
type doing struct {
	name string
	left time.Duration // time left if nothing else were computed
}

func newShop(t rapid.TB, q route.QueueConfig, e engine) *shop {
	s := emptyShop(t, q, e)
	// A few prompts show the kind of engine: one alone, and some together.
	for i := range 8 {
		s.ask(fmt.Sprint("known", i), 4000)
		if i < 2 {
			s.run(time.Minute)
		}
	}
	s.run(time.Minute)
	s.sent, s.first, s.known = nil, nil, e == inTurn
	return s
}

func emptyShop(t rapid.TB, q route.QueueConfig, e engine) *shop {
	s := &shop{
		t: t, now: time.Unix(1_000_000, 0), engine: e,
		leases: map[string]fleet.Lease{}, names: map[fleet.Lease]string{}, tokens: map[string]int{},
		came: map[string]time.Time{}, ttft: map[string]time.Duration{}, inLine: map[string]bool{},
	}
	s.r = route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }, Queue: q})
	s.r.Observe(s.now, route.Declared{
		Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
	})
	s.r.Observe(s.now, route.Probed{
		Endpoint: "a", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
	})
	return s
}

func (s *shop) request(name string, tokens int) *fleet.Request {
	return &fleet.Request{
		ID: name, Seed: 1, Model: "m", MintedID: name, PromptTokens: tokens, Stream: true, MayQueue: true,
	}
}

func (s *shop) ask(name string, tokens int) route.Decision {
	d, err := s.r.Decide(s.now, s.request(name, tokens))
	if err != nil {
		s.t.Fatal(err)
	}
	s.leases[name], s.names[d.Lease], s.tokens[name], s.came[name] = d.Lease, name, tokens, s.now
	if d.Queued {
		s.inLine[name] = true
	} else {
		s.send(name)
	}
	return d.Decision
}

func (s *shop) send(name string) {
	s.sent = append(s.sent, name)
	d := doing{name, time.Duration(s.tokens[name]) * s.engine.each}
	if s.engine.last {
		s.queue = slices.Insert(s.queue, 0, d)
	} else {
		s.queue = append(s.queue, d)
	}
}

// next is the prompt that finishes first, and when.
func (s *shop) next() (which int, after time.Duration) {
	n := min(len(s.queue), s.engine.beside)
	for i, d := range s.queue[:n] {
		if d.left < s.queue[which].left {
			which = i
		}
	}
	return which, s.queue[which].left * s.shared()
}

// shared is the number of prompts that share the engine's time.
func (s *shop) shared() time.Duration {
	if s.engine.apart {
		return 1
	}
	return time.Duration(min(len(s.queue), s.engine.beside))
}

// compute advances the engine.
func (s *shop) compute(d time.Duration) {
	n := s.shared()
	for i := range min(len(s.queue), s.engine.beside) {
		s.queue[i].left -= d / n
	}
	s.now = s.now.Add(d)
}

func (s *shop) observe(ev route.Event) {
	for _, l := range s.r.Observe(s.now, ev).Dispatched {
		name := s.names[l]
		if !s.inLine[name] {
			s.t.Fatalf("%s is called, and does not stand in line", name)
		}
		delete(s.inLine, name)
		for other := range s.inLine {
			// speed is learnt to within 10 %
			if s.known && s.turn(other) < s.turn(name)-float64(s.tokens[name]+s.tokens[other])/100 {
				s.t.Fatalf("%s is called before %s: %.1f against %.1f", name, other, s.turn(name), s.turn(other))
			}
		}
		s.send(name)
	}
}

// turn is the sort key by the definition of aSecond.
func (s *shop) turn(name string) float64 {
	return float64(s.tokens[name])/10 - float64(s.now.Sub(s.came[name]).Microseconds())/1000/5
}

// finish ends a request. The engine stops if the client has left.
func (s *shop) finish(name string, o fleet.Outcome) {
	delete(s.inLine, name)
	if i := slices.IndexFunc(s.queue, func(d doing) bool { return d.name == name }); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	s.observe(route.Finished{Lease: s.leases[name], Outcome: o, Usage: fleet.Usage{
		PromptTokens: s.tokens[name], OutputTokens: 1, CachedKnown: true,
	}})
	delete(s.leases, name)
}

// run lets time pass.
func (s *shop) run(d time.Duration) {
	until := s.now.Add(d)
	for len(s.queue) > 0 {
		i, after := s.next()
		if s.now.Add(after).After(until) {
			s.compute(until.Sub(s.now))
			break
		}
		s.compute(after)
		name := s.queue[i].name
		s.queue = slices.Delete(s.queue, i, i+1)
		s.first, s.ttft[name] = append(s.first, name), s.now.Sub(s.came[name])
		s.observe(route.FirstByte{Lease: s.leases[name]})
		s.finish(name, fleet.OK)
	}
	s.now = until
}

func (s *shop) want(what string, got, want []string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("%s %v, want %v", what, got, want)
	}
}

// aSecond keeps at most one second of prompts at an engine.
var aSecond = route.QueueConfig{Ahead: time.Second, Patience: 5}

// TestQueue: an engine is sent a second of work; the rest is queued, shortest first, until a prompt has waited long
// enough.
func TestQueue(t *testing.T) {
	s := newShop(t, aSecond, inTurn)
	s.ask("a", 10_000) // 1 s: no more than a second ahead
	s.ask("b", 20_000)
	s.want("sent", s.sent, []string{"a", "b"})
	if d := s.ask("long", 60_000); !d.Queued || d.TTFTMs < 8500 || d.TTFTMs > 9500 {
		t.Errorf("waits %t and is due in %.0f ms, want to wait and 9 s", d.Queued, d.TTFTMs)
	}
	if d := s.ask("short", 1000); !d.Queued || d.TTFTMs < 2800 || d.TTFTMs > 3400 {
		t.Errorf("waits %t and is due in %.0f ms, want to wait and 3.1 s: it goes before the long one",
			d.Queued, d.TTFTMs)
	}
	s.ask("middle", 5000)
	s.run(time.Second)
	s.want("sent", s.sent, []string{"a", "b"}) // b takes two seconds
	s.run(2 * time.Second)
	s.want("sent", s.sent, []string{"a", "b", "short", "middle"}) // a long one may overtake those sent at the same time
	s.run(100 * time.Millisecond)
	s.want("sent", s.sent, []string{"a", "b", "short", "middle", "long"})
	s.run(time.Minute)
	s.want("answered", s.first, []string{"a", "b", "short", "middle", "long"})
	if err := s.r.Idle(); err != nil {
		t.Error(err)
	}
}

// TestQueueIsPatient: short prompts that keep arriving overtake a long one for five times its own time, and no longer.
func TestQueueIsPatient(t *testing.T) {
	s := newShop(t, aSecond, inTurn)
	s.ask("first", 30_000)
	s.ask("long", 20_000) // 2 s: sent once it has waited for 10 s minus 5 times the others' time
	for i := range 200 {
		s.ask(fmt.Sprint("short", i), 2500) // 0.25 s each, as fast as they are computed
		s.run(250 * time.Millisecond)
	}
	s.run(time.Minute)
	if got := s.ttft["long"]; got < 9*time.Second || got > 14*time.Second {
		t.Errorf("a prompt of 2 s waits %v, want about 10 s", got)
	}
}

// TestQueueIsLeft: a request that leaves the queue is not sent, and the accounts are as before.
func TestQueueIsLeft(t *testing.T) {
	s := newShop(t, aSecond, inTurn)
	s.ask("a", 30_000)
	s.ask("b", 1000)
	s.ask("c", 2000)
	s.finish("b", fleet.ClientGone)
	s.run(time.Minute)
	s.want("sent", s.sent, []string{"a", "c"})
	if err := s.r.Idle(); err != nil {
		t.Error(err)
	}
}

// TestWhoIsQueued: only requests that can wait are queued, and no retries or pinned ones.
func TestWhoIsQueued(t *testing.T) {
	for _, tt := range []struct {
		name string
		q    route.QueueConfig
		with func(*fleet.Request)
		want bool
	}{
		{"a prompt", aSecond, func(*fleet.Request) {}, true},
		{"an answer that comes as a whole", aSecond, func(q *fleet.Request) { q.Stream = false }, true},
		{"its door cannot wait", aSecond, func(q *fleet.Request) { q.MayQueue = false }, false},
		{"pinned", aSecond, func(q *fleet.Request) { q.Pin = "a" }, false},
		{"tried elsewhere", aSecond, func(q *fleet.Request) { q.Tried = []string{"b"} }, false},
		{"an embedding", aSecond, func(q *fleet.Request) { q.Class = fleet.Embed }, false},
		{"no line is kept", route.QueueConfig{}, func(*fleet.Request) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShop(t, tt.q, inTurn)
			s.ask("a", 40_000)
			q := s.request("x", 4000)
			tt.with(q)
			d, err := s.r.Decide(s.now, q)
			if err != nil || d.Queued != tt.want {
				t.Errorf("waits %t (%v), want %t", d.Queued, err, tt.want)
			}
		})
	}
}

// TestNoQueueWhereAllIsComputedAtOnce: a fake engine, or an address with many engines behind it, is soon sent
// everything again. Queueing would waste three quarters of its capacity.
func TestNoQueueWhereAllIsComputedAtOnce(t *testing.T) {
	play := func(q route.QueueConfig) time.Duration {
		s := newShop(t, q, atOnce)
		for i := range 200 {
			s.ask(fmt.Sprint(i), 20_000) // 2 s
			s.run(500 * time.Millisecond)
		}
		s.run(time.Hour)
		if len(s.first) != 200 {
			t.Fatalf("%d of 200 are answered", len(s.first))
		}
		var sum time.Duration
		for i := range 200 {
			sum += s.ttft[fmt.Sprint(i)]
		}
		return sum / 200
	}
	if with, without := play(route.QueueConfig{Ahead: 500 * time.Millisecond, Patience: 5}),
		play(route.QueueConfig{}); with > without*11/10 {
		t.Errorf("a prompt takes %v with a line, %v without", with, without)
	}
}

// TestQueueAgainstModel: whatever requests come and leave, an engine with less than a second of prompts is sent more,
// and always the first in order.
func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newShop(rt, aSecond, inTurn)
		n := 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(rt, "what"); {
			case what < 6:
				n++
				s.ask(fmt.Sprint("r", n), rapid.IntRange(1, 30_000).Draw(rt, "tokens"))
			case what < 9:
				s.run(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "ms")) * time.Millisecond)
			default:
				name := fmt.Sprint("r", 1+rapid.IntRange(0, n).Draw(rt, "leaves"))
				if _, ok := s.leases[name]; ok {
					s.finish(name, fleet.ClientGone)
				}
			}
			// The uncomputed prompts at the engine.
			var ahead int
			for name := range s.leases {
				if !s.inLine[name] {
					ahead += s.tokens[name]
				}
			}
			long := false // not sent together with others
			for name := range s.inLine {
				long = long || s.tokens[name] > 9000
			}
			if len(s.inLine) > 0 && (ahead == 0 || ahead < 9000 && !long) {
				rt.Fatalf("%d stand in line for an engine that has %d tokens to compute", len(s.inLine), ahead)
			}
		}
		s.run(time.Hour)
		if err := s.r.Idle(); err != nil {
			rt.Fatal(err)
		}
	})
}
