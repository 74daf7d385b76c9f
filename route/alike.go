package route

import (
	"cmp"
	"slices"
)

// Engines of one kind are equally quick, and what is learnt of each of them differs by chance and by the prompts it was sent. Small
// differences must not decide: of two that are equal the one that seems quicker would be sent all long prompts, since they gain
// most by it, and the other ones all short ones. So endpoints whose speeds differ by less than a tenth are thought as quick as all of them are
// on average.

// equals is scratch: endpoints in order of speed, the quickest first, and the sums of the first 0, 1, 2, ... of their times for a token.
type equals struct {
	order []*endpoint
	sums  []float64
}

// compare takes in that an endpoint's speed may have changed.
func (r *Router) compare(ep *endpoint) {
	s, known := &ep.speed, 0.0
	if s.samples > 0 || s.early.xx > 0 {
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
	q.sums = append(q.sums[:0], 0) // differences of which are the same for all that have the same equals, to the last bit
	for i, ep := range q.order {
		q.sums = append(q.sums, q.sums[i]+ep.speed.known)
	}
	from, to := 0, 0
	for _, ep := range q.order {
		for q.order[from].speed.known*alike < ep.speed.known {
			from++
		}
		for to < len(q.order) && q.order[to].speed.known <= ep.speed.known*alike {
			to++
		}
		ep.speed.like = (q.sums[to] - q.sums[from]) / float64(to-from)
	}
}
