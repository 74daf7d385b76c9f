package backlog

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// engine is a table with one endpoint that computes one prompt after another at 0.1 ms per token.
type engine struct {
	*Table
	rapid.TB
	now  time.Time
	next uint32

	prompts  []uint32 // at the engine
	begun    time.Time
	sent     []uint32
	computed []uint32
	waits    map[uint32]bool // queued at the router
}

func newEngine(t rapid.TB, c Config) *engine {
	c.Patience, c.Promote = 5, time.Minute
	e := &engine{Table: New(c, rates(0.1)), TB: t, now: time.Unix(1000, 0), waits: map[uint32]bool{}}
	e.AddEndpoint(0)
	return e
}

// ask opens a job, and sends it unless it is queued.
func (e *engine) ask(tokens int, stream bool) (n uint32) {
	n, e.next = e.next, e.next+1
	if e.Open(e.now, n, Work{
		Class: fleet.Turn, Stream: stream, PromptTokens: tokens, OutputTokens: 20, MsPerToken: 0.1, MayQueue: true,
	}).Queued {
		e.waits[n] = true
		return n
	}
	e.Send(e.now, n)
	e.compute(n)
	return n
}

func (e *engine) compute(n uint32) {
	e.sent = append(e.sent, n)
	if e.prompts = append(e.prompts, n); len(e.prompts) == 1 {
		e.begun = e.now
	}
}

// first is the first byte of a job's answer.
func (e *engine) first(n uint32) {
	if j := e.Computed(e.now, n); j.Timed {
		e.Rebase(e.now, 0)
	}
}

// end ends a job, and sends the engine what is due then.
func (e *engine) end(n uint32, o fleet.Outcome) {
	if i := slices.Index(e.prompts, n); i >= 0 {
		e.prompts = slices.Delete(e.prompts, i, i+1)
	}
	delete(e.waits, n)
	e.Close(e.now, n, o, 1)
	for _, d := range e.Dispatch(e.now, nil) {
		if !e.waits[d.N] {
			e.Fatalf("%d is sent, which was not queued", d.N)
		}
		delete(e.waits, d.N)
		for other := range e.waits {
			if a, b := e.key(other), e.key(d.N); a < b-1e-3 { // keys have microseconds
				e.Fatalf("%d is sent before %d: %.1f against %.1f", d.N, other, b, a)
			}
		}
		e.compute(d.N)
	}
}

// key is the order of the queue: what a prompt takes, less a fifth of how long it has waited, in ms.
func (e *engine) key(n uint32) float64 {
	j := e.Job(n)
	return float64(j.Prefill)/10 - fleet.Ms(e.now.Sub(j.Opened))/5
}

// run lets time pass. Answers have one token.
func (e *engine) run(d time.Duration) {
	for until := e.now.Add(d); ; {
		if len(e.prompts) == 0 {
			e.now = until
			return
		}
		n := e.prompts[0]
		done := e.begun.Add(time.Duration(e.Job(n).Prefill) * 100 * time.Microsecond)
		if done.After(until) {
			e.now = until
			return
		}
		e.now, e.begun, e.computed = done, done, append(e.computed, n)
		e.first(n)
		e.end(n, fleet.OK)
	}
}

func (e *engine) wantSent(want ...uint32) {
	e.Helper()
	if !slices.Equal(e.sent, want) {
		e.Errorf("%v were sent, want %v", e.sent, want)
	}
}

// wait is how long a prompt of so many tokens waits that arrives now, in ms.
func (e *engine) wait(tokens int) float64 {
	return e.Expect(
		&Newcomer{Now: e.now, PromptTokens: tokens}, &pick.Endpoint{}, &pick.Cached{}, 0, &pick.Pace{MsPerToken: 0.1},
	).WaitMs
}

func (e *engine) wantWait(what string, tokens int, want float64) {
	e.Helper()
	if got := e.wait(tokens); !near(got, want) {
		e.Errorf("%s: it is to wait %.1f ms, want %.1f", what, got, want)
	}
}

func (e *engine) idle() {
	e.Helper()
	if err := e.Audit(0); err != nil || e.Queued() != 0 {
		e.Errorf("left: %v, %d queued", err, e.Queued())
	}
}

// aSecond keeps at most one second of prompts at an engine.
var aSecond = Config{Ahead: time.Second}

