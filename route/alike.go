package route

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Engines of one kind are equally quick, and what is learnt of each of them differs by chance and by the prompts it was sent. Small
// differences must not decide: of two that are equal the one that seems quicker would be sent all long prompts, since they gain
// most by it, and the other ones all short ones. So endpoints whose speeds differ by less than a tenth are thought as quick as all of them are
// on average. So is one that too little is known of: first bytes are early or late by what has nothing to do with prompts (the first
// one of an engine that has just started by seconds), and of short prompts that is more than all of their time.

// equals is scratch: endpoints in order of speed, the quickest first, and the sums of the first 0, 1, 2, ... of their times for a token and
// of what these are weighed by.
type equals struct {
	order         []*endpoint
	sums, weights []float64
}

// unsure is by how many ms a token what is known of a speed may be wrong: two standard errors of the slope of a line through the origin, if first
// bytes are as much off as the fixed time is long.
func (s *speed) unsure(fixed float64) float64 { return 2 * fixed / math.Sqrt(s.evidence()) }

// evidence is the sum of squares of the prompts' tokens that were seen, older ones weighing less.
func (s *speed) evidence() float64 { return max(float64(s.line.AA)-s.prior+float64(s.early.XX), 1) }

// compare takes in that an endpoint's speed may have changed.
func (r *Router) compare(ep *endpoint) {
	s, known := &ep.speed, 0.0
	if s.samples > 0 || s.early.XX > 0 {
		perToken, _ := r.settledSpeed(ep)
		known = s.withEarly(perToken)
	}
	if d := known - s.known; d == 0 || known > 0 && s.known > 0 && max(d, -d) <= float64(s.known*moved) {
		return
	}
	s.known = known
	r.equate()
}

// equate finds for each endpoint the mean of those about as quick.
func (r *Router) equate() {
	q := &r.equals
	q.order = q.order[:0]
	for _, ep := range r.endpoints {
		if ep.speed.like = 0; ep.speed.known > 0 {
			q.order = append(q.order, ep)
		}
	}
	slices.SortStableFunc(q.order, func(a, b *endpoint) int { return cmp.Compare(a.speed.known, b.speed.known) })
	q.sums, q.weights = append(q.sums[:0], 0), append(q.weights[:0], 0) // differences of which are the same for all that have the same equals, to the last bit
	for i, ep := range q.order {
		w := min(ep.speed.evidence(), priorTokens*priorTokens)
		q.sums, q.weights = append(q.sums, q.sums[i]+float64(w*ep.speed.known)), append(q.weights, q.weights[i]+w)
	}
	for _, ep := range q.order {
		s := &ep.speed
		_, fixed := r.settledSpeed(ep)
		off := s.unsure(min(fixed, r.speeds.fixed))
		from, to := q.beyond(min(s.known/alike, s.known-off)), q.beyond(max(float64(s.known*alike), s.known+off))
		s.like = (q.sums[to] - q.sums[from]) / (q.weights[to] - q.weights[from])
	}
}

// beyond is how many endpoints take no more than so many ms a token.
func (q *equals) beyond(perToken float64) int {
	return sort.Search(len(q.order), func(i int) bool { return q.order[i].speed.known > perToken })
}
