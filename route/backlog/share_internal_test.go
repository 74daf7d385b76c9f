package backlog

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
)

// queueing is a table with one endpoint that computes one prompt after another at 1 ms per token.
type queueing struct {
	Table
	now   time.Time
	rates steady
	next  uint32
}

func newQueueing(q Queue) *queueing {
	q.Ahead = time.Millisecond
	s := &queueing{Table: New(Config{Queue: q}), now: time.Unix(1000, 0), rates: rates(1)}
	s.Enter(0)
	return s
}

// ask opens a job that may be queued, and sends it if it is not.
func (s *queueing) ask(tokens int, who Asker) uint32 {
	n := s.next
	s.next++
	if !s.Open(s.now, n, Work{Class: fleet.Turn, Stream: true, PromptTokens: tokens, MayQueue: true, Asker: who}, s.rates).Queued {
		s.Send(s.now, n, s.rates)
	}
	return n
}

// end closes a job and returns the jobs dispatched then.
func (s *queueing) end(n uint32) (sent []uint32) {
	s.Close(s.now, n, true, 0, s.rates)
	for _, d := range s.Dispatch(s.now, s.rates, nil) {
		sent = append(sent, d.N)
	}
	return sent
}

// model is the documented order, over the whole history.
type model struct {
	now     float64
	had     map[string]float64
	waiting []uint32
}

func (m *model) send(j *Job, part float64) {
	m.now = max(m.now, m.had[j.Tenant])
	m.had[j.Tenant] += weighed(j.Prefill, part)
}

// TestShareAgainstModel: the next prompt is that of a naive model, busy tenants get their share to within one prompt, and an
// empty queue remembers nothing.
func TestShareAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newQueueing(Queue{Patience: 5, Promote: 30 * time.Second})
		tenants := []string{"", "a", "b", "c"}
		part := map[string]float64{"": 0, "a": 1, "b": 2, "c": 0.5}
		m := model{had: map[string]float64{}}
		running := s.ask(5000, Asker{})
		waits := func(tenant string) (n int) {
			for _, i := range m.waiting {
				if s.Reader().Job(i).Tenant == tenant {
					n++
				}
			}
			return n
		}
		choose := func() uint32 {
			high, best := fleet.PriorityNormal, -1
			for _, i := range m.waiting {
				high = max(high, s.Reader().Job(i).Standing.Priority)
			}
			stated := false
			for _, i := range m.waiting {
				stated = stated || s.Reader().Job(i).Standing.Priority != fleet.PriorityNormal
			}
			rank := func(j *Job) int {
				if !stated {
					return 0
				}
				up := int(s.now.Sub(j.Opened) / (30 * time.Second))
				return max(int(j.Standing.Priority), min(int(high), int(j.Standing.Priority)+min(2, up)))
			}
			key := func(j *Job) float64 { return float64(j.Prefill) - Ms(s.now.Sub(j.Opened))/5 }
			for k, i := range m.waiting {
				if best < 0 {
					best = k
					continue
				}
				a, b := s.Reader().Job(i), s.Reader().Job(m.waiting[best])
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
			if rapid.IntRange(0, 2).Draw(t, "what") > 0 || len(m.waiting) == 0 {
				who := Asker{Tenant: rapid.SampledFrom(tenants).Draw(t, "tenant")}
				if who.Standing.Share = part[who.Tenant]; priorities {
					who.Standing.Priority = fleet.Priority(rapid.IntRange(-1, 1).Draw(t, "priority"))
				}
				if waits(who.Tenant) == 0 {
					m.had[who.Tenant] = max(m.had[who.Tenant], m.now)
				}
				m.waiting = append(m.waiting, s.ask(rapid.IntRange(2100, 9000).Draw(t, "tokens"), who))
				continue
			}
			if rapid.IntRange(0, 5).Draw(t, "leaves") == 0 {
				k := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "who")
				n := m.waiting[k]
				m.waiting = append(m.waiting[:k], m.waiting[k+1:]...)
				if sent := s.end(n); len(sent) != 0 {
					t.Fatalf("%v are sent to a busy endpoint", sent)
				}
			} else {
				want := choose()
				sent := s.end(running)
				if len(sent) != 1 || sent[0] != want {
					t.Fatalf("%v go, want %d", sent, want)
				}
				running = want
				j := s.Reader().Job(want)
				m.send(j, part[j.Tenant])
				for _, x := range tenants {
					if waits(x) > 0 && !priorities && m.had[x] > m.now+9000/0.5 {
						t.Fatalf("%q has had more than a prompt more than the others: %v, at %v", x, m.had, m.now)
					}
				}
			}
			if len(m.waiting) == 0 {
				m.now, m.had = 0, map[string]float64{}
			}
		}
		for len(m.waiting) > 0 {
			want := choose()
			if sent := s.end(running); len(sent) != 1 {
				t.Fatalf("%v go, want %d", sent, want)
			} else if running = sent[0]; running != want {
				t.Fatalf("%d goes, want %d", running, want)
			}
			j := s.Reader().Job(want)
			m.send(j, part[j.Tenant])
		}
		s.end(running)
		if err := s.Reader().Audit(0); err != nil || s.Reader().Queued() != 0 || len(s.waiting) != 0 {
			t.Fatalf("left: %v, %v", err, s.waiting)
		}
	})
}

