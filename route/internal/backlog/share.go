package backlog

import (
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Tenants share the queues by what they have used: the tenant that had the fewest computed prompt tokens, divided by
// its weight, goes next, at whichever endpoint. What was used is halved every halfLife, so that a tenant with little
// traffic precedes one with much, and none starves. A greedy tenant waits at the router while an engine is full. Among
// one tenant's prompts the shortest goes first. Priority precedes all this. Routers halve at the same moments of their
// common clock, so that they keep one order.

// tenants are those with open jobs, and those that have used engines recently.
type tenants struct {
	of     map[string]*tenant
	open   int       // tenants with open jobs
	used   int64     // by all
	halved time.Time // when what was used was halved last, or could have been first
}

// tenant is what one tenant uses.
type tenant struct {
	open    int   // its jobs
	queued  int   // of these, those in queues of routers
	running int   // those at engines, if there is a limit of them, see fleet.QueueClass.MaxRunning
	used    int64 // computed prompt tokens, divided by its weight, halved every halfLife
}

const (
	halfLife   = 10 * time.Second
	greedyFrom = 2 // times what the others have used in the mean, from which a tenant is greedy
)

func (s *tenants) enter(now time.Time, name string) *tenant {
	s.halve(now)
	x := s.of[name]
	if x == nil {
		if len(s.of)-s.open >= bound.Many {
			maps.DeleteFunc(s.of, func(_ string, x *tenant) bool {
				if x.open > 0 {
					return false
				}
				s.used -= x.used
				return true
			})
		}
		x = &tenant{}
		s.of[name] = x
	}
	if x.open == 0 {
		s.open++
	}
	x.open++
	return x
}

func (s *tenants) leave(x *tenant) {
	if x.open--; x.open == 0 {
		s.open--
	}
}

// charge adds the tokens of a job that is sent to an engine.
func (s *tenants) charge(now time.Time, x *tenant, tokens int64, weight float64) {
	s.halve(now)
	by := weighed(tokens, weight)
	x.used += by
	s.used += by
}

// halve halves what was used as often as it is due, and forgets tenants without open jobs that have used nothing.
func (s *tenants) halve(now time.Time) {
	if s.halved.IsZero() {
		s.halved = now.Add(-time.Duration(now.UnixNano() % int64(halfLife)))
	}
	times := int64(now.Sub(s.halved) / halfLife) // not of the wall clock, which may be set
	if times <= 0 {
		return
	}
	s.halved = s.halved.Add(time.Duration(times) * halfLife)
	s.used = 0
	maps.DeleteFunc(s.of, func(_ string, x *tenant) bool {
		x.used >>= min(times, 63)
		s.used += x.used
		return x.used == 0 && x.open == 0
	})
}

// greedy reports whether a tenant that has used this much takes more than its share: greedyFrom times the mean of the
// others.
func (s *tenants) greedy(used int64) bool {
	n := len(s.of)
	return n > 1 && float64(used)*float64(n-1) > greedyFrom*float64(s.used-used)
}

func (s *tenants) usedBy(name string) int64 {
	if x := s.of[name]; x != nil {
		return x.used
	}
	return 0
}

// used is what the owner of a job has used, which need not be open.
func (t *Table) used(j *Job) int64 {
	if j.tenant != nil {
		return j.tenant.used
	}
	return t.tenants.usedBy(j.Tenant)
}

// weighed is the cost of tokens for a tenant with that weight; 0 is 1.
func weighed(tokens int64, weight float64) int64 {
	if weight > 0 {
		return int64(min(float64(tokens)/weight, 1<<40))
	}
	return tokens
}

// rank adds by to the number of jobs with that priority.
func (q *queue) rank(p fleet.Priority, by int) {
	switch {
	case p < fleet.PriorityNormal:
		q.ranked[0] += by
	case p > fleet.PriorityNormal:
		q.ranked[1] += by
	}
}

// agedPriority is a priority after a wait: it rises one step per Config.Promote, up to the highest one present.
func (t *Table) agedPriority(p, highest fleet.Priority, waited time.Duration) fleet.Priority {
	return max(p, min(highest, p+fleet.Priority(min(2, max(0, waited/t.cfg.Promote)))))
}

// highest is the highest priority present, at least normal.
func (q *queue) highest() fleet.Priority {
	if q.ranked[1] > 0 {
		return fleet.PriorityHigh
	}
	return fleet.PriorityNormal
}

// before reports whether a job precedes another of the same queue: by priority, then by its tenant's use, then by key.
// All routers agree on the order.
func (t *Table) before(now time.Time, q *queue, j, other *Job) bool {
	if q.ranked != [2]int{} {
		highest := q.highest()
		if a, b := t.agedPriority(j.QueueClass.Priority, highest, now.Sub(j.Opened)),
			t.agedPriority(other.QueueClass.Priority, highest, now.Sub(other.Opened)); a != b {
			return a > b
		}
	}
	if a, b := t.used(j), t.used(other); a != b {
		return a < b
	}
	a, b := j.position(), other.position()
	return a.precedes(&b)
}

// A queue may have thousands of jobs, and each decision and each job that is sent reads it. So the jobs of each tenant
// are listed by key and by arrival, in chunks with sums: a look reads some chunks, and one of them job by job.

// queuedJob is what is read of a queued job.
type queuedJob struct {
	position
	n        uint32
	foreign  bool
	priority fleet.Priority
	most     int32 // its tenant's running jobs at most; 0 for no limit
	prefill  int64
	weighed  int64 // of prefill, for its tenant
	opened   time.Time
}

// position is where a job stands among those of one tenant and priority.
type position struct {
	key         float64
	origin, seq uint64
	arrival     uint64 // its place in the order of arrival; 0 for one that has not come yet, which is last
}

func (q *position) precedes(other *position) bool {
	switch {
	case q.key != other.key:
		return q.key < other.key
	case q.origin != other.origin:
		return q.origin < other.origin
	case q.seq != other.seq:
		return q.seq < other.seq
	}
	return q.arrival-1 < other.arrival-1
}

// group is the queued jobs of one tenant at one endpoint.
type group struct {
	tenant    *tenant
	byKey     ordered
	byArrival ordered
	n         int
	most      int32 // the largest limit of running jobs that one of them had; 0 for none
	mixed     bool  // they had different ones
}

// atLimit reports whether a job must wait until another one of its tenant has ended.
func (g *group) atLimit(most int32) bool { return most > 0 && g.tenant.running >= int(most) }

func (g *group) add(q *queuedJob) {
	if g.n > 0 && q.most != g.most {
		g.mixed = true
		if q.most == 0 || g.most == 0 {
			g.most = 0
		}
	}
	if g.n == 0 || g.most > 0 {
		g.most = max(g.most, q.most)
	}
	g.n++
	g.byKey.add(q)
	g.byArrival.add(q)
}

func (g *group) remove(q *queuedJob) {
	g.n--
	g.byKey.remove(q)
	g.byArrival.remove(q)
}

// levels are the priorities that jobs have after their wait.
type levels struct {
	t       *Table
	now     time.Time
	highest fleet.Priority
	one     bool // all jobs have the same
}

// of is a job's.
func (l *levels) of(q *queuedJob) fleet.Priority {
	return l.t.agedPriority(q.priority, l.highest, l.now.Sub(q.opened))
}

// over are the lowest and the highest that the jobs of a chunk may have.
func (l *levels) over(c *chunk) (low, high fleet.Priority) {
	if l.one {
		return fleet.PriorityNormal, fleet.PriorityNormal
	}
	return l.t.agedPriority(c.low, l.highest, l.now.Sub(c.newest)),
		l.t.agedPriority(c.high, l.highest, l.now.Sub(c.oldest))
}

// upTo is the number and tokens of the jobs above a level, and on it of those whose key is at most this one.
func (g *group) upTo(l *levels, mine fleet.Priority, key float64) (n int, prefill, weighed int64) {
	for i := range g.byKey.chunks {
		c := &g.byKey.chunks[i]
		switch low, high := l.over(c); {
		case low > mine || low == mine && c.jobs[len(c.jobs)-1].key <= key:
			n, prefill, weighed = n+len(c.jobs), prefill+c.prefill, weighed+c.weighed
		case high < mine || high == mine && c.jobs[0].key > key:
		default:
			for k := range c.jobs {
				q := &c.jobs[k]
				if p := l.of(q); p > mine || p == mine && q.key <= key {
					n, prefill, weighed = n+1, prefill+q.prefill, weighed+q.weighed
				}
			}
		}
	}
	return n, prefill, weighed
}

// jobsWithin is the number and tokens of the jobs above a level, and on it, in order of arrival, of those before which
// the others have taken less than left, or just as much if their key is at most this one.
func (g *group) jobsWithin(l *levels, mine fleet.Priority, left int64, key float64) (n int, prefill int64) {
	passed := int64(0)
	for i := range g.byArrival.chunks {
		c := &g.byArrival.chunks[i]
		switch low, high := l.over(c); {
		case !g.mixed && (low > mine || low == mine && passed+c.weighed < left):
			n, prefill, passed = n+len(c.jobs), prefill+c.prefill, passed+c.weighed
		case high < mine || high == mine && (passed > left || passed == left && c.least > key):
		default:
			for k := range c.jobs {
				q := &c.jobs[k]
				p := l.of(q)
				if !g.atLimit(q.most) && (p > mine || p == mine && (passed < left || passed == left && q.key <= key)) {
					n, prefill, passed = n+1, prefill+q.prefill, passed+q.weighed
				}
			}
		}
	}
	return n, prefill
}

// first is the first job that may go now; nil for none.
func (g *group) first(l *levels, of whose) (best *queuedJob) {
	at := fleet.PriorityLow
	for i := range g.byKey.chunks {
		c := &g.byKey.chunks[i]
		if _, high := l.over(c); best != nil && high <= at {
			continue
		}
		for k := range c.jobs {
			q := &c.jobs[k]
			if of == ofThisRouter && q.foreign || g.atLimit(q.most) {
				continue
			}
			if p := l.of(q); best == nil || p > at {
				best, at = q, p
			}
			if l.one || at == l.highest {
				return best
			}
		}
	}
	return best
}

// ordered is jobs in order.
type ordered struct {
	byArrival bool // in order of arrival, not of key
	chunks    []chunk
}

// chunk is up to twice bound.Few jobs that follow each other, at least one.
type chunk struct {
	jobs             []queuedJob
	prefill, weighed int64
	least            float64        // key
	low, high        fleet.Priority // as asked for
	oldest, newest   time.Time      // opened
}

// reaches reports whether a job comes at or before another.
func (o *ordered) reaches(q, other *queuedJob) bool {
	if o.byArrival {
		return q.arrival <= other.arrival
	}
	return !other.precedes(&q.position)
}

// find is the place of a job, or the one where it belongs.
func (o *ordered) find(q *queuedJob) (i, k int) {
	i = sort.Search(len(o.chunks), func(i int) bool {
		jobs := o.chunks[i].jobs
		return o.reaches(q, &jobs[len(jobs)-1])
	})
	if i == len(o.chunks) {
		if i--; i < 0 {
			return 0, 0
		}
	}
	jobs := o.chunks[i].jobs
	return i, sort.Search(len(jobs), func(k int) bool { return o.reaches(q, &jobs[k]) })
}

func (o *ordered) add(q *queuedJob) {
	i, k := o.find(q)
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, chunk{})
	}
	c := &o.chunks[i]
	c.jobs = slices.Insert(c.jobs, k, *q)
	if len(c.jobs) > 2*bound.Few {
		right := chunk{jobs: slices.Clone(c.jobs[bound.Few:])}
		c.jobs = slices.Delete(c.jobs, bound.Few, len(c.jobs))
		right.sum()
		o.chunks = slices.Insert(o.chunks, i+1, right)
	}
	o.chunks[i].sum()
}

