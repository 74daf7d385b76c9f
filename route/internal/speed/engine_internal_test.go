package speed

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// site is the accounts and the speeds of some endpoints, which are told of requests in the order in which a router
// tells them.
type site struct {
	*testing.T
	now     time.Time
	backlog *backlog.Table
	*Table
	next uint32
}

func newSite(t *testing.T, endpoints int, queues backlog.Config) *site {
	queues.Patience, queues.Promote = 5, time.Minute
	s := &site{T: t, now: time.Unix(1_000_000, 0), Table: New(0)}
	s.backlog = backlog.New(queues, s.Reader)
	for slot := range endpoints {
		s.backlog.AddEndpoint(slot)
		s.AddEndpoint(slot)
	}
	return s
}

// open opens a job, and sends it unless it is queued.
func (s *site) open(w backlog.Work) (n uint32, queued bool) {
	n, s.next = s.next, s.next+1
	rates := s.Reader
	if w.MsPerToken = rates.MsPerToken(w.Slot); w.Leg == fleet.LegDecode {
		w.MsPerToken = rates.Transfer(s.now, w.Slot).MsPerToken
	}
	j := s.backlog.Open(s.now, n, w)
	if queued = j.Queued; !queued {
		s.backlog.Send(s.now, n)
	}
	s.Entered(s.now, j)
	return n, queued
}

// first is the first byte of a job's answer.
func (s *site) first(n uint32) {
	j := s.backlog.Computed(s.now, n)
	if s.Computed(s.now, j); j.Timed {
		s.backlog.Rebase(s.now, j.Slot)
	}
}

// end ends a job.
func (s *site) end(n uint32, o fleet.Outcome, u fleet.Usage) {
	j := s.backlog.Close(s.now, n, o, u.OutputTokens)
	s.Ended(s.now, j, o == fleet.OK, &u)
}

// used is the usage of an answer to a prompt of which nothing was cached.
func used(prompt, answer int) fleet.Usage {
	return fleet.Usage{PromptTokens: prompt, OutputTokens: answer, CachedKnown: true}
}

// wait is how long a new prompt is expected to wait at an endpoint.
func (s *site) wait(slot int) float64 {
	return s.backlog.Use(s.now, &pick.Endpoint{Slot: slot}, 0).WaitMs
}

// idle fails if anything is left of jobs that have ended.
func (s *site) idle() {
	s.Helper()
	for slot := range s.endpoints.Len() {
		if err := s.backlog.Audit(slot); err != nil {
			s.Errorf("endpoint %d: %v", slot, err)
		}
		if err := s.Audit(slot); err != nil {
			s.Errorf("endpoint %d: %v", slot, err)
		}
	}
}

func within(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

// serial is an engine that computes prompts one after another: fixed ms for one that finds it idle, and tokens at a
// rate.
type serial struct {
	*site
	free   time.Time // when it has computed all that it was sent
	rate   float64   // tokens a second
	fixed  time.Duration
	stream bool
}

func newSerial(t *testing.T, rate float64, stream bool) *serial {
	return &serial{site: newSite(t, 1, backlog.Config{}), rate: rate, fixed: 8 * time.Millisecond, stream: stream}
}

// send sends a prompt, and returns when it will be computed.
func (s *serial) send(tokens int) (n uint32, computed time.Time) {
	n, _ = s.open(backlog.Work{Class: fleet.Turn, Stream: s.stream, PromptTokens: tokens, OutputTokens: 20})
	if !s.free.After(s.now) {
		s.free = s.now.Add(s.fixed)
	}
	s.free = s.free.Add(time.Duration(float64(tokens) / s.rate * 1e9))
	return n, s.free
}

// answer plays an answer at 5 ms a token, from when its prompt is computed.
func (s *serial) answer(n uint32, computed time.Time, prompt, answer int) {
	done := computed.Add(time.Duration(answer-1) * 5 * time.Millisecond)
	if s.now = done; s.stream {
		s.now = computed
	}
	s.first(n)
	s.now = done
	s.end(n, fleet.OK, used(prompt, answer))
}

// turns plays so many turns with a second between them.
func (s *serial) turns(n, prompt, answer int) {
	for range n {
		job, at := s.send(prompt)
		s.answer(job, at, prompt, answer)
		s.now = s.now.Add(time.Second)
	}
}

// wantRate checks the learnt prefill rate.
func (s *serial) wantRate(share float64) {
	s.Helper()
	if got := 1000 / s.OwnMsPerToken(0); !within(got, s.rate, share) {
		s.Errorf("%.0f tokens/s were learnt, the engine does %.0f", got, s.rate)
	}
}

// kind is how an engine computes prompts.
type kind struct {
	each   time.Duration // per token of a prompt that is computed alone
	beside int           // prompts computed concurrently
	apart  bool          // each of these as if alone
	last   bool          // latest first
}

// The kinds: vLLM, llama-server with four slots in one batch or one by one, and a fake that does not compute.
var (
	inTurn  = kind{each: 100 * time.Microsecond, beside: 1}
	inSlots = kind{each: 440 * time.Microsecond, beside: 4}
	latest  = kind{each: 440 * time.Microsecond, beside: 1, last: true}
	atOnce  = kind{each: 100 * time.Microsecond, beside: 1 << 20, apart: true}
)

// engine is an engine of some kind. It answers with one token when it has computed a prompt.
type engine struct {
	*site
	kind
	prompts []computing
	asked   map[uint32]time.Time
	took    time.Duration // the sum of all times to first token
	done    int           // prompts computed
}

// computing is a prompt at the engine.
type computing struct {
	n    uint32
	left time.Duration // if nothing else were computed
}

func newEngine(t *testing.T, ahead time.Duration, k kind) *engine {
	return &engine{site: newSite(t, 1, backlog.Config{Ahead: ahead}), kind: k, asked: map[uint32]time.Time{}}
}

// ask reports whether a prompt is queued.
func (e *engine) ask(tokens int) (queued bool) {
	n, queued := e.open(backlog.Work{Class: fleet.Turn, Stream: true, PromptTokens: tokens, MayQueue: true})
	if e.asked[n] = e.now; !queued {
		e.compute(n)
	}
	return queued
}

func (e *engine) compute(n uint32) {
	p, at := computing{n, time.Duration(e.backlog.Job(n).Prefill) * e.each}, len(e.prompts)
	if e.last {
		at = 0
	}
	e.prompts = slices.Insert(e.prompts, at, p)
}

// run lets time pass.
func (e *engine) run(d time.Duration) {
	for until := e.now.Add(d); ; {
		now, share := e.prompts[:min(len(e.prompts), e.beside)], time.Duration(1)
		if !e.apart {
			share = time.Duration(len(now))
		}
		which, step := -1, until.Sub(e.now)
		for i, p := range now {
			if after := p.left * share; after <= step && (which < 0 || after < step) {
				which, step = i, after
			}
		}
		for i := range now {
			now[i].left -= step / share
		}
		if e.now = e.now.Add(step); which < 0 {
			return
		}
		n := now[which].n
		e.prompts = slices.Delete(e.prompts, which, which+1)
		e.took, e.done = e.took+e.now.Sub(e.asked[n]), e.done+1
		e.first(n)
		e.end(n, fleet.OK, used(int(e.backlog.Job(n).Prefill), 1))
		for _, d := range e.backlog.Dispatch(e.now, nil) {
			e.compute(d.N)
		}
	}
}
