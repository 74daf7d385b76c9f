package backlog

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Tenants share a queue by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): the tenant with the least prompt
// tokens served, divided by its weight, goes next. A tenant that joins starts at the queue's current position, so it neither
// pays for its absence nor saves up, and none starves. Among one tenant's prompts the shortest goes first. Priority precedes
// all this.

// shares divides a queue among tenants.
type shares struct {
	of     map[string]*account // tenants with queued jobs, and those ahead of the queue's position
	all    []*account          // the same in order of arrival
	active int                 // tenants with queued jobs
	now    float64             // the queue's position: start of the job sent last
}

// account is a tenant's use of a queue.
type account struct {
	tenant string
	jobs   int     // queued jobs
	begins float64 // start of its next job: tokens served, divided by its weight
	passed float64 // scratch of aheadOfOthers
}

// mostIdle is how many accounts without queued jobs are kept beyond the number of active ones.
const mostIdle = 64

// enter adds a job of a tenant.
func (s *shares) enter(tenant string) *account {
	a := s.of[tenant]
	if a == nil {
		if s.of == nil {
			s.of = map[string]*account{}
		}
		a = &account{tenant: tenant}
		s.of[tenant] = a
		s.all = append(s.all, a)
	}
	if a.jobs == 0 {
		s.active++
		a.begins = max(a.begins, s.now)
	}
	a.jobs++
	return a
}

// send charges a sent job to an account.
func (s *shares) send(a *account, tokens int64, part float64) {
	s.now = max(s.now, a.begins)
	a.begins += weighed(tokens, part)
}

// leave removes a job. An empty queue starts from zero.
func (s *shares) leave(a *account) {
	if a.jobs--; a.jobs > 0 {
		return
	}
	if s.active--; s.active == 0 {
		*s = shares{}
		return
	}
	if len(s.of) <= 2*s.active+mostIdle {
		return
	}
	s.forget(func(a *account) bool { return a.begins <= s.now })
	if len(s.of) > 2*s.active+16*mostIdle { // each is ahead by at most one prompt
		s.forget(func(*account) bool { return true })
	}
}

// forget drops the accounts without jobs for which right is true.
func (s *shares) forget(right func(*account) bool) {
	s.all = slices.DeleteFunc(s.all, func(a *account) bool {
		if a.jobs > 0 || !right(a) {
			return false
		}
		delete(s.of, a.tenant)
		return true
	})
}

// only reports whether all jobs belong to one tenant.
func (s *shares) only(tenant string) bool {
	return s.active == 1 && s.of[tenant] != nil && s.of[tenant].jobs > 0
}

// begins is the start of a tenant's next job, or of a new one if none is queued.
func (s *shares) begins(tenant string) float64 {
	switch a := s.of[tenant]; {
	case a == nil:
		return s.now
	case a.jobs > 0:
		return a.begins
	default:
		return max(a.begins, s.now)
	}
}

// weighed is the cost of tokens for a tenant with that weight.
func weighed(tokens int64, part float64) float64 {
	if part > 0 {
		return float64(tokens) / part
	}
	return float64(tokens)
}

// rank adds by to the number of jobs with that priority.
func (l *line) rank(p fleet.Priority, by int) {
	switch {
	case p < fleet.PriorityNormal:
		l.ranked[0] += by
	case p > fleet.PriorityNormal:
		l.ranked[1] += by
	}
}

// risen is a priority after a wait: it rises one step per Queue.Promote, up to the highest one present.
func (t *Table) risen(p, highest fleet.Priority, waited time.Duration) fleet.Priority {
	return max(p, min(highest, p+fleet.Priority(min(2, max(0, waited/t.cfg.Queue.Promote)))))
}

// highest is the highest priority present, at least normal.
func (l *line) highest() fleet.Priority {
	if l.ranked[1] > 0 {
		return fleet.PriorityHigh
	}
	return fleet.PriorityNormal
}

// before reports whether a job precedes another of the same queue: by priority, then by its tenant's use, then by key. All
// routers agree on the order. A job that is not queued has its tenant's position.
func (t *Table) before(now time.Time, l *line, j, other *Job) bool {
	if l.ranked != [2]int{} {
		highest := l.highest()
		if a, b := t.risen(j.Standing.Priority, highest, now.Sub(j.Opened)), t.risen(other.Standing.Priority, highest, now.Sub(other.Opened)); a != b {
			return a > b
		}
	}
	if a, b := l.shares.turn(j), l.shares.turn(other); a != b {
		return a < b
	}
	switch {
	case j.Key != other.Key:
		return j.Key < other.Key
	case j.Origin != other.Origin:
		return j.Origin < other.Origin
	}
	return j.Seq < other.Seq
}

// turn is where a job starts.
func (s *shares) turn(j *Job) float64 {
	if j.account != nil {
		return j.account.begins
	}
	return s.begins(j.Tenant)
}

// aheadOfOthers is inFront for queues with several tenants or priorities. Prompts of another tenant are in front while it has
// used less than the asker will have at its turn, in order of arrival.
func (t *Table) aheadOfOthers(now time.Time, l *line, who Asker, key, perToken float64) (n int, ms float64, behind int) {
	mine, turn := l.shares.of[who.Tenant], l.shares.begins(who.Tenant)
	highest := max(l.highest(), who.Standing.Priority)
	inFront := func(j *Job, level func(key float64) bool) bool {
		if p := t.risen(j.Standing.Priority, highest, now.Sub(j.Opened)); p != who.Standing.Priority {
			return p > who.Standing.Priority
		}
		return level(j.Key)
	}
	count := func(j *Job) {
		n, ms = n+1, ms+float64(float64(j.Prefill)*perToken)
	}
	for _, i := range l.jobs {
		j := t.jobs.Get(int(i))
		if j.account.passed = 0; j.account != mine {
			continue
		}
		if inFront(j, func(other float64) bool { return other <= key }) {
			count(j)
			turn += weighed(j.Prefill, j.Standing.Share)
		} else {
			behind++
		}
	}
	for _, i := range l.jobs {
		j := t.jobs.Get(int(i))
		if j.account == mine || t.atLimit(j) {
			continue
		}
		at := j.account.begins + j.account.passed
		if inFront(j, func(other float64) bool { return at < turn || at == turn && other <= key }) {
			count(j)
			j.account.passed += weighed(j.Prefill, j.Standing.Share)
		}
	}
	return n, ms, behind
}