func (o *ordered) remove(q *queuedJob) {
	i, k := o.find(q)
	c := &o.chunks[i]
	c.jobs = slices.Delete(c.jobs, k, k+1)
	if i+1 < len(o.chunks) && len(c.jobs)+len(o.chunks[i+1].jobs) <= bound.Few {
		c.jobs = append(c.jobs, o.chunks[i+1].jobs...)
		o.chunks = slices.Delete(o.chunks, i+1, i+2)
	}
	if len(o.chunks[i].jobs) == 0 {
		o.chunks = slices.Delete(o.chunks, i, i+1)
		return
	}
	o.chunks[i].sum()
}

func (c *chunk) sum() {
	first := &c.jobs[0]
	*c = chunk{
		jobs:   c.jobs,
		least:  first.key,
		low:    first.priority,
		high:   first.priority,
		oldest: first.opened,
		newest: first.opened,
	}
	for i := range c.jobs {
		q := &c.jobs[i]
		c.prefill, c.weighed, c.least = c.prefill+q.prefill, c.weighed+q.weighed, min(c.least, q.key)
		c.low, c.high = min(c.low, q.priority), max(c.high, q.priority)
		c.oldest, c.newest = fleet.Earlier(c.oldest, q.opened), fleet.Later(c.newest, q.opened)
	}
}