// TestQueue: an engine is sent a second of work; the rest is queued, shortest first, until a prompt has waited long
// enough. One that leaves the queue is not sent.
func TestQueue(t *testing.T) {
	e := newEngine(t, aSecond)
	a, b := e.ask(10_000, true), e.ask(20_000, true) // a takes a second: no more than that is ahead of b
	e.wantWait("behind both", 60_000, 3000)
	long := e.ask(60_000, true)
	e.wantWait("in front of a longer one", 1000, 3000)
	e.wantWait("behind a shorter one", 61_000, 9000)
	short, leaves, middle := e.ask(1000, true), e.ask(2000, true), e.ask(5000, true)
	e.end(leaves, fleet.ClientGone)
	e.run(time.Second)
	e.wantSent(a, b) // b takes two seconds
	e.run(2 * time.Second)
	e.wantSent(a, b, short, middle) // a long one may overtake those sent at the same time
	e.run(100 * time.Millisecond)
	e.wantSent(a, b, short, middle, long)
	e.run(time.Minute)
	if want := []uint32{a, b, short, middle, long}; !slices.Equal(e.computed, want) {
		t.Errorf("%v were computed, want %v", e.computed, want)
	}
	e.idle()
}

// TestQueueIsPatient: short prompts that keep arriving overtake a long one for five times its own time, and no longer.
func TestQueueIsPatient(t *testing.T) {
	e := newEngine(t, aSecond)
	e.ask(30_000, true)
	long := e.ask(20_000, true) // 2 s: sent once it has waited for 10 s minus 5 times the others' time
	began := e.now
	for !slices.Contains(e.computed, long) && e.now.Sub(began) < time.Minute {
		e.ask(2500, true) // 0.25 s each, as fast as they are computed
		e.run(250 * time.Millisecond)
	}
	if took := e.now.Sub(began); took < 9*time.Second || took > 14*time.Second {
		t.Errorf("a prompt of 2 s waits %v, want about 10 s", took)
	}
}

// TestQueueAgainstModel: whatever requests come and leave, an engine with less than a second of prompts is sent more,
// and always the first in order.
func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEngine(t, aSecond)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 6:
				e.ask(rapid.IntRange(1, 30_000).Draw(t, "tokens"), true)
			case what < 9:
				e.run(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			case e.next > 0:
				if n := uint32(rapid.IntRange(0, int(e.next)-1).Draw(t, "leaves")); !slices.Contains(e.computed, n) &&
					(e.waits[n] || slices.Contains(e.prompts, n)) {
					e.end(n, fleet.ClientGone)
				}
			}
			ahead, long := int64(0), false // a long one is not sent together with others
			for _, n := range e.prompts {
				ahead += e.Job(n).Prefill
			}
			for n := range e.waits {
				long = long || e.Job(n).Prefill > 9000
			}
			if len(e.waits) > 0 && (ahead == 0 || ahead < 9000 && !long) {
				t.Fatalf("%d are queued for an engine that has %d tokens to compute", len(e.waits), ahead)
			}
		}
		e.run(time.Hour)
		e.idle()
	})
}

// TestLateIsWaitedFor: an overdue prompt still counts as in front, but not for ever.
func TestLateIsWaitedFor(t *testing.T) {
	e := newEngine(t, Config{})
	e.ask(10_000, true) // takes a second
	e.wantWait("at first", 100, 1000)
	e.now = e.now.Add(600 * time.Millisecond)
	e.wantWait("after 600 ms", 100, 400)
	e.now = e.now.Add(900 * time.Millisecond)
	e.wantWait("half a second late it may be as late again", 100, 500)
	e.now = e.now.Add(time.Hour)
	e.wantWait("an hour late", 100, 4000)
}

