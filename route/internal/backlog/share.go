package backlog

import (
	"maps"
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
