package backlog

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// queueing is a table with one endpoint that computes one prompt after another at 1 ms per token.
type queueing struct {
	*Table
	now  time.Time
	next uint32
}

func newQueueing(c Config) *queueing {
	c.Ahead = time.Millisecond
	c.Promote = cmp.Or(c.Promote, 30*time.Second)
	s := &queueing{Table: New(c, rates(1)), now: time.Unix(1000, 0)}
	s.AddEndpoint(0)
	return s
}

// ask opens a job that may be queued, and sends it if it is not.
func (s *queueing) ask(tokens int, who Asker) uint32 {
	n := s.next
	s.next++
	if !s.Open(s.now, n, Work{
		Class: fleet.Turn, Stream: true, PromptTokens: tokens, MayQueue: true, Asker: who,
	}).Queued {
		s.Send(s.now, n)
	}
	return n
}

// end closes a job and returns the jobs dispatched then.
func (s *queueing) end(n uint32) (sent []uint32) {
	s.Close(s.now, n, fleet.OK, 0)
	for _, d := range s.Dispatch(s.now, nil) {
		sent = append(sent, d.N)
	}
	return sent
}

// model is the documented order.
type model struct {
	had     map[string]int64
	halved  int64
	open    map[string]int
	waiting []uint32
}

// at halves what tenants had as often as it is due.
func (m *model) at(now time.Time) {
	for ; m.halved < now.UnixNano()/int64(halfLife); m.halved++ {
		for x := range m.had {
			m.had[x] /= 2
		}
	}
	for x, had := range m.had {
		if had == 0 && m.open[x] == 0 {
			delete(m.had, x)
		}
	}
}

// TestShareAgainstModel: the next prompt is that of a naive model, and nothing is left in the end.
func TestShareAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newQueueing(Config{Patience: 5, Promote: 30 * time.Second})
		tenants := []string{"", "a", "b", "c"}
		part := map[string]float64{"": 0, "a": 1, "b": 2, "c": 0.5}
		m := model{
			had: map[string]int64{"": 5000}, open: map[string]int{"": 1}, halved: s.now.UnixNano() / int64(halfLife),
		}
		running := s.ask(5000, Asker{})
		send := func(n uint32) {
			m.open[s.Job(running).Tenant]--
			running = n
			j := s.Job(n)
			m.had[j.Tenant] += weighed(j.Prefill, part[j.Tenant])
		}
		choose := func() uint32 {
			high, best := fleet.PriorityNormal, -1
			for _, i := range m.waiting {
				high = max(high, s.Job(i).QueueClass.Priority)
			}
			stated := false
			for _, i := range m.waiting {
				stated = stated || s.Job(i).QueueClass.Priority != fleet.PriorityNormal
			}
			rank := func(j *Job) int {
				if !stated {
					return 0
				}
				up := int(s.now.Sub(j.Opened) / (30 * time.Second))
				return max(int(j.QueueClass.Priority), min(int(high), int(j.QueueClass.Priority)+min(2, up)))
			}
			key := func(j *Job) float64 { return float64(j.Prefill) - fleet.Ms(s.now.Sub(j.Opened))/5 }
			for k, i := range m.waiting {
				if best < 0 {
					best = k
					continue
				}
				a, b := s.Job(i), s.Job(m.waiting[best])
				switch ra, rb := rank(a), rank(b); {
				case ra != rb:
					if ra > rb {
						best = k
					}
				case m.had[a.Tenant] != m.had[b.Tenant]:
					if m.had[a.Tenant] < m.had[b.Tenant] {
						best = k
					}
				case key(a) < key(b):
					best = k
				}
			}
			n := m.waiting[best]
			m.waiting = append(m.waiting[:best], m.waiting[best+1:]...)
			return n
		}
		priorities := rapid.Bool().Draw(t, "priorities")
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "ms")) * time.Millisecond)
			m.at(s.now)
			if rapid.IntRange(0, 2).Draw(t, "what") > 0 || len(m.waiting) == 0 {
				who := Asker{Tenant: rapid.SampledFrom(tenants).Draw(t, "tenant")}
				if who.QueueClass.Share = part[who.Tenant]; priorities {
					who.QueueClass.Priority = fleet.Priority(rapid.IntRange(-1, 1).Draw(t, "priority"))
				}
				m.open[who.Tenant]++
				m.waiting = append(m.waiting, s.ask(rapid.IntRange(2100, 9000).Draw(t, "tokens"), who))
				continue
			}
			if rapid.IntRange(0, 5).Draw(t, "leaves") == 0 {
				k := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "who")
				n := m.waiting[k]
				m.waiting = append(m.waiting[:k], m.waiting[k+1:]...)
				m.open[s.Job(n).Tenant]--
				if sent := s.end(n); len(sent) != 0 {
					t.Fatalf("%v are sent to a busy endpoint", sent)
				}
			} else {
				want := choose()
				sent := s.end(running)
				if len(sent) != 1 || sent[0] != want {
					t.Fatalf("%v go, want %d", sent, want)
				}
				send(want)
			}
		}
		for len(m.waiting) > 0 {
			want := choose()
			sent := s.end(running)
			if len(sent) != 1 || sent[0] != want {
				t.Fatalf("%v go, want %d", sent, want)
			}
			send(want)
		}
		s.end(running)
		if err := s.Audit(0); err != nil || s.Queued() != 0 || s.tenants.open != 0 {
			t.Fatalf("left: %v, %d tenants", err, s.tenants.open)
		}
		for name, x := range s.tenants.of {
			if x.open != 0 || x.queued != 0 || x.running != 0 {
				t.Fatalf("left of %q: %+v", name, x)
			}
		}
	})
}