// TestNonStreamingInTheQueue: prompts of non-streamed answers count as in front until they are known or expected to be
// computed.
func TestNonStreamingInTheQueue(t *testing.T) {
	for name, play := range map[string]func(e *engine){
		"behind a stream": func(e *engine) {
			stream := e.ask(1000, true)
			e.ask(9000, false)
			e.now = e.now.Add(100 * time.Millisecond)
			e.first(stream)
			e.wantWait("the stream's prompt is computed", 100, 900)
			e.now = e.now.Add(600 * time.Millisecond)
			e.wantWait("600 ms later", 100, 300)
			e.now = e.now.Add(600 * time.Millisecond)
			e.wantWait("it should be computed", 100, 0)
		},
		"in front of a stream": func(e *engine) {
			e.ask(9000, false)
			stream := e.ask(1000, true)
			e.now = e.now.Add(500 * time.Millisecond) // the engine is faster than predicted
			e.first(stream)
			e.wantWait("all are computed", 100, 0)
		},
		"answered early": func(e *engine) {
			early := e.ask(9000, false)
			e.ask(1800, false)
			e.now = e.now.Add(100 * time.Millisecond)
			e.first(early)
			e.end(early, fleet.OK)
			e.wantWait("what came later is left", 100, 180)
		},
		"failed": func(e *engine) {
			fails := e.ask(9000, false)
			e.ask(1800, false)
			e.end(fails, fleet.EngineError)
			e.wantWait("the other one is left", 100, 180)
		},
		"late": func(e *engine) {
			for range 8 {
				e.ask(1000, false)
			}
			e.now = e.now.Add(20 * time.Second)
			e.wantWait("none of eight has been answered", 100, 3200)
			e.ask(1000, false)
			e.wantWait("one more", 100, 3600)
			e.now = e.now.Add(time.Hour)
			e.wantWait("an hour later", 100, 3600)
		},
		"a long answer": func(e *engine) {
			e.ask(1000, false)
			e.now = e.now.Add(300 * time.Millisecond) // 20 tokens would take 200 ms
			e.wantWait("it may be longer than others", 100, 0)
		},
	} {
		t.Run(name, func(t *testing.T) { play(newEngine(t, Config{})) })
	}
}

// TestPlacesAreWaitedFor: where all places are taken, a prompt waits for one, as long whether the answers in front are
// streamed or not; requests still in prefill keep theirs longer.
func TestPlacesAreWaitedFor(t *testing.T) {
	for _, stream := range []bool{true, false} {
		e := newEngine(t, Config{})
		e.Describe(0, 4, 0, false)
		for range 6 {
			e.ask(1800, stream)
		}
		// Three must end: the third prompt is computed after 630 ms in the mean, and its answer takes 500.
		e.wantWait("behind six prompts and four places", 100, 1130)
		for range 6 {
			e.now = e.now.Add(180 * time.Millisecond)
			e.first(e.prompts[0])
			e.prompts = e.prompts[1:]
		}
		e.wantWait("behind six answers and four places", 100, 375)
	}
}

// TestMemoryIsWaitedFor: what the requests in front, and the prompt with its answer, take more of the memory than there
// is comes free as answers end; half of the answers in front is still to come.
func TestMemoryIsWaitedFor(t *testing.T) {
	const each = 1000 // tokens of a prompt; its answer has 20, and takes 500 ms
	for _, tt := range []struct {
		name     string
		memory   int64
		requests int
		takes    int
		want     float64
	}{
		{"unknown", 0, 8, each, 0},
		{"room for all", 8*1010 + each, 8, each, 0},
		{"room for half of them", (8*1010 + each) / 2, 8, each, 500},
		{"room for a quarter of them", (8*1010 + each) / 4, 8, each, 1500},
		{"more than the memory has, alone", each / 2, 0, each, 0},
	} {
		e := newEngine(t, Config{})
		e.Describe(0, 0, tt.memory, false)
		for range tt.requests {
			n := e.ask(each, true)
			e.first(n)
			e.prompts = e.prompts[:0]
		}
		at := &pick.Cached{CachedTokens: tt.takes, Resident: int64(tt.requests) * (each + 20)}
		ask := &Newcomer{Now: e.now, PromptTokens: tt.takes}
		pace := &pick.Pace{MsPerToken: 0.1}
		got := e.Expect(ask, &pick.Endpoint{}, at, 0, pace)
		if !near(got.WaitMs, tt.want) {
			t.Errorf("%s: it is to wait %.1f ms, want %.1f", tt.name, got.WaitMs, tt.want)
		}
		own := e.Use(e.now, &pick.Endpoint{}, at.Resident).WaitMs
		if busy := tt.want > 0; busy != (own > 0) {
			t.Errorf("%s: what comes now is to wait %.1f ms", tt.name, own)
		}
	}
}
