package route_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// storm sends random events to a router: endpoints that come, go, move and restart, retried requests, and nonsensical
// reports.
type storm struct {
	*rapid.T
	r    *route.Router
	now  time.Time
	open []fleet.Lease

	at     map[fleet.Lease]string // endpoint of each open lease
	queued map[fleet.Lease]bool
}

// observe sends an event. No request may be queued at an idle endpoint, and each is dispatched once.
func (s *storm) observe(ev route.Event) {
	if f, ok := ev.(route.Finished); ok {
		delete(s.at, f.Lease)
		delete(s.queued, f.Lease)
	}
	for _, l := range s.r.Observe(s.now, ev).Dispatched {
		if !s.queued[l] {
			s.Fatalf("%d is dispatched, and is not queued", l)
		}
		delete(s.queued, l)
	}
	busy := map[string]bool{}
	for l, name := range s.at {
		busy[name] = busy[name] || !s.queued[l]
	}
	for l := range s.queued {
		if !busy[s.at[l]] {
			s.Fatalf("%d is queued for %s, which has nothing to do", l, s.at[l])
		}
	}
}

func (s *storm) of(n int, what string) int { return rapid.IntRange(0, n-1).Draw(s.T, what) }

func (s *storm) nonsense(what string) int {
	return rapid.SampledFrom([]int{0, 1, 100, 5000, 100_000, -1, 1 << 40, math.MaxInt64, math.MinInt64}).Draw(s.T, what)
}

func (s *storm) declare() {
	d := route.Declared{Source: "s"}
	for _, name := range []string{"a", "b", "c"} {
		if s.of(10, "declared") < 7 {
			e := fleet.Endpoint{
				Name: name, URL: fmt.Sprint("http://", name, s.of(2, "address")),
				Weight: rapid.SampledFrom([]float64{1, 0.01, 3}).Draw(s.T, "weight"),
			}
			if name == "c" {
				e.Part = fleet.Part{Kind: fleet.Slot, Index: s.of(2, "slot")}
			}
			d.Endpoints = append(d.Endpoints, e)
		}
	}
	s.observe(d)
}

func (s *storm) probe() {
	p := fleet.Report{
		Healthy: s.of(4, "healthy") > 0, Models: []fleet.Model{{ID: "m"}, {ID: "lora", Parent: "m"}},
		CacheTokens: int64(rapid.SampledFrom([]int{0, 1, 300, 10_000, 1 << 40}).Draw(s.T, "cache")),
		Slots:       s.of(4, "slots"), BlockTokens: rapid.SampledFrom([]int{0, 16, 1 << 30}).Draw(s.T, "block"),
		Load: &fleet.LoadReport{Running: s.of(4, "running"), Waiting: s.of(6, "waiting")},
	}
	p.Refused = !p.Healthy && s.of(2, "refused") == 0
	s.observe(route.Probed{Endpoint: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(s.T, "probed"), Report: p})
}

func (s *storm) request() {
	c := &fleet.Content{Bytes: s.of(6000, "bytes")}
	h := uint64(7)
	for range c.Bytes / fleet.BlockBytes {
		h = h*0x9e3779b97f4a7c15 + uint64(s.of(2, "block"))
		c.Blocks = append(c.Blocks, h)
	}
	q := &fleet.Request{
		Seed: 1, Class: rapid.SampledFrom([]fleet.Class{
			fleet.Turn, fleet.Turn, fleet.Turn, fleet.Embed, fleet.Auxiliary,
		}).Draw(s.T, "class"), Model: rapid.SampledFrom([]string{"m", "m", "lora"}).Draw(s.T, "model"),
		MintedID: fmt.Sprint("minted", s.of(4, "minted")), Stream: s.of(2, "stream") == 0,
		PromptBytes: c.Bytes + 40_000*s.of(2, "unread"), MaxTokens: s.nonsense("max tokens"),
		MayQueue: s.of(3, "waits") > 0, Session: rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(s.T, "session"),
		User:    rapid.SampledFrom([]string{"", "u"}).Draw(s.T, "user"),
		Follows: rapid.SampledFrom([]string{"", "", "r1"}).Draw(s.T, "follows"),
	}
	if q.Class == fleet.Turn && s.of(3, "content") > 0 {
		q.Content = c
	}
	for range 1 + s.of(3, "tries") {
		d, err := s.r.Decide(s.now, q)
		if err != nil {
			return
		}
		if math.IsNaN(d.TTFTMs) || math.IsInf(d.TTFTMs, 0) || d.TTFTMs < 0 || d.CachedTokens < 0 ||
			d.CachedTokens > d.PromptTokens {
			s.Fatalf("decision %+v", d)
		}
		s.open = append(s.open, d.Lease)
		if s.at[d.Lease] = d.Endpoint.Name; d.Queued {
			s.queued[d.Lease] = true
		}
		q.Tried = append(q.Tried, d.Endpoint.Name)
	}
}

