package backlog

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Engines compute prompts in order of arrival, and a sent prompt cannot be withdrawn: behind a prompt of 100,000 tokens
// a hundred short ones wait for seconds. So an endpoint is sent only enough prompts to stay busy; the others wait in
// the router's queue, shortest first. This is Smith's rule, which minimises the mean wait; Dynamo's router offers it
// too (--router-queue-policy wspt). A prompt is not overtaken once it has waited for Config.Patience times its own
// prefill time. Keys are fixed on arrival, so that several routers keep one order, and each sends its own job when that
// is first.

const (
	// how long an endpoint may lack work because another router does not send its first job
	passOver = 200 * time.Millisecond
	onItsWay = 10 * time.Millisecond // allowance for a request's way to the engine
	untried  = 2                     // prompts of streams at an endpoint of which it is not known how it computes them
	roomStep = 64                    // one part in this many that it has more room after an answer
	// minimum prompt tokens per engine step: vLLM's default max_num_batched_tokens when serving on smaller GPUs
	stepLeast = 2048
)

// queue is an endpoint's queue at the routers.
type queue struct {
	groups   []*group        // of the tenants whose jobs are queued
	groupAt  map[*tenant]int // where each one's group is
	n        int             // jobs
	foreign  int             // of these, those queued at other routers
	tokens   int64           // tokens to compute
	unshared int64           // tokens of memory to take, see Job
	context  int64           // the same with what is shared with all others
	sentAt   time.Time       // when a job was last sent
	// since when the endpoint lacks work while another router has the first job; zero otherwise
	idleSince  time.Time
	awaitedJob uint32 // that job
	ranked     [2]int // number of jobs with low and with high priority
}

// mustQueue reports whether a job is queued: the endpoint is busy, or others are queued. If the endpoint lacks work, a
// job need not wait for other routers' jobs that it precedes.
func (t *Table) mustQueue(now time.Time, e *endpoint, j *Job) bool {
	if !j.MayQueue {
		return false
	}
	j.Key = t.key(now, float64(float64(j.Prefill)*t.rates.MsPerToken(j.Slot)))
	switch {
	case t.atLimit(j) || t.yields(now, e, j):
		return true
	case t.cfg.Ahead <= 0:
		return false
	case t.saturated(now, e) || !t.fits(e, j):
		return true
	}
	first := t.first(now, e, ofAllRouters)
	return first != nil && (e.queue.foreign == 0 || !t.before(now, &e.queue, j, first))
}

// yields reports whether a job waits since the engine is full and its tenant has used much more than the others: what
// waits inside an engine is served in order of arrival.
func (t *Table) yields(now time.Time, e *endpoint, j *Job) bool {
	return t.cfg.Ahead > 0 && t.tenants.greedy(t.used(j)) && t.full(now, e)
}

// atLimit reports whether the job's tenant has reached its limit of running jobs.
func (t *Table) atLimit(j *Job) bool {
	most := j.QueueClass.MaxRunning
	if most <= 0 {
		return false
	}
	x := t.tenants.of[j.Tenant]
	return x != nil && x.running >= most
}

// saturated reports whether an endpoint that computes in order has enough prompts to compute. It may always have the
// tokens of one step: short prompts are computed together. Until it is known whether it computes in order it may have
// two prompts of streams, whose first bytes show it: with more, too many would wait at a slow engine. Answers that are
// not streamed do not show it, so without streams it may have any number.
func (t *Table) saturated(now time.Time, e *endpoint) bool {
	if t.cfg.Ahead <= 0 {
		return false
	}
	if serial, known := t.rates.InOrder(e.slot); !serial || !known && e.prompts.streams < untried {
		return false
	}
	p, perToken := &e.prompts, t.rates.MsPerToken(e.slot)
	sure := float64(float64(p.streamTokens) * perToken)
	left := min(max(sure, fleet.Ms(p.until.Sub(now))), float64(float64(p.streamTokens+p.nonStreaming.tokens)*perToken))
	return left > max(fleet.Ms(t.cfg.Ahead), float64(stepLeast*perToken))
}

// fits reports whether an endpoint may be sent a job besides those that it has: any where the engine itself lets
// requests wait for memory, else those that fit in its memory together.
func (t *Table) fits(e *endpoint, j *Job) bool {
	return t.cfg.Ahead <= 0 || e.room == 0 || e.sent() == 0 || e.held()+j.context <= e.room
}

// held is how many tokens of memory the requests at the endpoint will take.
func (e *endpoint) held() int64 { return e.load.ContextTokens - e.queue.context }