// TestShareForgets: tenants that leave are forgotten while the queue lasts.
func TestShareForgets(t *testing.T) {
	s := newQueueing(Queue{Patience: 5})
	running := s.ask(5000, Asker{})
	for range 40 {
		s.ask(100_000, Asker{Tenant: "stays", Standing: fleet.Standing{Priority: fleet.PriorityLow}})
	}
	for i := range 5000 {
		s.ask(3000, Asker{Tenant: fmt.Sprint("once", i)})
		sent := s.end(running)
		if len(sent) != 1 {
			t.Fatalf("%v go", sent)
		}
		running = sent[0]
		if n := len(s.endpoints.Get(0).line.shares.of); n > 2+17*mostIdle {
			t.Fatalf("%d tenants are remembered", n)
		}
	}
}

// TestRunning: a tenant never has more requests at engines than its limit, and the next one starts when one ends.
func TestRunning(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second} {
		s := newQueueing(Queue{Patience: 5})
		s.cfg.Queue.Ahead = ahead
		two := Asker{Tenant: "a", Standing: fleet.Standing{Running: 2}}
		a, b, c, d := s.ask(10, two), s.ask(10, two), s.ask(30, two), s.ask(20, two)
		other := s.ask(10, Asker{Tenant: "b"})
		queued := func(want ...bool) {
			t.Helper()
			for i, n := range []uint32{a, b, c, d, other} {
				if got := s.Reader().Job(n).Queued; got != want[i] {
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
		if err := s.Reader().Audit(0); err != nil || len(s.running) != 0 {
			t.Errorf("ahead %v: left %v, %v", ahead, err, s.running)
		}
	}
}

// TestFull: the queue is full for those at their limit, and no longer when a request has left.
func TestFull(t *testing.T) {
	s := newQueueing(Queue{Patience: 5, Most: 3})
	one := Asker{Tenant: "a", Standing: fleet.Standing{Waiting: 1}}
	want := func(who Asker, full, own bool) {
		t.Helper()
		if f, o := s.Reader().Full(who); f != full || o != own {
			t.Errorf("%q: full %t, its own %t; want %t, %t", who.Tenant, f, o, full, own)
		}
	}
	running := s.ask(9000, Asker{})
	want(one, false, false)
	first := s.ask(10, one)
	want(one, true, true)
	want(Asker{Tenant: "b"}, false, false)
	s.ask(10, Asker{Tenant: "b"})
	s.ask(10, Asker{})
	want(Asker{}, true, false)
	if !s.Reader().Queues(s.now, 0, Asker{}, s.rates) {
		t.Error("nobody would wait")
	}
	s.end(first)
	want(one, false, false)
	s.end(running)
	s.now = s.now.Add(time.Second)
	if s.Dispatch(s.now, s.rates, nil); s.Reader().Queued() != 0 {
		t.Error("they still wait")
	}
}
