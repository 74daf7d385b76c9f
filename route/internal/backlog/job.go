package backlog

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// Work is the work of a lease at an endpoint.
type Work struct {
	Slot   int
	Class  fleet.Class
	Leg    fleet.Leg
	Stream bool // streamed: its first byte comes when its prompt is computed

	PromptTokens, CachedTokens, OutputTokens int // as predicted
	FarTokens                                int // of CachedTokens, those that a second tier has; see pick.Cached
	FetchTokens                              int // the work of fetching those, in prompt tokens
	MaxTokens                                int // the client's limit on the answer; 0 for none

	WaitMs, MsPerToken float64 // expected time in front of it, without the link, and per prompt token
	TTFTMs             float64 // predicted time to first token; 0 unknown
	ReadyMs            float64 // of a decode leg: until its prompt is computed elsewhere
	SharedTokens       int     // of its prompt, those that all others have in common; see pick.View.Shared
	MayQueue           bool    // it can be queued at the router
	Asker                      // its owner

	Origin, Seq uint64  // the router that placed it, and how many it had placed before: the tie-break for equal keys
	Foreign     bool    // placed and sent by another router:
	QueuedThere bool    // it is queued there
	Key         float64 // its key in that queue
}

// Asker is what the queue needs to know about a request's owner.
type Asker struct {
	Tenant     string
	QueueClass fleet.QueueClass
}

// Job is the work of one lease and what was observed of it.
type Job struct {
	Work
	n        uint32 // of its lease
	open     bool
	computed bool    // its first byte has come
	counted  bool    // among its tenant's running jobs, of which there is a limit
	Queued   bool    // it is in a router's queue, ordered by key
	AtLimit  bool    // it was queued since its tenant had reached its limit of running jobs
	Greedy   bool    // it was queued since the engine was full and its tenant had used much more than the others
	tenant   *tenant // nil for an auxiliary request
	arrival  uint64  // if queued: its place in the order of arrival

	Opened time.Time
	Sent   time.Time // to the engine: at once, or when dispatched
	First  time.Time // first byte of the answer; zero before
	Handed time.Time // of a decode leg: when its KV transfer began

	// tokens it computes, and tokens of KV cache to be transferred to a decode leg or from a prefill leg
	Prefill, Transfer int64
	decode, context   int64 // tokens of its answer, and its total tokens
	unshared          int64 // of context, those not shared with all others

	due      time.Time // of a decode leg: when its prompt is expected to be computed
	overdue  time.Time // see Overdue; zero never
	ready    time.Time // of non-streamed answers: when the prompt is expected to be computed
	linkArea float64   // of the link at that time

	WaitedForPlace            bool    // it may have waited for a place at the engine
	WasIdle                   bool    // nothing else was outstanding there when it was sent
	End                       int64   // position of its prompt's end in the endpoint's queue, in tokens since the first
	TokensBefore, TokensAfter float64 // estimated tokens of prompts in front and behind computed during its stay
	Concurrent                int     // requests being answered when its answer began
	promptMs                  float64 // of the endpoint when its answer began

	// Set by Computed. Timed means that a stream's first byte shows when its prompt was computed.
	Timed        bool
	Between      int64   // tokens of non-streamed prompts computed since the previous first byte of a stream
	Ambiguous    bool    // its first byte may cover more than Between and its own prompt
	TransferArea float64 // number of transfers sharing its link until then, integrated over ms

	// Set by Computed if nothing was cached, else by Close.
	Soon      float64 // tokens of prompts that arrived within half of its expected prefill time after it
	SoonKnown bool

	// Set by Close. DecodeTimed means that the answer was long enough for a sample of decode speed.
	DecodeTimed   bool
	PromptMs      float64 // ms of prefill during its answer
	StillDecoding int     // requests still being answered after it
}

