package route_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// talk is a set of conversations before a loaded fleet: each turn has a common system prompt and a history of its own.
type talk struct {
	r     *route.Router
	now   time.Time
	req   fleet.Request
	text  fleet.Content
	asked int
	open  []fleet.Lease // oldest first, as a ring
	next  int

	blocks int             // of a prompt
	took   []time.Duration // by each decision
}

func newTalk(endpoints, conversations, blocks int) *talk {
	t := &talk{now: time.Unix(1000, 0), blocks: blocks}
	t.r = route.New(route.Config{
		Policy:   func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) },
		Sessions: session.Config{Max: max(conversations, 1000) * 2},
	})
	d := route.Declared{Source: "s"}
	for i := range endpoints {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{
			Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1,
		})
	}
	t.r.Observe(t.now, d)
	for _, e := range d.Endpoints {
		t.r.Observe(t.now, route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true, Slots: 64, CacheTokens: 500_000, Models: []fleet.Model{{ID: "m", ContextTokens: 100_000}},
		}})
	}
	t.req = fleet.Request{ID: "r", Model: "m", Stream: true, Content: &t.text}
	t.open = make([]fleet.Lease, 8*endpoints)
	for i := range conversations + len(t.open) {
		t.turn(i % conversations)
	}
	return t
}

const talkBlocks = 40

// refusedBefore is a fleet in which each endpoint refused one caller an hour ago.
const refusedBefore = "refused/1000"

func (t *talk) refuse(endpoints int) {
	for i := range endpoints {
		p, err := t.r.Decide(t.now, &fleet.Request{ID: "r", Model: "m", Pin: fmt.Sprint("e", i), Caller: 7})
		if err != nil {
			panic(err)
		}
		t.r.Observe(t.now, route.Finished{Lease: p.Lease, Outcome: fleet.Busy, Limited: true})
	}
	t.now = t.now.Add(time.Hour)
	for i := range endpoints {
		t.r.Observe(t.now, route.Probed{Endpoint: fmt.Sprint("e", i), Report: fleet.Report{
			Healthy: true, Slots: 64, CacheTokens: 500_000, Models: []fleet.Model{{ID: "m", ContextTokens: 100_000}},
		}})
	}
}

// turn plays a turn of a conversation and ends the oldest running one.
func (t *talk) turn(conversation int) {
	t.asked++
	t.now = t.now.Add(2 * time.Millisecond)
	t.text.Blocks = t.text.Blocks[:0]
	for i := range uint64(t.blocks) {
		key := i
		if i > uint64(t.blocks/2) {
			key += uint64(conversation+1) << 20
		}
		t.text.Blocks = append(t.text.Blocks, key*0x9e3779b97f4a7c15)
	}
	t.text.Bytes = t.blocks * fleet.BlockBytes
	t.req.Session, t.req.Seed, t.req.PromptBytes = sessions[conversation%len(sessions)], uint64(t.asked), t.text.Bytes
	t.req.Tenant = tenants[conversation/len(sessions)]
	began := time.Now()
	p, err := t.r.Decide(t.now, &t.req)
	if err != nil {
		panic(err)
	}
	t.took = append(t.took, time.Since(began))
	t.r.Observe(t.now, route.FirstByte{Lease: p.Lease})
	old := t.open[t.next]
	t.open[t.next] = p.Lease
	t.next = (t.next + 1) % len(t.open)
	if old != 0 {
		t.r.Observe(t.now, route.Finished{Lease: old, Usage: fleet.Usage{PromptTokens: 2400, OutputTokens: 100}})
	}
}

var sessions, tenants = numbered("s", 1000), numbered("t", 1000)

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// BenchmarkScale measures a request from decision to end, for fleets, numbers of conversations and prompts of all
// sizes. It reports the median of decisions, which other processes of the machine hardly change, and the live heap.
func BenchmarkScale(b *testing.B) {
	run := func(name string, endpoints, conversations, blocks int) {
		b.Run(name, func(b *testing.B) {
			t := newTalk(endpoints, conversations, blocks)
			if name == refusedBefore {
				t.refuse(endpoints)
			}
			var heap runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&heap)
			t.took = make([]time.Duration, 0, 1<<20)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				t.turn(i * 7919 % conversations)
			}
			slices.Sort(t.took)
			b.ReportMetric(float64(t.took[len(t.took)/2].Nanoseconds()), "ns/decision")
			b.ReportMetric(float64(heap.HeapAlloc>>20), "MB")
		})
	}
	for _, n := range []int{4, 16, 64, 256, 1000} {
		run(fmt.Sprintf("endpoints/%d", n), n, 10_000, talkBlocks)
	}
	for _, n := range []int{1000, 10_000, 100_000, 1_000_000} {
		run(fmt.Sprintf("conversations/%d", n), 16, n, talkBlocks)
	}
	run(refusedBefore, 1000, 10_000, talkBlocks)
	for _, kB := range []int{10, 100, 500} {
		run(fmt.Sprintf("prompt/%dkB", kB), 1000, 1000, kB<<10/fleet.BlockBytes)
	}
}
