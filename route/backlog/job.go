package backlog

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Work is what a lease gives an endpoint to do.
type Work struct {
	Slot   int
	Class  fleet.Class
	Leg    fleet.Leg
	Stream bool // its first byte comes when its prompt is computed

	PromptTokens, CachedTokens, OutputTokens int // as predicted
	MaxTokens                                int // the client's bound on the answer; 0 when not stated

	WaitMs, MsPerToken float64 // that were expected in front of it, without those of the link, and of a token of its prompt
	TTFTMs             float64 // that were predicted; 0 when nothing was known
	ReadyMs            float64 // until its prompt is computed elsewhere, of a decode leg
	MayQueue           bool    // it can wait at the router for its turn
}

// Job is the work of one lease and what was seen of it.
type Job struct {
	Work
	incarnation uint32 // of the endpoint when it was opened
	open        bool
	computed    bool // its first byte came
	Queued      bool // it waits at the router
	Stale       bool // another engine is at the address since; set by Computed and Close

	Opened time.Time
	Sent   time.Time // to the engine: at once, or when its turn came
	First  time.Time // byte of the answer; zero before
	Handed time.Time // when what a decode leg needs was on its way

	Prefill, Transfer int64 // tokens that it computes, and tokens of KV cache that come for a decode leg, or leave after a prefill leg
	decode, context   int64 // tokens of its answer, and of all of it

	due     time.Time // when what a decode leg needs is expected to be computed
	overdue time.Time // see Overdue; zero never
	ready   time.Time // when its prompt is expected to be computed, of answers that come as a whole
	left    float64   // tokens of Transfer that are not there yet, once they are on their way
	area    float64   // of the link when they were

	Held          bool    // it may have waited for a place
	Alone         bool    // nothing else was outstanding there when it was sent
	End           int64   // where its prompt ends in the endpoint's queue, in tokens since the first
	Front, Behind float64 // tokens of prompts in front and behind that were computed while it was there, as far as can be told
	Others        int     // that were being answered when its answer began
	Beside        int     // that were being answered when its prompt was computed
	promptMs      float64 // of the endpoint when its answer began

	// Set by Computed. Timed says that the first byte of a stream tells when its prompt was computed.
	Timed        bool
	Between      int64   // tokens of prompts without a stream that were computed since the first byte of the stream before
	Blurred      bool    // its first byte may tell of more than Between and its own prompt
	TransferArea float64 // transfers that shared its link until then, times ms

	// Set by Computed where nothing was cached, else by Close.
	Soon      float64 // tokens of prompts that came behind it within half of its expected time
	SoonKnown bool

	// Set by Close. Paced says that its answer was long enough to tell how fast it came.
	Paced    bool
	PromptMs float64 // ms of prompts that were computed while it was answered
	Left     int     // that are being answered after it
}

// Open enters a job, and has it wait at the router where that is better. Queued of the job says whether it does; else it is to be sent.
func (t *Table) Open(now time.Time, n uint32, w Work, rates Rates) *Job {
	j, e := t.jobs.Get(int(n)), t.endpoints.Get(w.Slot)
	*j = Job{Work: w, incarnation: e.incarnation, open: true, Opened: now}
	switch w.Class {
	case fleet.Turn:
		j.Prefill, j.decode = int64(w.PromptTokens-w.CachedTokens), int64(w.OutputTokens)
		j.context = int64(w.PromptTokens) + j.decode
		switch w.Leg {
		case fleet.LegPrefill:
			j.decode, j.context, j.Transfer = 0, int64(w.PromptTokens), int64(w.PromptTokens)
		case fleet.LegDecode:
			j.Prefill, j.Transfer = 0, int64(w.PromptTokens-w.CachedTokens)
		case fleet.LegWhole:
		}
	case fleet.Embed:
		j.Prefill = int64(w.PromptTokens)
		j.context = j.Prefill
	case fleet.Aside:
	}
	if t.queues(now, e, j, rates) {
		t.enqueue(e, n, j)
	}
	l := &e.load
	l.Requests++
	l.PrefillTokens += j.Prefill
	l.DecodeTokens += j.decode
	l.ContextTokens += j.context
	if w.Leg == fleet.LegDecode {
		l.TransferRequests++
		l.TransferTokens += j.Transfer
		j.due = now.Add(duration(w.ReadyMs))
		e.coming = append(e.coming, n)
	}
	return j
}