// Overfilled records that an endpoint failed a job since the jobs that it had did not fit in its memory together. From
// then on it is sent what fits. If those were believed to fit, texts have more tokens than is believed, perhaps several
// times as many, and it is sent half as much: each job is tried a few times only. Of jobs that failed together the
// first counts.
func (t *Table) Overfilled(now time.Time, n uint32) {
	j := t.jobs.Get(int(n))
	e := t.endpoints.Get(j.Slot)
	if !j.Sent.After(e.overfilled) {
		return
	}
	e.overfilled, e.room = now, e.memory
	if held := e.held(); e.memory <= 0 || held <= e.memory {
		e.room = max(1, held/2)
	}
}

// widen lets an endpoint that had to be sent less have a little more after each answer.
func (e *endpoint) widen() {
	if e.room += e.room/roomStep + 1; e.memory > 0 {
		e.room = min(e.room, e.memory)
	}
}

// full reports whether the requests at an engine take all its places or memory, as far as these are known, or are as
// many as those that it computed when others had to wait.
func (t *Table) full(now time.Time, e *endpoint) bool {
	n := e.sent()
	return n > 0 && (e.places > 0 && n >= e.places || e.memory > 0 && e.unshared-e.queue.unshared >= e.memory ||
		e.limit > 0 && n >= e.limit && now.Sub(e.limitAt) < t.cfg.StaleAfter)
}

func (t *Table) enqueue(now time.Time, e *endpoint, j *Job) {
	j.Queued, j.AtLimit = true, t.atLimit(j)
	j.Greedy = !j.AtLimit && t.yields(now, e, j)
	t.arrivalCount++
	j.arrival = t.arrivalCount
	e.queue.groupOf(j.tenant).add(j.queuedJob())
	t.countQueued(&e.queue, j, 1)
}

func (t *Table) dequeue(e *endpoint, j *Job) {
	g := e.queue.groupOf(j.tenant)
	if g.remove(j.queuedJob()); g.n == 0 {
		e.queue.drop(g)
	}
	if j.n == e.queue.awaitedJob { // the next one gets as long
		e.queue.idleSince = time.Time{}
	}
	t.countQueued(&e.queue, j, -1)
	j.Queued = false
}

// countQueued adds by to the number of queued jobs like this one, and what these take.
func (t *Table) countQueued(q *queue, j *Job, by int) {
	if j.Foreign {
		q.foreign += by
		t.foreign += by
	} else {
		t.queued += by
	}
	j.tenant.queued += by
	q.n += by
	q.tokens += int64(by) * j.Prefill
	q.unshared += int64(by) * j.unshared
	q.context += int64(by) * j.context
	q.rank(j.QueueClass.Priority, by)
}

// queuedJob is what is read of a queued job.
func (j *Job) queuedJob() *queuedJob {
	return &queuedJob{
		position: j.position(), n: j.n, foreign: j.Foreign, priority: j.QueueClass.Priority,
		most: int32(min(max(0, j.QueueClass.MaxRunning), math.MaxInt32)), prefill: j.Prefill,
		weighed: weighed(j.Prefill, j.QueueClass.Share), opened: j.Opened,
	}
}

func (j *Job) position() position { return position{j.Key, j.Origin, j.Seq, j.arrival} }

// groupOf is the group of a tenant.
func (q *queue) groupOf(x *tenant) *group {
	if i, ok := q.groupAt[x]; ok {
		return q.groups[i]
	}
	if q.groupAt == nil {
		q.groupAt = map[*tenant]int{}
	}
	q.groupAt[x] = len(q.groups)
	q.groups = append(q.groups, &group{tenant: x, byArrival: ordered{byArrival: true}})
	return q.groups[len(q.groups)-1]
}

// drop removes a group without jobs.
func (q *queue) drop(g *group) {
	i, last := q.groupAt[g.tenant], len(q.groups)-1
	q.groups[i] = q.groups[last]
	q.groupAt[q.groups[i].tenant] = i
	q.groups[last] = nil
	q.groups = q.groups[:last]
	delete(q.groupAt, g.tenant)
}

// key is the sort key of a prompt with this prefill time that arrives at this time; the least goes first.
func (t *Table) key(arrived time.Time, prefillMs float64) float64 {
	return prefillMs + float64(t.clock.common(arrived).UnixMicro())/1000/t.cfg.Patience
}

// SetClock sets how far this router's clock is behind the common one now.
func (t *Table) SetClock(now time.Time, offset time.Duration) { t.clock = clock{now, offset} }

// clock is the common clock of all routers. It goes on evenly when this router's own clock is set: otherwise a later
// prompt could go before one that waits.
type clock struct {
	began  time.Time // when the offset was right; zero before the first job
	offset time.Duration
}

// start has the clock begin at now, without an offset, if it has not begun.
func (c *clock) start(now time.Time) {
	if c.began.IsZero() {
		c.began = now
	}
}

// common is a moment by the clock.
func (c *clock) common(at time.Time) time.Time {
	if c.began.IsZero() {
		return at
	}
	return c.began.Add(at.Sub(c.began) + c.offset)
}

