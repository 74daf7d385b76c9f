package backlog

import (
	"slices"
	"time"
)

// Engines compute prompts in order of arrival, and nothing can be taken back from their queues: behind one prompt of 100,000 tokens a
// hundred short ones wait for seconds. So an endpoint is given no more prompts than keep it busy; the others wait in a queue of the router's,
// and the shortest goes first. Smith's rule, which Dynamo offers for its router's queue too (--router-queue-policy wspt): it makes the mean
// wait as short as it can be. None is overtaken any more once it has waited for Queue.Patience times its own time.

// Queue says how the router queues an endpoint's prompts. The zero value queues none: all are sent as they come.
type Queue struct {
	Ahead    time.Duration // work of prompts that an endpoint is given in advance; 0 for no queue
	Patience float64       // times its own time that a prompt lets shorter ones go first at most; default DefaultPatience
}

// The defaults where prompts are queued.
const (
	DefaultAhead    = 500 * time.Millisecond
	DefaultPatience = 5
)

const (
	onItsWay  = 10 * time.Millisecond // that a request may take to the engine once it is sent
	stepLeast = 2048                  // tokens of prompts that an engine computes in one step at least: vLLM's default max_num_batched_tokens when it serves, on smaller GPUs
)

// line is the jobs that wait at the router for their turn at an endpoint.
type line struct {
	jobs   []uint32
	tokens int64     // that they compute
	sentAt time.Time // when one of them was sent last
}

// queues reports whether a job waits at the router: the endpoint is busy, or others wait.
func (t *Table) queues(now time.Time, e *endpoint, j *Job, rates Rates) bool {
	return t.cfg.Queue.Ahead > 0 && j.MayQueue && (len(e.line.jobs) > 0 || t.busy(now, e, j.Slot, rates))
}

// busy reports whether an endpoint that computes in order has as much to compute as it is to be given in advance. It is always given the
// tokens of one step: short prompts are computed together.
func (t *Table) busy(now time.Time, e *endpoint, slot int, rates Rates) bool {
	if !rates.InOrder(slot) {
		return false
	}
	p, perToken := &e.prompts, rates.MsPerToken(slot)
	sure := float64(float64(p.ahead) * perToken)
	left := min(max(sure, Ms(p.until.Sub(now))), float64(float64(p.ahead+p.wholes.tokens)*perToken))
	return left > max(Ms(t.cfg.Queue.Ahead), float64(stepLeast*perToken))
}

func (t *Table) enqueue(e *endpoint, n uint32, j *Job) {
	j.Queued = true
	t.queued++
	e.line.jobs = append(e.line.jobs, n)
	e.line.tokens += j.Prefill
}

func (t *Table) dequeue(e *endpoint, n uint32, j *Job) {
	t.queued--
	i := slices.Index(e.line.jobs, n)
	e.line.jobs = slices.Delete(e.line.jobs, i, i+1)
	e.line.tokens -= j.Prefill
	j.Queued = false
}

// priority of a prompt of so many ms that has waited so long; the least goes first.
func (t *Table) priority(prefillMs float64, waited time.Duration) float64 {
	return prefillMs - Ms(waited)/t.cfg.Queue.Patience
}

// Dispatched is a job that was sent when its turn came.
type Dispatched struct {
	N    uint32
	Slot int
	Ms   float64 // that its prompt takes
}

// Dispatch sends the queued jobs whose turn has come and appends them to a slice.
func (t *Table) Dispatch(now time.Time, rates Rates, to []Dispatched) []Dispatched {
	if t.queued == 0 {
		return to
	}
	for _, slot := range t.order {
		e := t.endpoints.Get(slot)
		for len(e.line.jobs) > 0 {
			n, ok := t.next(now, e, slot, rates)
			if !ok {
				break
			}
			t.dequeue(e, n, t.jobs.Get(int(n)))
			e.line.sentAt = now
			to = append(to, Dispatched{n, slot, t.Send(now, n, rates)})
		}
	}
	return to
}

// next is the job whose turn it is at an endpoint; ok is false while it is nobody's.
func (t *Table) next(now time.Time, e *endpoint, slot int, rates Rates) (n uint32, ok bool) {
	if t.busy(now, e, slot, rates) {
		return 0, false
	}
	perToken := rates.MsPerToken(slot)
	first, least, took := (*Job)(nil), 0.0, 0.0
	for _, i := range e.line.jobs {
		j := t.jobs.Get(int(i))
		own := float64(float64(j.Prefill) * perToken)
		if p := t.priority(own, now.Sub(j.Opened)); first == nil || p < least {
			n, first, least, took = i, j, p, own
		}
	}
	if took > Ms(t.cfg.Queue.Ahead) && now.Sub(e.line.sentAt) < onItsWay && e.prompts.streams+len(e.prompts.wholes.open) > 0 {
		return 0, false // those in front of a long prompt must not arrive after it
	}
	return n, true
}

// ahead is the queue in front of a new prompt of so many ms: its time and how many jobs. The others are behind.
func (t *Table) ahead(now time.Time, e *endpoint, own, perToken float64) (n int, ms float64, behind int) {
	for _, i := range e.line.jobs {
		j := t.jobs.Get(int(i))
		took := float64(float64(j.Prefill) * perToken)
		if t.priority(took, now.Sub(j.Opened)) > own {
			continue
		}
		n, ms = n+1, ms+took
	}
	return n, ms, len(e.line.jobs) - n
}