// TestHalvedBeforeCompared: what tenants have used is halved, and rounded, before their prompts are compared, also if
// none has come since.
func TestHalvedBeforeCompared(t *testing.T) {
	s := newQueueing(Config{Patience: 5})
	running := s.ask(5000, Asker{})
	for _, x := range []struct {
		tenant string
		tokens int
	}{{"a", 2102}, {"b", 2100}} {
		n := s.ask(x.tokens, Asker{Tenant: x.tenant})
		if sent := s.end(running); len(sent) != 1 || sent[0] != n {
			t.Fatalf("%v go, want %d", sent, n)
		}
		running = n
	}
	older := s.ask(2100, Asker{Tenant: "a"})
	s.now = s.now.Add(3 * time.Millisecond)
	s.ask(2100, Asker{Tenant: "b"})
	s.now = s.now.Add(2 * halfLife) // both have had 525 now
	if sent := s.end(running); len(sent) != 1 || sent[0] != older {
		t.Errorf("%v go, want %d, the older one", sent, older)
	}
}

// TestLightTenantFirst: a tenant with little traffic precedes one with much each time it comes, also to an endpoint
// where it has not waited before; a minute later what was used does not matter.
func TestLightTenantFirst(t *testing.T) {
	s := newQueueing(Config{Patience: 5})
	running := s.ask(5000, Asker{Tenant: "loud"})
	for range 20 {
		s.ask(5000, Asker{Tenant: "loud"})
	}
	for range 5 {
		quiet := s.ask(6000, Asker{Tenant: "quiet"})
		for range 2 { // the loud tenant has had more than the quiet one at any time
			sent := s.end(running)
			if len(sent) != 1 {
				t.Fatalf("%v go", sent)
			}
			running = sent[0]
			if running == quiet {
				break
			}
		}
		if running != quiet {
			t.Fatalf("%q precedes", s.Job(running).Tenant)
		}
		s.now = s.now.Add(time.Second)
	}
	s.now = s.now.Add(10 * time.Minute)
	s.ask(6000, Asker{Tenant: "quiet"})
	if sent := s.end(running); len(sent) != 1 || s.Job(sent[0]).Tenant != "loud" {
		t.Fatalf("%v go after ten minutes, want the shorter prompt", sent)
	}
}

// TestTenantsAreForgotten: tenants that leave are forgotten after a while, and at once where there are too many.
func TestTenantsAreForgotten(t *testing.T) {
	s := newQueueing(Config{Patience: 5})
	running := s.ask(5000, Asker{})
	for range 40 {
		s.ask(100_000, Asker{Tenant: "stays", QueueClass: fleet.QueueClass{Priority: fleet.PriorityLow}})
	}
	for i := range 5000 {
		s.ask(3000, Asker{Tenant: fmt.Sprint("once", i)})
		sent := s.end(running)
		if len(sent) != 1 {
			t.Fatalf("%v go", sent)
		}
		running = sent[0]
		if n := len(s.tenants.of); n > 3+bound.Many {
			t.Fatalf("%d tenants are remembered", n)
		}
	}
	s.now = s.now.Add(20 * halfLife)
	running = s.end(running)[0]
	if n := len(s.tenants.of); n > 2 {
		t.Errorf("%d tenants are remembered after twenty half-lives", n)
	}
	if s.Job(running).Tenant != "stays" {
		t.Errorf("%q goes", s.Job(running).Tenant)
	}
}

