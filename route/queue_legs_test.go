package route_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// press is a router before a prefiller that takes 0.1 ms per token, one prompt after another, and a decoder that
// answers at once.
type press struct {
	t      *testing.T
	r      *route.Router
	now    time.Time
	plans  map[string]route.Plan
	tokens map[string]int
	queue  []string
	from   time.Time // when the first of them started
	inLine []string
	sent   []string
}

func (s *press) request(name string, tokens int) *fleet.Request {
	return &fleet.Request{
		ID: name, Seed: 1, Model: "m", MintedID: name, PromptTokens: tokens, Stream: true, MayQueue: true, Splits: true,
	}
}

func (s *press) ask(name string, tokens int) {
	s.t.Helper()
	plan, err := s.r.Decide(s.now, s.request(name, tokens))
	if err != nil || !plan.Split() || plan.Queued {
		s.t.Fatalf("%+v, %v: want two legs, of which that of the answer does not stand in line", plan, err)
	}
	s.plans[name], s.tokens[name] = plan.Plan, tokens
	if plan.Prefill.Queued {
		s.inLine = append(s.inLine, name)
	} else {
		s.send(name)
	}
}

func (s *press) send(name string) {
	s.sent = append(s.sent, name)
	if s.queue = append(s.queue, name); len(s.queue) == 1 {
		s.from = s.now
	}
}

func (s *press) observe(ev route.Event) {
	for _, l := range slices.Clone(s.r.Observe(s.now, ev).Dispatched) {
		i := slices.IndexFunc(s.inLine, func(name string) bool { return s.plans[name].Prefill.Lease == l })
		if i < 0 {
			s.t.Fatalf("%d is called, and does not stand in line", l)
		}
		s.send(s.inLine[i])
		s.inLine = slices.Delete(s.inLine, i, i+1)
	}
}

func (s *press) run(d time.Duration) {
	for until := s.now.Add(d); ; {
		end := until
		if len(s.queue) > 0 {
			end = s.from.Add(time.Duration(s.tokens[s.queue[0]]) * 100 * time.Microsecond)
		}
		if len(s.queue) == 0 || end.After(until) {
			s.now = until
			return
		}
		name := s.queue[0]
		plan := s.plans[name]
		s.now, s.queue, s.from = end, s.queue[1:], end
		usage := fleet.Usage{PromptTokens: s.tokens[name], OutputTokens: 1, CachedKnown: true}
		s.observe(route.FirstByte{Lease: plan.Prefill.Lease})
		s.observe(route.Transferring{Lease: plan.Lease})
		s.observe(route.FirstByte{Lease: plan.Lease})
		s.observe(route.Finished{Lease: plan.Prefill.Lease, Usage: usage})
		s.observe(route.Finished{Lease: plan.Lease, Usage: usage})
	}
}

// TestQueueOfLegs: prefill legs are queued too, shortest first; decode legs and retries are not.
func TestQueueOfLegs(t *testing.T) {
	s := &press{t: t, now: time.Unix(1_000_000, 0), plans: map[string]route.Plan{}, tokens: map[string]int{}}
	s.r = route.New(route.Config{
		Policy: func() pick.Policy { return firstLeast{} }, Queue: route.QueueConfig{Ahead: time.Second},
		Disaggregation: route.Disaggregation{When: fleet.WhenAlways},
	})
	s.r.Observe(s.now, route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "p", URL: "http://p", Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: "http://d", Weight: 1, Role: fleet.RoleDecode},
	}})
	for _, name := range []string{"p", "d"} {
		s.r.Observe(s.now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	for i := range 8 { // the router learns the prefiller's speed
		s.ask(fmt.Sprint("known", i), 4000)
		if i < 2 {
			s.run(time.Minute)
		}
	}
	s.run(time.Minute)
	s.sent = nil

	s.ask("blocks", 40_000)
	s.ask("long", 30_000)
	s.ask("middle", 12_000)
	s.ask("short", 1000)
	if got := s.r.Status(s.now)[0].Load; got.Queued != 3 || got.PrefillTokens != 83_000 {
		t.Fatalf("load %+v: want three in line, with 83,000 tokens to compute in all", got)
	}
	for what, change := range map[string]func(q *fleet.Request){
		"another prefiller failed": func(q *fleet.Request) { q.TriedPrefill = []string{"other"} },
		"a decoder failed":         func(q *fleet.Request) { q.Tried = []string{"other"} },
		"its door cannot wait":     func(q *fleet.Request) { q.MayQueue = false },
	} {
		q := s.request("tried", 2000)
		change(q)
		plan, err := s.r.Decide(s.now, q)
		if err != nil || plan.Prefill.Queued {
			t.Errorf("%s: %+v, %v: want it not to stand in line", what, plan, err)
		}
		s.observe(route.Finished{Lease: plan.Prefill.Lease, Outcome: fleet.Abandoned})
		s.observe(route.Finished{Lease: plan.Lease, Outcome: fleet.Abandoned})
	}
	s.run(time.Minute)
	if want := []string{"blocks", "short", "middle", "long"}; !slices.Equal(s.sent, want) {
		t.Errorf("the prefiller got %v, want %v", s.sent, want)
	}
	for i, e := range s.r.Status(s.now) {
		if e.Load != (fleet.Load{}) {
			t.Errorf("endpoint %d: load %+v when all is over", i, e.Load)
		}
	}
	if n := s.r.Stats().Leases; n != 0 {
		t.Errorf("%d leases are open", n)
	}
}