// Dispatched is a job that was sent from the queue.
type Dispatched struct {
	N    uint32
	Slot int
	Ms   float64 // expected prefill time
}

// Dispatch sends the queued jobs that are due, up to bound.Step of them, and appends them to to, which is empty: after
// a tenant's use is halved thousands may be due at once.
func (t *Table) Dispatch(now time.Time, to []Dispatched) []Dispatched {
	if t.queued == 0 {
		return to
	}
	t.tenants.halve(t.clock.common(now)) // so that all routers compare the same
	for before := -1; before < len(to); {
		before = len(to)
		to = t.dispatchOnce(now, to)
		if len(t.tenants.of) < 2 {
			break
		}
		// what was sent counts for its tenant: another one may be no longer greedy at an endpoint passed before
	}
	return to
}

// dispatchOnce looks once at each endpoint.
func (t *Table) dispatchOnce(now time.Time, to []Dispatched) []Dispatched {
	for _, slot := range t.order {
		e := t.endpoints.Get(slot)
		for e.queue.n > 0 && len(to) < bound.Step {
			j := t.next(now, e)
			if j == nil {
				break
			}
			to = append(to, Dispatched{j.n, slot, t.Send(now, j.n)})
		}
	}
	return to
}

// next is the job to send to an endpoint; nil if there is none, or if it belongs to another router. A router that does
// not send its job, because it is gone or unreachable, is waited for no longer than passOver.
func (t *Table) next(now time.Time, e *endpoint) *Job {
	if t.saturated(now, e) {
		e.queue.idleSince = time.Time{}
		return nil
	}
	first := t.first(now, e, ofAllRouters)
	if first != nil && first.Foreign {
		if e.queue.idleSince.IsZero() {
			e.queue.idleSince, e.queue.awaitedJob = now, first.n
		}
		if now.Sub(e.queue.idleSince) < passOver {
			return nil
		}
		first = t.first(now, e, ofThisRouter)
	}
	if first == nil || !t.fits(e, first) {
		return nil
	}
	took := float64(float64(first.Prefill) * t.rates.MsPerToken(e.slot))
	serial, _ := t.rates.InOrder(e.slot)
	if serial && took > fleet.Ms(t.cfg.Ahead) && now.Sub(e.queue.sentAt) < onItsWay &&
		e.prompts.streams+len(e.prompts.nonStreaming.open) > 0 {
		return nil // those before a long prompt must not arrive after it
	}
	return first
}

// levels are the priorities of an endpoint's jobs and of an asker.
func (t *Table) levels(now time.Time, q *queue, asker fleet.Priority) *levels {
	return &levels{
		t:       t,
		now:     now,
		highest: max(q.highest(), asker),
		one:     q.ranked == [2]int{} && asker == fleet.PriorityNormal,
	}
}

// whose says which jobs of a queue count.
type whose uint8

const (
	ofAllRouters whose = iota
	ofThisRouter
)

// first is the first startable job of an endpoint's queue; nil for none.
func (t *Table) first(now time.Time, e *endpoint, of whose) (first *Job) {
	full, levels := t.cfg.Ahead > 0 && t.full(now, e), t.levels(now, &e.queue, fleet.PriorityNormal)
	for _, g := range e.queue.groups {
		if full && t.tenants.greedy(g.tenant.used) || g.atLimit(g.most) {
			continue
		}
		q := g.first(levels, of)
		if q == nil {
			continue
		}
		if j := t.jobs.Get(int(q.n)); first == nil || t.before(now, &e.queue, j, first) {
			first = j
		}
	}
	return first
}

// jobsBefore is the part of the queue in front of a new prompt that takes own ms: its number of jobs and its time.
// Prompts of another tenant are in front while it has used less than the asker will have at its turn, in order of
// arrival. overtaken is the number of jobs that the new one delays, without those of tenants served after it anyway.
func (t *Table) jobsBefore(now time.Time, e *endpoint, who *Asker, own, perToken float64) (n int, ms float64,
	overtaken int,
) {
	q := &e.queue
	key, priority, levels := t.key(now, own), who.QueueClass.Priority, t.levels(now, q, who.QueueClass.Priority)
	mine, used, tokens := t.tenants.of[who.Tenant], t.tenants.usedBy(who.Tenant), int64(0)
	if i, ok := q.groupAt[mine]; ok {
		var weighed int64
		n, tokens, weighed = q.groups[i].upTo(levels, priority, key)
		used += weighed
		overtaken = q.groups[i].n - n
	}
	for _, g := range q.groups {
		if g.tenant == mine || g.atLimit(g.most) {
			continue
		}
		theirJobs, theirs := g.jobsWithin(levels, priority, used-g.tenant.used, key)
		n, tokens = n+theirJobs, tokens+theirs
	}
	return n, float64(float64(tokens) * perToken), overtaken
}