// Open adds a job and queues it at the router if that is better, see Job.Queued. Otherwise it must be sent.
func (t *Table) Open(now time.Time, n uint32, w Work) *Job {
	t.clock.start(now)
	j, e := t.jobs.Grow(int(n)), t.endpoints.Get(w.Slot)
	*j = newJob(now, w)
	j.n, j.open = n, true
	if w.Foreign { // other routers do not tell
		j.unshared = int64(float64(float64(j.context) * float64(t.unsharedShare)))
	} else if j.unshared = max(0, j.context-int64(w.SharedTokens)); j.context > 0 {
		t.unsharedShare.Add(fit.Usual, float64(j.unshared)/float64(j.context))
	}
	if w.Class != fleet.Auxiliary {
		j.tenant = t.tenants.enter(t.clock.common(now), w.Tenant)
	}
	if w.Foreign && j.QueuedThere || !w.Foreign && t.mustQueue(now, e, j) {
		t.enqueue(now, e, j)
	}
	l := &e.load
	j.count(l, 1)
	l.PrefillTokens += j.Prefill
	l.DecodeTokens += j.decode
	l.ContextTokens += j.context
	e.unshared += j.unshared
	if w.Leg == fleet.LegDecode {
		l.TransferRequests++
		l.TransferTokens += j.Transfer
		j.due = now.Add(fleet.Duration(w.ReadyMs))
		e.pendingTransfers = append(e.pendingTransfers, pending{
			job: n, stream: w.Stream, tokens: float64(j.Transfer), due: j.due,
		})
	}
	return j
}

func newJob(now time.Time, w Work) Job {
	j := Job{Work: w, Opened: now}
	switch w.Class {
	case fleet.Turn:
		j.Prefill, j.decode = int64(w.PromptTokens-w.CachedTokens+w.FetchTokens), int64(w.OutputTokens)
		j.context = int64(w.PromptTokens) + j.decode
		switch w.Leg {
		case fleet.LegPrefill:
			j.decode, j.context, j.Transfer = 0, int64(w.PromptTokens), int64(w.PromptTokens)
		case fleet.LegDecode:
			j.Prefill, j.Transfer = 0, int64(w.PromptTokens-w.CachedTokens)
		case fleet.LegUnsplit:
		}
	case fleet.Embed:
		j.Prefill = int64(w.PromptTokens)
		j.context = j.Prefill
	case fleet.Auxiliary: // it takes no place to wait for
		j.MayQueue, j.QueuedThere = false, false
	}
	return j
}

// count adds by to the number of requests like the job.
func (j *Job) count(l *fleet.Load, by int) {
	l.Requests += by
	if j.Class == fleet.Auxiliary {
		l.Auxiliary += by
	}
}

// Send records that the engine gets a job now, of this router or another, and returns the expected ms of its prefill.
func (t *Table) Send(now time.Time, n uint32) (ms float64) {
	j := t.jobs.Get(int(n))
	e := t.endpoints.Get(j.Slot)
	if j.Queued {
		t.dequeue(e, j)
		e.queue.sentAt, e.queue.idleSince = now, time.Time{}
	}
	if j.Class == fleet.Auxiliary {
		j.Sent = now
		return 0
	}
	others := e.sent() - 1
	j.Sent, j.WasIdle = now, others == 0
	if j.QueueClass.MaxRunning > 0 && j.Class == fleet.Turn && j.Leg != fleet.LegDecode {
		j.counted = true
		j.tenant.running++
	}
	t.tenants.charge(t.clock.common(now), j.tenant, j.Prefill, j.QueueClass.Share)
	j.WaitedForPlace = e.places > 0 && others >= e.places
	j.overdue = t.overdueAt(j)
	if j.Prefill <= 0 {
		return 0
	}
	return e.push(now, j)
}

