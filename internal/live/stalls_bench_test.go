//go:build linux

package live_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// stalls is a fleet on a clock of its own.
type stalls struct {
	*live.Fleet
	now    time.Time
	began  time.Duration // threadTime when the clock was last read, at the beginning of a hold
	held   func(took time.Duration)
	config route.Config
	fleet  route.Declared
}

// conversations is how many a router remembers.
const conversations = 1_000_000

func newStalls(endpoints int) *stalls {
	s := &stalls{now: time.Unix(1000, 0), fleet: route.Declared{Source: "s"}}
	s.config = route.Config{
		Policy:   func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) },
		Sessions: session.Config{Max: conversations},
		Queue:    route.QueueConfig{Ahead: 500 * time.Millisecond, Most: 20_000},
	}
	s.Fleet = live.New(route.New(s.config), func() time.Time {
		s.began = threadTime()
		return s.now
	}, live.Listener{Entry: func(*route.Entry) {
		if s.held != nil {
			s.held(threadTime() - s.began)
		}
	}})
	for i := range endpoints {
		s.fleet.Endpoints = append(s.fleet.Endpoints, fleet.Endpoint{
			Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1,
		})
	}
	s.Observe(s.fleet)
	for i := range endpoints {
		s.probed(i, adapters(20))
	}
	return s
}

// adapters is a model and so many adapters.
func adapters(n int) []fleet.Model {
	list := []fleet.Model{{ID: "m", ContextTokens: 100_000}}
	for i := range n {
		list = append(list, fleet.Model{ID: fmt.Sprint("l", i), Parent: "m"})
	}
	return list
}

func (s *stalls) probed(i int, models []fleet.Model) {
	s.Observe(route.Probed{Endpoint: s.fleet.Endpoints[i].Name, Report: fleet.Report{
		Healthy: true, Slots: 64, CacheTokens: 500_000, Models: models,
	}})
}