// Send enters that the engine gets a job now, and returns how many ms its prompt takes there.
func (t *Table) Send(now time.Time, n uint32, rates Rates) (ms float64) {
	j := t.jobs.Get(int(n))
	e := t.endpoints.Get(j.Slot)
	others := e.sent() - 1
	j.Sent, j.Alone = now, others == 0
	j.Held = e.places > 0 && others >= e.places
	j.overdue = t.overdueAt(j, rates)
	if j.incarnation != e.incarnation || j.Prefill <= 0 {
		return 0
	}
	return e.push(now, n, j)
}

// Transferring notes that a decoder has been asked, and that what it needs has been computed.
func (t *Table) Transferring(now time.Time, n uint32, rates Rates) {
	j := t.jobs.Get(int(n))
	if j.Leg != fleet.LegDecode || j.computed {
		return
	}
	e := t.endpoints.Get(j.Slot)
	t.passes(now, e, j.Slot, rates)
	j.Held = e.places > 0 && e.sent()-len(e.coming) >= e.places
	j.Handed, j.left, j.area = now, float64(j.Transfer), e.link.area
}

// Computed enters the first byte of a job's answer: its prompt is computed. After a Timed one, and once its speed is learnt, Rebase is to
// be called.
func (t *Table) Computed(now time.Time, n uint32, rates Rates) *Job {
	j := t.jobs.Get(int(n))
	e := t.endpoints.Get(j.Slot)
	j.First, j.computed, j.Stale = now, true, j.incarnation != e.incarnation
	l := &e.load
	l.PrefillTokens -= j.Prefill
	switch j.Leg {
	case fleet.LegPrefill:
		l.Requests--
		l.TransferRequests++
		l.TransferTokens += j.Transfer
	case fleet.LegDecode:
		l.TransferRequests--
		l.TransferTokens -= j.Transfer
		t.came(now, e, j.Slot, n, rates)
		j.TransferArea = e.link.area - j.area
	case fleet.LegWhole:
	}
	switch {
	case j.Stale || j.Prefill <= 0:
	case j.Stream:
		e.prompting(now)
		t.computedStream(e, j)
	default:
		t.leaves(now, e, n, j, rates)
	}
	j.Others, j.promptMs = max(0, e.decoding()-1), e.prompting(now)
	j.Beside = e.decoding()
	if j.Leg == fleet.LegWhole {
		j.Beside = j.Others // without itself
	}
	return j
}

// Close takes a job off the accounts. ok says that it was answered in full, with so many tokens. The job is valid until its number is
// opened again.
func (t *Table) Close(now time.Time, n uint32, ok bool, outputTokens int, rates Rates) *Job {
	j := t.jobs.Get(int(n))
	e := t.endpoints.Get(j.Slot)
	j.open, j.Stale = false, j.incarnation != e.incarnation
	t.leave(now, e, n, j, rates)
	if j.Queued {
		t.dequeue(e, n, j)
		e.load.PrefillTokens -= j.Prefill
	} else if !j.computed {
		e.load.PrefillTokens -= j.Prefill
		switch {
		case j.Stale || j.Prefill <= 0:
		case j.Stream:
			e.prompting(now)
			t.withdrawStream(now, e, j, rates)
		default:
			t.leaves(now, e, n, j, rates)
		}
	}
	e.load.DecodeTokens -= j.decode
	e.load.ContextTokens -= j.context
	if !j.Stream || j.First.IsZero() || j.Stale || !ok {
		return j
	}
	if j.CachedTokens > 0 {
		j.Soon, j.SoonKnown = e.prompts.soon(j)
	}
	if j.Paced = j.Leg != fleet.LegPrefill && j.Class == fleet.Turn && outputTokens >= LeastAnswer; j.Paced {
		j.PromptMs, j.Left = e.prompting(now)-j.promptMs, e.decoding()
	}
	return j
}

// leave takes a job that ends off the count of requests. A prefill leg is outstanding until its prompt is computed, and in transfer until
// its decoder has the KV cache. A decode leg is outstanding from the beginning, since it will come, and in transfer until its first byte.
func (t *Table) leave(now time.Time, e *endpoint, n uint32, j *Job, rates Rates) {
	l := &e.load
	inTransfer := j.Leg != fleet.LegWhole && j.computed == (j.Leg == fleet.LegPrefill)
	if inTransfer {
		l.TransferRequests--
		l.TransferTokens -= j.Transfer
		if j.Leg == fleet.LegDecode {
			t.came(now, e, j.Slot, n, rates)
		}
	}
	if !inTransfer || j.Leg == fleet.LegDecode {
		l.Requests--
	}
}