// TestGreedyTenant: while the places or the memory of an endpoint are taken, a tenant that has used much more than the
// others waits at the router. The others are sent, and so is a tenant that is alone.
func TestGreedyTenant(t *testing.T) {
	for _, c := range []struct {
		name    string
		places  int
		memory  int64
		running int // by the engine's report that others wait in it
		shared  int
		others  []int // tokens that other tenants have used; that one has used 1,000
		sent    int   // of its five further requests of 100 tokens
	}{
		{"nothing is known", 0, 0, 0, 0, []int{400}, 5},
		{"places", 2, 0, 0, 0, []int{400}, 2},
		{"places, of three tenants", 2, 0, 0, 0, []int{400, 500}, 2},
		{"places, its share", 2, 0, 0, 0, []int{400, 1200}, 5},
		{"places, of one tenant", 2, 0, 0, 0, nil, 5},
		{"memory", 0, 300, 0, 0, []int{400}, 3},
		{"memory, of one tenant", 0, 300, 0, 0, nil, 5},
		{"memory, most is shared", 0, 300, 0, 90, []int{400}, 5},
		{"reported", 0, 0, 4, 0, []int{400}, 4},
		{"reported, of one tenant", 0, 0, 4, 0, nil, 5},
		{"a request larger than the memory", 0, 50, 0, 0, []int{400}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newQueueing(Config{Patience: 5, StaleAfter: 10 * time.Second})
			s.cfg.Ahead = time.Hour
			s.Describe(0, c.places, c.memory, false)
			s.Reported(s.now, 0, &fleet.LoadReport{Running: c.running, Waiting: 3})
			ask := func(tenant string, tokens, cached int) (sent bool) {
				n := s.next
				s.next++
				j := s.Open(s.now, n, Work{
					Class: fleet.Turn, Stream: true, PromptTokens: tokens, CachedTokens: cached, SharedTokens: cached,
					MayQueue: true, Asker: Asker{Tenant: tenant},
				})
				if j.Greedy != j.Queued {
					t.Errorf("queued %t, as greedy %t", j.Queued, j.Greedy)
				}
				if j.Queued {
					return false
				}
				s.Send(s.now, n)
				return true
			}
			for i, tokens := range append([]int{1000}, c.others...) {
				ask(fmt.Sprint(i), tokens, 0)
				s.end(s.next - 1)
			}
			first, sent := s.next, 0
			for range 5 {
				if ask("0", 100, c.shared) {
					sent++
				}
			}
			if sent != c.sent {
				t.Errorf("%d requests are sent, want %d", sent, c.sent)
			}
			if !ask("1", 100, 0) {
				t.Error("another tenant waits too")
			}
			s.end(s.next - 1)
			for n := first; n < s.next-1; n++ { // one ends, and another may start
				if s.Job(n).Queued {
					t.Fatalf("request %d waits where nothing runs", n)
				}
				s.end(n)
			}
			if err := s.Audit(0); err != nil || s.Queued() != 0 {
				t.Errorf("left: %v, %d", err, s.Queued())
			}
		})
	}
}

// TestRunning: a tenant never has more requests at engines than its limit, and the next one starts when one ends.
func TestRunning(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second} {
		s := newQueueing(Config{Patience: 5})
		s.cfg.Ahead = ahead
		two := Asker{Tenant: "a", QueueClass: fleet.QueueClass{MaxRunning: 2}}
		a, b, c, d := s.ask(10, two), s.ask(10, two), s.ask(30, two), s.ask(20, two)
		other := s.ask(10, Asker{Tenant: "b"})
		queued := func(want ...bool) {
			t.Helper()
			for i, n := range []uint32{a, b, c, d, other} {
				if got := s.Job(n).Queued; got != want[i] {
					t.Errorf("ahead %v: job %d waits: %t, want %t", ahead, i, got, want[i])
				}
			}
		}
		queued(false, false, true, true, false)
		if sent := s.end(a); len(sent) != 1 || sent[0] != d {
			t.Errorf("ahead %v: %v go, want the shorter of two", ahead, sent)
		}
		s.end(c) // it leaves
		s.end(b)
		s.end(d)
		s.end(other)
		if err := s.Audit(0); err != nil || s.tenants.of["a"].running != 0 {
			t.Errorf("ahead %v: left %v, %+v", ahead, err, s.tenants.of["a"])
		}
	}
}