// BenchmarkStalls measures, in µs of processor time, each step for which the lock is held and that could grow with the
// fleet: with 1,000 endpoints, or with 10,000 requests waiting. It reports the median and the 99th percentile.
func BenchmarkStalls(b *testing.B) {
	for _, cell := range []struct {
		name      string
		endpoints int
		begin     func(s *stalls)
		step      func(s *stalls, n int)
	}{
		{"idle-conversations", 1000, func(s *stalls) {
			for n := range 100_000 {
				s.now = s.now.Add(5 * time.Millisecond)
				p, _ := s.Decide(&fleet.Request{
					ID: "r", Model: "m", Session: fmt.Sprint("s", n), PromptBytes: 4000, Stream: true,
				})
				s.Observe(route.FirstByte{Lease: p.Lease})
				s.Observe(route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 10}})
			}
		}, func(s *stalls, _ int) { s.now = s.now.Add(50 * time.Millisecond); s.Observe(route.Tick{}) }},
		{"models-in-another-order", 1000, nil, func(s *stalls, n int) {
			list := adapters(20)
			slices.Reverse(list[:1+n%20])
			s.probed(n%1000, list)
		}},
		{"a-model-more", 1000, askAll, func(s *stalls, n int) { s.probed(0, adapters(20+n%2)) }},
		{"an-unknown-model", 1000, nil, func(s *stalls, _ int) {
			_, _ = s.Decide(&fleet.Request{ID: "r", Model: "nobody's"})
		}},
		{"no-model", 1000, nil, func(s *stalls, _ int) {
			p, _ := s.Decide(&fleet.Request{ID: "r", PromptBytes: 4000})
			s.Observe(route.Finished{Lease: p.Lease})
		}},
		{"a-long-queue", 4, func(s *stalls) { queue(s, 10_000) }, func(s *stalls, n int) {
			p, _ := s.Decide(&fleet.Request{
				ID: "r", Model: "m", Tenant: fmt.Sprint("t", n%2), PromptBytes: 4000, MayQueue: true, Stream: true,
			})
			s.Observe(route.Finished{Lease: p.Lease, Outcome: fleet.ClientGone})
		}},
		{"a-long-queue-of-priorities", 4, func(s *stalls) { queue(s, 10_000) }, func(s *stalls, n int) {
			p, _ := s.Decide(&fleet.Request{
				ID: "r", Model: "m", Tenant: fmt.Sprint("t", n%2),
				QueueClass: fleet.QueueClass{Priority: fleet.PriorityHigh}, PromptBytes: 4000, MayQueue: true,
				Stream: true,
			})
			s.Observe(route.Finished{Lease: p.Lease, Outcome: fleet.ClientGone})
		}},
		{"the-next-of-a-long-queue", 4, func(s *stalls) { queue(s, 10_000) }, func(s *stalls, _ int) {
			s.now = s.now.Add(time.Second)
			s.Observe(route.Tick{})
		}},
		{"reload", 1000, askAll, func(s *stalls, _ int) { s.Observe(route.Configured{Config: s.config}) }},
		{"reload-of-aliases", 1000, askAll, func(s *stalls, n int) {
			config := s.config
			config.Aliases = []fleet.Alias{{Name: "chat", Models: []string{"m", fmt.Sprint("l", n%20)}}}
			s.Observe(route.Configured{Config: config})
			p, _ := s.Decide(&fleet.Request{ID: "r", Model: "chat", PromptBytes: 4000})
			s.Observe(route.Finished{Lease: p.Lease})
		}},
		{"reload-of-policies", 1000, askAll, func(s *stalls, _ int) {
			s.Observe(route.Configured{Config: s.config, Policies: true})
		}},
		{"one-in-the-middle-leaves-or-comes", 1000, askAll, func(s *stalls, n int) {
			d := s.fleet
			if n%2 == 0 {
				d.Endpoints = slices.Delete(slices.Clone(d.Endpoints), 500, 501)
			}
			s.Observe(d)
			s.probed(500, adapters(20))
		}},
		{"an-endpoint-moves", 1000, askAll, func(s *stalls, n int) {
			moved := s.fleet.Endpoints[n%1000]
			moved.URL = fmt.Sprint("http://moved", n)
			s.fleet.Endpoints[n%1000] = moved
			s.Observe(s.fleet)
			s.probed(n%1000, adapters(20))
		}},
		{"another-router-places", 1000, askAll, func(s *stalls, n int) {
			s.probed(0, adapters(20+n%2)) // has the names of pools looked up anew
			s.Observe(placed(s, n))
			s.Observe(route.PeerNews{
				Peer: 1, At: s.now, News: &route.News{Kind: route.NewsEnded, Lease: fleet.Lease(n + 1)},
			})
		}},
		{"another-router-ends", 1000, askAll, func(s *stalls, n int) {
			held := s.held
			s.held = nil
			for i := range 5000 {
				s.Observe(placed(s, i))
			}
			s.held = held
			s.Observe(route.PeerGone{Peer: 1})
		}},
		{"a-long-kv-event", 1000, askAll, func(s *stalls, n int) { s.Observe(stored(s, n, 1, 60_000)) }},
		{"many-kv-events", 1000, askAll, func(s *stalls, n int) { s.Observe(stored(s, n, 512, 60_000)) }},
		{"a-million-conversations", 16, remember, func(s *stalls, n int) {
			s.now = s.now.Add(50 * time.Millisecond)
			p, _ := s.Decide(&fleet.Request{
				ID: "r", Model: "m", Session: fmt.Sprint("new", n), PromptBytes: 4000, Stream: true,
			})
			s.Observe(route.FirstByte{Lease: p.Lease})
			s.Observe(route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 10}})
		}},
		{"a-piece-of-a-snapshot", 16, remember, func(s *stalls, n int) {
			pieces := 0
			s.Snapshot(func(*route.Piece) bool {
				if pieces++; pieces > 1 { // the first is after the beginning of the walk
					s.held(threadTime() - s.began)
				}
				return n == 0 || pieces < 40
			})
		}},
		{"an-endpoint-less-or-more", 1000, askAll, func(s *stalls, n int) {
			s.Observe(route.Declared{Source: "s", Endpoints: s.fleet.Endpoints[:999+n%2]})
		}},
		{"all-endpoints-less-or-more", 1000, askAll, func(s *stalls, n int) {
			s.Observe(route.Declared{Source: "s", Endpoints: s.fleet.Endpoints[:1000*(n%2)]})
		}},
	} {
		b.Run(cell.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := newStalls(cell.endpoints)
			if cell.begin != nil {
				cell.begin(s)
			}
			runtime.GC()
			var took []time.Duration
			s.held = func(d time.Duration) { took = append(took, d) }
			for n := 0; b.Loop(); n++ {
				cell.step(s, n)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
			b.ReportMetric(float64(took[len(took)-1].Nanoseconds())/1000, "max-µs")
		})
	}
}

