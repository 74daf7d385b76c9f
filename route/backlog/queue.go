package backlog

import (
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Engines compute prompts in order of arrival, and a sent prompt cannot be withdrawn: behind a prompt of 100,000 tokens a
// hundred short ones wait for seconds. So an endpoint is sent only enough prompts to stay busy; the others wait in the router's
// queue, shortest first. This is Smith's rule, which minimises the mean wait; Dynamo's router offers it too
// (--router-queue-policy wspt). A prompt is not overtaken once it has waited for Queue.Patience times its own prefill time.
// Keys are fixed on arrival, so that several routers keep one order, and each sends its own job when that is first.

// Queue configures the router's queues. The zero value queues nothing: all prompts are sent at once.
type Queue struct {
	Ahead    time.Duration // work sent to an endpoint in advance; 0 for no queue
	Patience float64       // times its own prefill time during which a prompt can be overtaken; default DefaultPatience
	Promote  time.Duration // wait after which a request counts as of the next higher priority; default DefaultPromote
	Most     int           // most requests queued at all endpoints together; 0 for no limit
}

// The defaults where prompts are queued.
const (
	DefaultAhead    = 500 * time.Millisecond
	DefaultPatience = 5
	DefaultPromote  = 30 * time.Second
)

const (
	aloneRate = 0.02                   // weight of a job in Table.alone
	mostKept  = 10 * time.Second       // how long an engine's limit counts that its reports showed
	passOver  = 200 * time.Millisecond // how long an endpoint may lack work because another router does not send its first job
	onItsWay  = 10 * time.Millisecond  // allowance for a request's way to the engine
	stepLeast = 2048                   // minimum prompt tokens per engine step: vLLM's default max_num_batched_tokens when serving on smaller GPUs
)

// line is an endpoint's queue at the routers.
type line struct {
	jobs    []waiting
	foreign int       // of these, those queued at other routers
	tokens  int64     // tokens to compute
	alone   int64     // tokens of memory to take, see Job
	sentAt  time.Time // when a job was last sent
	idle    time.Time // since when the endpoint lacks work while another router has the first job; zero otherwise
	awaited uint32    // that job
	ranked  [2]int    // number of jobs with low and with high priority
}

// waiting is what each decision reads of a queued job, close together: there may be thousands.
type waiting struct {
	n        uint32
	priority fleet.Priority
	most     int32 // its tenant's running jobs at most; 0 for no limit
	key      float64
	prefill  int64
	weighed  int64 // of prefill, for its tenant
	tenant   *tenant
	opened   time.Time
}

// atLimit is Table.atLimit.
func (q *waiting) atLimit() bool { return q.most > 0 && q.tenant.running >= int(q.most) }

// queues reports whether a job is queued: the endpoint is busy, or others are queued. If the endpoint lacks work, a job need
// not wait for other routers' jobs that it precedes.
func (t *Table) queues(now time.Time, e *endpoint, j *Job, rates Rates) bool {
	if !j.MayQueue {
		return false
	}
	j.Key = t.key(now, float64(float64(j.Prefill)*rates.MsPerToken(j.Slot)))
	return !t.startable(now, e, j) || t.cfg.Queue.Ahead > 0 && (t.busy(now, e, j.Slot, rates) || t.anyStartable(now, e) && !t.goesFirst(now, e, j))
}

// goesFirst reports whether a job that is not queued would precede the first one of another router.
func (t *Table) goesFirst(now time.Time, e *endpoint, j *Job) bool {
	if e.line.foreign == 0 {
		return false
	}
	_, first := t.first(now, e, false)
	return first != nil && t.before(now, &e.line, j, first)
}

// anyStartable reports whether a queued job waits for its endpoint alone.
func (t *Table) anyStartable(now time.Time, e *endpoint) bool {
	for i := range e.line.jobs {
		if t.startable(now, e, t.jobs.Get(int(e.line.jobs[i].n))) {
			return true
		}
	}
	return false
}

// startable reports whether a job's tenant may have one more at the engine. What waits inside an engine is served in order of
// arrival, so a tenant that takes much more than its share waits at the router while the engine is full.
func (t *Table) startable(now time.Time, e *endpoint, j *Job) bool {
	return !t.atLimit(j) && !t.yields(now, e, j)
}

// yields reports whether a job waits since the engine is full and its tenant has used much more than the others.
func (t *Table) yields(now time.Time, e *endpoint, j *Job) bool {
	return t.cfg.Queue.Ahead > 0 && t.tenants.greedy(t.used(j)) && e.full(now)
}

// atLimit reports whether the job's tenant has reached its limit of running jobs.
func (t *Table) atLimit(j *Job) bool {
	most := j.Standing.Running
	if most <= 0 {
		return false
	}
	x := t.tenants.of[j.Tenant]
	return x != nil && x.running >= most
}

// busy reports whether an endpoint that computes in order has enough prompts to compute. It may always have the tokens of one
// step: short prompts are computed together.
func (t *Table) busy(now time.Time, e *endpoint, slot int, rates Rates) bool {
	if t.cfg.Queue.Ahead <= 0 || !rates.InOrder(slot) {
		return false
	}
	p, perToken := &e.prompts, rates.MsPerToken(slot)
	sure := float64(float64(p.ahead) * perToken)
	left := min(max(sure, Ms(p.until.Sub(now))), float64(float64(p.ahead+p.wholes.tokens)*perToken))
	return left > max(Ms(t.cfg.Queue.Ahead), float64(stepLeast*perToken))
}

// full reports whether the requests at an engine take all its places or memory, as far as these are known, or are as many as
// those that it computed when others had to wait.
func (e *endpoint) full(now time.Time) bool {
	n := e.sent()
	return n > 0 && (e.places > 0 && n >= e.places || e.memory > 0 && e.alone-e.line.alone >= e.memory ||
		e.most > 0 && n >= e.most && now.Sub(e.mostAt) < mostKept)
}

func (t *Table) enqueue(now time.Time, e *endpoint, n uint32, j *Job) {
	j.Queued, j.AtLimit = true, t.atLimit(j)
	j.Greedy = !j.AtLimit && t.yields(now, e, j)
	if j.Foreign {
		e.line.foreign++
		t.foreign++
	} else {
		t.queued++
	}
	j.tenant.queued++
	e.line.jobs = append(e.line.jobs, waiting{
		n: n, priority: j.Standing.Priority, most: int32(min(max(0, j.Standing.Running), math.MaxInt32)), key: j.Key,
		prefill: j.Prefill, weighed: weighed(j.Prefill, j.Standing.Share), tenant: j.tenant, opened: j.Opened,
	})
	e.line.tokens += j.Prefill
	e.line.alone += j.alone
	e.line.rank(j.Standing.Priority, 1)
}

func (t *Table) dequeue(e *endpoint, n uint32, j *Job) {
	if j.Foreign {
		e.line.foreign--
		t.foreign--
	} else {
		t.queued--
	}
	j.tenant.queued--
	i := slices.IndexFunc(e.line.jobs, func(q waiting) bool { return q.n == n })
	e.line.jobs = slices.Delete(e.line.jobs, i, i+1)
	if n == e.line.awaited { // the next one gets as long
		e.line.idle = time.Time{}
	}
	e.line.tokens -= j.Prefill
	e.line.alone -= j.alone
	e.line.rank(j.Standing.Priority, -1)
	j.Queued = false
}

// takeOut removes a job from the queue to send it.
func (t *Table) takeOut(now time.Time, e *endpoint, n uint32, j *Job) {
	t.dequeue(e, n, j)
	e.line.sentAt, e.line.idle = now, time.Time{}
}

// key is the sort key of a prompt with this prefill time that arrives at this time; the least goes first.
func (t *Table) key(came time.Time, prefillMs float64) float64 {
	return prefillMs + float64(came.Add(t.ahead).UnixMicro())/1000/t.cfg.Queue.Patience
}

// SetClock sets how far this router's clock is behind the common one.
func (t *Table) SetClock(ahead time.Duration) { t.ahead = ahead }

// Dispatched is a job that was sent from the queue.
type Dispatched struct {
	N    uint32
	Slot int
	Ms   float64 // expected prefill time
}

// Dispatch sends the queued jobs that are due and appends them to to.
func (t *Table) Dispatch(now time.Time, rates Rates, to []Dispatched) []Dispatched {
	if t.queued == 0 {
		return to
	}
	t.tenants.halve(now.Add(t.ahead)) // so that all routers compare the same
	for _, slot := range t.order {
		e := t.endpoints.Get(slot)
		for len(e.line.jobs) > 0 {
			n, ok := t.next(now, e, slot, rates)
			if !ok {
				break
			}
			t.takeOut(now, e, n, t.jobs.Get(int(n)))
			to = append(to, Dispatched{n, slot, t.Send(now, n, rates)})
		}
	}
	return to
}

// next is the job to send to an endpoint; ok is false if there is none, or if it belongs to another router. A router that does
// not send its job, because it is gone or unreachable, is waited for no longer than passOver.
func (t *Table) next(now time.Time, e *endpoint, slot int, rates Rates) (n uint32, ok bool) {
	if t.busy(now, e, slot, rates) {
		e.line.idle = time.Time{}
		return 0, false
	}
	n, first := t.first(now, e, false)
	if first != nil && first.Foreign {
		if e.line.idle.IsZero() {
			e.line.idle, e.line.awaited = now, n
		}
		if now.Sub(e.line.idle) < passOver {
			return 0, false
		}
		n, first = t.first(now, e, true)
	}
	if first == nil {
		return 0, false
	}
	took := float64(float64(first.Prefill) * rates.MsPerToken(slot))
	if took > Ms(t.cfg.Queue.Ahead) && now.Sub(e.line.sentAt) < onItsWay && e.prompts.streams+len(e.prompts.wholes.open) > 0 {
		return 0, false // those before a long prompt must not arrive after it
	}
	return n, true
}

// first is the first startable job of an endpoint's queue, of this router's own or of all.
func (t *Table) first(now time.Time, e *endpoint, own bool) (n uint32, first *Job) {
	for k := range e.line.jobs {
		i := e.line.jobs[k].n
		j := t.jobs.Get(int(i))
		if own && j.Foreign || !t.startable(now, e, j) {
			continue
		}
		if first == nil || t.before(now, &e.line, j, first) {
			n, first = i, j
		}
	}
	return n, first
}

// inFront is the part of the queue in front of a new prompt that takes own ms: its number of jobs and its time. behind is the
// number of jobs that the new one delays, without those of tenants served after it anyway.
func (t *Table) inFront(now time.Time, e *endpoint, who Asker, own, perToken float64) (n int, ms float64, behind int) {
	l := &e.line
	if len(l.jobs) == 0 {
		return 0, 0, 0
	}
	key := t.key(now, own)
	if len(t.tenants.of) > 1 || l.ranked != [2]int{} || who.Standing.Priority != fleet.PriorityNormal {
		return t.aheadOfOthers(now, l, who, key, perToken)
	}
	for i := range l.jobs {
		if q := &l.jobs[i]; q.key <= key {
			n, ms = n+1, ms+float64(float64(q.prefill)*perToken)
		}
	}
	return n, ms, len(l.jobs) - n
}