// Transferring records that a prompt has been computed and its decoder asked.
func (t *Table) Transferring(now time.Time, n uint32) {
	j := t.jobs.Get(int(n))
	if j.Leg != fleet.LegDecode || j.computed {
		return
	}
	e := t.endpoints.Get(j.Slot)
	t.advanceLink(now, e)
	j.WaitedForPlace = e.places > 0 && e.sent()-len(e.pendingTransfers) >= e.places
	j.Handed, j.linkArea = now, e.link.area
	for i := range e.pendingTransfers {
		if p := &e.pendingTransfers[i]; p.job == n {
			p.begun, p.left = true, p.tokens
		}
	}
}

// Computed records the first byte of a job's answer. After a Timed one, and once its speed is learnt, call Rebase.
func (t *Table) Computed(now time.Time, n uint32) *Job {
	j := t.jobs.Get(int(n))
	e := t.endpoints.Get(j.Slot)
	j.First, j.computed = now, true
	l := &e.load
	l.PrefillTokens -= j.Prefill
	switch j.Leg {
	case fleet.LegPrefill:
		j.count(l, -1)
		l.TransferRequests++
		l.TransferTokens += j.Transfer
	case fleet.LegDecode:
		l.TransferRequests--
		l.TransferTokens -= j.Transfer
		t.transferArrived(now, e, j)
		j.TransferArea = e.link.area - j.linkArea
	case fleet.LegUnsplit:
	}
	switch {
	case j.Prefill <= 0:
	case j.Stream:
		e.prompting(now)
		t.computedStream(e, j)
	default:
		t.removeNonStreaming(now, e, j)
	}
	j.Concurrent, j.promptMs = max(0, e.decoding(e.sent())-1), e.prompting(now)
	return j
}

// Close removes a job that ended so, with this many tokens answered. The job is valid until its number is reused.
func (t *Table) Close(now time.Time, n uint32, outcome fleet.Outcome, outputTokens int) *Job {
	j := t.jobs.Get(int(n))
	e := t.endpoints.Get(j.Slot)
	j.open = false
	if j.counted {
		j.counted = false
		j.tenant.running--
	}
	t.removeRequest(now, e, j)
	if j.Queued {
		t.dequeue(e, j)
		e.load.PrefillTokens -= j.Prefill
	} else if !j.computed {
		e.load.PrefillTokens -= j.Prefill
		switch {
		case j.Prefill <= 0:
		case j.Stream:
			e.prompting(now)
			t.withdrawStream(now, e, j)
		default:
			t.removeNonStreaming(now, e, j)
		}
	}
	e.load.DecodeTokens -= j.decode
	e.load.ContextTokens -= j.context
	e.unshared -= j.unshared
	if e.room > 0 && outcome == fleet.OK {
		e.widen()
	}
	if j.tenant != nil {
		t.tenants.leave(j.tenant)
	}
	if !j.Stream || j.First.IsZero() || outcome != fleet.OK {
		return j
	}
	if j.CachedTokens > 0 {
		j.Soon, j.SoonKnown = e.prompts.soon(j)
	}
	if j.DecodeTimed = j.Leg != fleet.LegPrefill && j.Class == fleet.Turn &&
		outputTokens >= LeastAnswer; j.DecodeTimed {
		j.PromptMs, j.StillDecoding = e.prompting(now)-j.promptMs, e.decoding(e.sent())
	}
	return j
}

// removeRequest removes an ending job from the count of requests. A prefill leg is outstanding until its prompt is
// computed, and in transfer until its decoder has the KV cache. A decode leg is outstanding from the beginning, and in
// transfer until its first byte.
func (t *Table) removeRequest(now time.Time, e *endpoint, j *Job) {
	l := &e.load
	inTransfer := j.Leg != fleet.LegUnsplit && j.computed == (j.Leg == fleet.LegPrefill)
	if inTransfer {
		l.TransferRequests--
		l.TransferTokens -= j.Transfer
		if j.Leg == fleet.LegDecode {
			t.transferArrived(now, e, j)
		}
	}
	if !inTransfer || j.Leg == fleet.LegDecode {
		j.count(l, -1)
	}
}