// placed is a request that another router has placed.
func placed(s *stalls, n int) route.PeerNews {
	return route.PeerNews{
		Peer: 1, At: s.now, News: &route.News{Kind: route.NewsPlaced, Lease: fleet.Lease(n + 1), Placed: &route.Placed{
			Endpoint: route.NameHash(s.fleet.Endpoints[n%len(s.fleet.Endpoints)].Name), Pool: route.NameHash("m"),
			Stream: true, PromptTokens: 1000, OutputTokens: 100, PromptBytes: 4000,
		}},
	}
}

// stored is an engine's message that so many blocks were stored, in so many operations.
func stored(s *stalls, n, ops, blocks int) route.KVApplied {
	var list kvstream.Ops
	kv := kvstream.New(0)
	b := kvstream.Batch{}
	for i := range ops {
		e := b.Next()
		e.Kind, e.BlockTokens = kvstream.Stored, 16
		for k := range blocks / ops {
			e.Hashes = append(e.Hashes, uint64(n*blocks+i*blocks/ops+k+1))
			for range 16 {
				e.Tokens = append(e.Tokens, uint32(n*blocks+i*blocks/ops+k))
			}
		}
	}
	kv.Apply(0, &b, &list)
	return route.KVApplied{
		Endpoint: s.fleet.Endpoints[n%len(s.fleet.Endpoints)].Name, Ops: &list, Blocks: blocks, Size: 16,
	}
}

// remember fills the table of conversations.
func remember(s *stalls) {
	for n := range conversations {
		s.now = s.now.Add(time.Millisecond)
		p, _ := s.Decide(&fleet.Request{
			ID: "r", Model: "m", Session: fmt.Sprint("s", n), PromptBytes: 4000, Stream: true,
		})
		s.Observe(route.FirstByte{Lease: p.Lease})
		s.Observe(route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 10}})
	}
}

// askAll asks for each model once, so that it has a pool.
func askAll(s *stalls) {
	for _, m := range adapters(20) {
		p, _ := s.Decide(&fleet.Request{ID: "r", Model: m.ID, PromptBytes: 4000})
		s.Observe(route.Finished{Lease: p.Lease})
	}
}

// queue has this many requests of two tenants wait.
func queue(s *stalls, most int) {
	for range 400 { // teaches the endpoints' speeds
		p, _ := s.Decide(&fleet.Request{ID: "r", Model: "m", PromptBytes: 40_000, Stream: true})
		s.now = s.now.Add(time.Second)
		s.Observe(route.FirstByte{Lease: p.Lease})
		s.Observe(route.Finished{
			Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 10_000, OutputTokens: 10, CachedKnown: true},
		})
	}
	for n := range most {
		_, _ = s.Decide(&fleet.Request{
			ID: "r", Model: "m", Tenant: fmt.Sprint("t", n%2), PromptBytes: 4000 + n%50*1000,
			MayQueue: true, Stream: true,
		})
	}
	waiting := 0
	for _, e := range s.Status() {
		waiting += e.Load.Queued
	}
	if waiting < most*9/10 {
		panic(fmt.Sprint(waiting, " requests wait"))
	}
}