func (s *storm) finish() {
	i := s.of(len(s.open), "finished")
	s.observe(route.Finished{
		Lease: s.open[i], Outcome: fleet.Outcome(s.of(8, "outcome")),
		Response: rapid.SampledFrom([]string{"", "r1"}).Draw(s.T, "response"),
		Usage: fleet.Usage{
			PromptTokens: s.nonsense("prompt"), CachedTokens: s.nonsense("cached"), OutputTokens: s.nonsense("output"),
			CachedKnown: s.of(2, "known") == 0,
		},
	})
	s.open = append(s.open[:i], s.open[i+1:]...)
}

// warmUp shows that a and b compute one prompt after another.
func (s *storm) warmUp() {
	for _, name := range []string{"a", "b"} {
		var leases []fleet.Lease
		for range 4 {
			if d, err := s.r.Decide(s.now, &fleet.Request{
				Seed: 1, Model: "m", Pin: name, PromptBytes: 4000, Stream: true, MintedID: "warm",
			}); err == nil {
				leases = append(leases, d.Lease)
			}
		}
		for _, l := range leases {
			s.now = s.now.Add(100 * time.Millisecond)
			s.observe(route.FirstByte{Lease: l})
		}
		for _, l := range leases {
			s.observe(route.Finished{Lease: l})
		}
	}
}

// TestStorm: no request is queued for an endpoint without work, all accounts return to zero when the last lease has
// ended, and all learnt values stay within bounds.
func TestStorm(t *testing.T) {
	for _, name := range []string{"least_ttft", "dynamo.kv"} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				make1, err := policy.New(policy.Config{Name: name})
				if err != nil {
					t.Fatal(err)
				}
				s := &storm{
					T: t, now: time.Unix(1_000_000, 0), at: map[fleet.Lease]string{}, queued: map[fleet.Lease]bool{},
					r: route.New(route.Config{
						Policy: make1, Explain: true, Queue: route.QueueConfig{Ahead: time.Millisecond},
						Sessions: session.Config{Max: 8}, Responses: 4,
					}),
				}
				s.declare()
				for _, name := range []string{"a", "b", "c"} {
					s.observe(route.Probed{Endpoint: name, Report: fleet.Report{
						Healthy: true, Models: []fleet.Model{{ID: "m"}, {ID: "lora", Parent: "m"}},
					}})
				}
				s.warmUp()
				for range rapid.IntRange(1, 200).Draw(t, "steps") {
					switch what := s.of(10, "what"); {
					case what == 0:
						s.declare()
					case what == 1:
						s.probe()
					case what == 2:
						s.now = s.now.Add(time.Duration(s.of(3000, "ms")) * time.Millisecond)
						if s.of(3, "signs") == 0 && len(s.open) > 0 {
							s.observe(route.StreamsAlive{Signs: []route.Sign{{
								Lease: s.open[s.of(len(s.open), "sign")],
								At:    s.now.Add(-time.Duration(s.of(20000, "ago")) * time.Millisecond),
							}}})
						}
					case what < 4 && len(s.open) > 0:
						s.finish()
					case what == 4 && len(s.open) > 0:
						s.observe(route.FirstByte{Lease: s.open[s.of(len(s.open), "first")]})
					default:
						s.request()
					}
				}
				for len(s.open) > 0 {
					s.finish()
				}
				if err := s.r.Idle(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