// TestFull: the queue is full for those at their limit, and no longer when a request has left.
func TestFull(t *testing.T) {
	s := newQueueing(Config{Patience: 5, Most: 3})
	one := Asker{Tenant: "a", QueueClass: fleet.QueueClass{MaxWaiting: 1}}
	want := func(who Asker, full, own bool) {
		t.Helper()
		if f, o, _ := s.Full(who, 0, 0); f != full || o != own {
			t.Errorf("%q: full %t, its own %t; want %t, %t", who.Tenant, f, o, full, own)
		}
	}
	running := s.ask(9000, Asker{})
	want(one, false, false)
	first := s.ask(10, one)
	want(one, true, true)
	want(Asker{Tenant: "b"}, false, false)
	for _, tt := range []struct {
		who       Asker
		elsewhere [2]int // in admission: of all, and of the asker
		full, own bool
		waiting   int
	}{
		{Asker{Tenant: "b"}, [2]int{1}, false, false, 2},
		{Asker{Tenant: "b"}, [2]int{2}, true, false, 3},
		{Asker{Tenant: "b", QueueClass: one.QueueClass}, [2]int{1, 1}, true, true, 1},
		{one, [2]int{1, 1}, true, true, 2},
	} {
		if full, own, waiting := s.Full(tt.who, tt.elsewhere[0], tt.elsewhere[1]); full != tt.full || own != tt.own ||
			waiting != tt.waiting {
			t.Errorf("%+v beside %+v: full %t, its own %t, %d wait; want %+v",
				tt.who, tt.elsewhere, full, own, waiting, tt)
		}
	}
	s.ask(10, Asker{Tenant: "b"})
	s.ask(10, Asker{})
	want(Asker{}, true, false)
	if !s.WouldQueue(s.now, Work{Class: fleet.Turn, PromptTokens: 10, MayQueue: true}) {
		t.Error("nobody would wait")
	}
	s.end(first)
	want(one, false, false)
	s.end(running)
	s.now = s.now.Add(time.Second)
	if s.Dispatch(s.now, nil); s.Queued() != 0 {
		t.Error("they still wait")
	}
}

// TestQueuesForeseesOpen: whether a job is to be queued is known before it is opened, whatever is queued here and at
// other routers.
func TestQueuesForeseesOpen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newQueueing(Config{Patience: 5})
		asker := func() Asker {
			return Asker{
				Tenant: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant"), QueueClass: fleet.QueueClass{
					Priority: rapid.SampledFrom([]fleet.Priority{
						fleet.PriorityNormal, fleet.PriorityHigh, fleet.PriorityLow,
					}).Draw(t, "priority"),
					MaxRunning: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "running"),
				},
			}
		}
		work := func() Work {
			return Work{
				Class: fleet.Turn, Stream: true, PromptTokens: rapid.SampledFrom([]int{1, 20, 3000}).Draw(t, "tokens"),
				MayQueue: true, Asker: asker(), Origin: 1,
			}
		}
		var open []uint32
		for range rapid.IntRange(1, 12).Draw(t, "jobs") {
			n := s.next
			s.next++
			w := work()
			if rapid.IntRange(0, 2).Draw(t, "foreign") > 0 {
				w.Foreign, w.MayQueue, w.QueuedThere, w.Origin = true, false, rapid.Bool().Draw(t, "waits"), 2
				w.Key = s.key(s.now, float64(rapid.SampledFrom([]int{1, 20, 3000}).Draw(t, "its tokens")))
				if !s.Open(s.now, n, w).Queued {
					s.Send(s.now, n)
				}
			} else {
				foreseen := s.WouldQueue(s.now, w)
				queued := s.Open(s.now, n, w).Queued
				if queued != foreseen {
					t.Fatalf("%+v is queued: %v, foreseen %v", w, queued, foreseen)
				}
				if !queued {
					s.Send(s.now, n)
				}
			}
			open = append(open, n)
			if rapid.Bool().Draw(t, "one ends") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				s.Close(s.now, open[i], fleet.OK, 0)
				open = append(open[:i], open[i+1:]...)
			}
		}
	})
}

