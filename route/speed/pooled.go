package speed

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
	order         []*prefill
	sums, weights []float64
}

// unsure is by how many ms a token what is known of a speed may be wrong: two standard errors of the slope of a line through the origin, if first
// bytes are as much off as the fixed time is long.
func (s *prefill) unsure(fixed float64) float64 { return 2 * fixed / math.Sqrt(s.evidence()) }

// evidence is the sum of squares of the prompts' tokens that were seen, older ones weighing less.
func (s *prefill) evidence() float64 { return max(float64(s.line.AA)-s.prior+float64(s.early.XX), 1) }

// compare takes in that an endpoint's speed may have changed.
func (t *Table) compare(slot int) {
	s, known := &t.endpoints.Get(slot).prefill, 0.0
	if s.samples > 0 || s.early.XX > 0 {
		perToken, _ := t.settled(s)
		known = s.withEarly(perToken)
	}
	if d := known - s.known; d == 0 || known > 0 && s.known > 0 && max(d, -d) <= float64(s.known*moved) {
		return
	}
	s.known = known
	t.equate()
}

// equate finds for each endpoint the mean of those about as quick.
func (t *Table) equate() {
	q := &t.equals
	q.order = q.order[:0]
	for _, slot := range t.order {
		s := &t.endpoints.Get(slot).prefill
		if s.like = 0; s.known > 0 {
			q.order = append(q.order, s)
		}
	}
	slices.SortStableFunc(q.order, func(a, b *prefill) int { return cmp.Compare(a.known, b.known) })
	q.sums, q.weights = append(q.sums[:0], 0), append(q.weights[:0], 0) // differences of which are the same for all that have the same equals, to the last bit
	for i, s := range q.order {
		w := min(s.evidence(), priorTokens*priorTokens)
		q.sums, q.weights = append(q.sums, q.sums[i]+float64(w*s.known)), append(q.weights, q.weights[i]+w)
	}
	for _, s := range q.order {
		_, fixed := t.settled(s)
		off := s.unsure(min(fixed, t.mean.fixed))
		from, to := q.beyond(min(s.known/alike, s.known-off)), q.beyond(max(float64(s.known*alike), s.known+off))
		s.like = (q.sums[to] - q.sums[from]) / (q.weights[to] - q.weights[from])
	}
}

// beyond is how many endpoints take no more than so many ms a token.
func (q *equals) beyond(perToken float64) int {
	return sort.Search(len(q.order), func(i int) bool { return q.order[i].known > perToken })
}