// TestEachIsAwaited: the first job of another router is waited for from when the endpoint lacks work, and so is the
// next one when the first has left the queue for whatever reason.
func TestEachIsAwaited(t *testing.T) {
	for name, leave := range map[string]func(s *queueing, n uint32){
		"closed": func(s *queueing, n uint32) { s.Close(s.now, n, fleet.ClientGone, 0) },
		"answered": func(s *queueing, n uint32) {
			s.Send(s.now, n)
			s.Close(s.now, n, fleet.OK, 0)
		},
	} {
		s := newQueueing(Config{Patience: 5})
		running := s.ask(9000, Asker{})
		own := s.ask(30, Asker{})
		var foreign []uint32
		for i := range 2 {
			s.Open(s.now, s.next, Work{
				Class: fleet.Turn, Stream: true, PromptTokens: 10, Foreign: true, QueuedThere: true,
				Key: float64(i), Origin: 2,
			})
			foreign, s.next = append(foreign, s.next), s.next+1
		}
		s.end(running)
		goes := func(after time.Duration, want ...uint32) {
			t.Helper()
			s.now = s.now.Add(after)
			var sent []uint32
			for _, d := range s.Dispatch(s.now, nil) {
				sent = append(sent, d.N)
			}
			if !slices.Equal(sent, want) {
				t.Errorf("%s: %v go, want %v", name, sent, want)
			}
		}
		goes(150 * time.Millisecond)
		leave(s, foreign[0])
		goes(0)
		goes(150 * time.Millisecond)
		goes(passOver, own)
	}
}

// TestSumsAgainstWalk: what is in front of a prompt, and the job that goes next, are those that a walk through all jobs
// in order of arrival finds, whoever waits.
func TestSumsAgainstWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newQueueing(Config{Patience: 5, Promote: 30 * time.Second})
		s.SetConfig(Config{Ahead: time.Millisecond, Patience: 5, Promote: 30 * time.Second})
		s.Describe(0, 1, 0, false)
		ranked, limited := rapid.Bool().Draw(t, "priorities"), rapid.Bool().Draw(t, "limits")
		asker := func() Asker {
			who := Asker{Tenant: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "tenant")}
			if ranked {
				who.QueueClass.Priority = fleet.Priority(rapid.IntRange(-1, 1).Draw(t, "priority"))
			}
			if limited {
				who.QueueClass.MaxRunning = rapid.IntRange(0, 2).Draw(t, "running")
			}
			who.QueueClass.Share = rapid.SampledFrom([]float64{0, 1, 2, 1e9}).Draw(t, "share")
			return who
		}
		var queued []uint32
		check := func() {
			e, who, own := s.endpoints.Get(0), asker(),
				float64(rapid.SampledFrom([]int{1, 2100, 3000, 9000}).Draw(t, "own"))
			n, tokens, behind := s.walked(queued, who, s.key(s.now, own))
			if gotN, ms, gotBehind := s.jobsBefore(s.now, e, &who, own, 2); gotN != n || ms != 2*float64(tokens) ||
				gotBehind != behind {
				t.Fatalf("%d jobs of %.0f ms in front of %+v, %d behind; want %d of %d, %d",
					gotN, ms, who, gotBehind, n, 2*tokens, behind)
			}
			for _, of := range []whose{ofAllRouters, ofThisRouter} {
				var want *Job
				for _, n := range queued {
					if j := s.jobs.Get(int(n)); (of == ofAllRouters || !j.Foreign) &&
						!s.atLimit(j) && !s.yields(s.now, e, j) && (want == nil || s.before(s.now, &e.queue, j, want)) {
						want = j
					}
				}
				if first := s.first(s.now, e, of); first != want {
					t.Fatalf("%+v goes, want %+v", first, want)
				}
			}
		}
		s.ask(9000, Asker{Tenant: "c", QueueClass: fleet.QueueClass{MaxRunning: 9}}) // which counts
		for range rapid.SampledFrom([]int{10, 60, 600}).Draw(t, "steps") {           // the last for several chunks
			s.now = s.now.Add(time.Duration(max(0, rapid.IntRange(-9, 9).Draw(t, "s"))) * time.Second)
			if i := rapid.IntRange(-2, len(queued)-1).Draw(t, "which"); i >= 0 &&
				rapid.IntRange(0, 4).Draw(t, "one leaves") == 0 {
				s.Close(s.now, queued[i], fleet.ClientGone, 0)
				queued = slices.Delete(queued, i, i+1)
			} else {
				w := Work{
					Class: fleet.Turn, Stream: true,
					PromptTokens: rapid.SampledFrom([]int{2100, 3000, 9000}).Draw(t, "tokens"), Foreign: true,
					QueuedThere: true, Asker: asker(), Origin: 2, Seq: uint64(s.next),
					Key: s.key(s.now, float64(rapid.SampledFrom([]int{2100, 3000, 9000}).Draw(t, "key"))),
				}
				if rapid.Bool().Draw(t, "own") {
					w.Foreign, w.QueuedThere, w.MayQueue, w.Origin = false, false, true, 1
				}
				if s.Open(s.now, s.next, w).Queued {
					queued = append(queued, s.next)
				} else {
					s.Send(s.now, s.next)
				}
				s.next++
			}
			if rapid.IntRange(0, 7).Draw(t, "look") == 0 {
				check()
			}
		}
		check()
	})
}

// walked is what is in front of an asker's prompt: in one pass over the queue.
func (s *queueing) walked(queued []uint32, who Asker, key float64) (n int, tokens int64, behind int) {
	l, turn, passed := &s.endpoints.Get(0).queue, s.tenants.usedBy(who.Tenant), map[string]int64{}
	highest := max(l.highest(), who.QueueClass.Priority)
	inFront := func(j *Job, level bool) bool {
		if p := s.agedPriority(j.QueueClass.Priority, highest, s.now.Sub(j.Opened)); p != who.QueueClass.Priority {
			return p > who.QueueClass.Priority
		}
		return level
	}
	for _, k := range queued {
		switch j := s.jobs.Get(int(k)); {
		case j.Tenant != who.Tenant:
		case inFront(j, j.Key <= key):
			n, tokens, turn = n+1, tokens+j.Prefill, turn+weighed(j.Prefill, j.QueueClass.Share)
		default:
			behind++
		}
	}
	for _, k := range queued {
		j := s.jobs.Get(int(k))
		if j.Tenant == who.Tenant || s.atLimit(j) {
			continue
		}
		if at := s.tenants.usedBy(j.Tenant) + passed[j.Tenant]; inFront(j, at < turn || at == turn && j.Key <= key) {
			n, tokens = n+1, tokens+j.Prefill
			passed[j.Tenant] += weighed(j.Prefill, j.QueueClass.Share)
		}
	}
	return n, tokens, behind
}

// TestDispatchIsComplete: what is left in the queues after an event could not start. What is sent to one endpoint
// changes what the others' tenants are owed.
func TestDispatchIsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newQueueing(Config{Patience: 5, Promote: 30 * time.Second})
		s.cfg.Ahead = rapid.SampledFrom([]time.Duration{time.Millisecond, time.Hour}).Draw(t, "ahead")
		slots := rapid.IntRange(1, 3).Draw(t, "endpoints")
		for slot := range slots {
			if slot > 0 {
				s.AddEndpoint(slot)
			}
			s.Describe(slot, rapid.IntRange(0, 2).Draw(t, "places"), 0, false)
		}
		var open []uint32
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s.now = s.now.Add(time.Duration(max(0, rapid.IntRange(-9, 9).Draw(t, "s"))) * time.Second)
			if i := rapid.IntRange(-6, len(open)-1).Draw(t, "which"); i >= 0 {
				s.Close(s.now, open[i], fleet.OK, 0)
				open = slices.Delete(open, i, i+1)
			} else {
				w := Work{
					Slot: rapid.IntRange(0, slots-1).Draw(t, "slot"), Class: fleet.Turn, Stream: true, MayQueue: true,
					PromptTokens: rapid.SampledFrom([]int{100, 2100, 9000}).Draw(t, "tokens"),
					Asker: Asker{
						Tenant:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"),
						QueueClass: fleet.QueueClass{MaxRunning: rapid.IntRange(0, 3).Draw(t, "running")},
					},
				}
				if !s.Open(s.now, s.next, w).Queued {
					s.Send(s.now, s.next)
				}
				open = append(open, s.next)
				s.next++
			}
			if sent := s.Dispatch(s.now, nil); len(sent) < bound.Step {
				if more := s.Dispatch(s.now, nil); len(more) > 0 {
					t.Fatalf("%v were sent, and then %v at once", sent, more)
				}
			}
		}
	})
}
