package speed

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/warmpath/warmpath/route/ablation"
)

// Engines of one kind are equally fast, but their estimates differ by chance and by the prompts they were sent. If small
// differences decided, the engine that seems faster would get all long prompts. So endpoints whose estimates differ by less than
// a tenth, or by less than their standard error, share the weighted mean. The error matters for short prompts: first bytes are
// early or late for reasons that have nothing to do with the prompt, such as an engine that compiles for its first request.

// equals is scratch: endpoints sorted by speed, fastest first, with prefix sums of weighted ms per token and of weights.
type equals struct {
	order         []*prefill
	sums, weights []float64
}

// unsure is two standard errors of ms per token, for a line through the origin whose samples are off by the fixed time.
func (s *prefill) unsure(fixed float64) float64 { return 2 * fixed / math.Sqrt(s.evidence()) }

// evidence is the decayed sum of squared prompt lengths in tokens².
func (s *prefill) evidence() float64 { return max(float64(s.line.AA)-s.prior+float64(s.early.XX), 1) }

// compare pools the estimates again if an endpoint's speed has changed by more than the constant moved.
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

// equate sets like of each endpoint to the mean over those about as fast.
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
	q.sums, q.weights = append(q.sums[:0], 0), append(q.weights[:0], 0) // from prefix sums, endpoints with the same peers get the same mean to the last bit
	for i, s := range q.order {
		w := min(s.evidence(), priorTokens*priorTokens)
		q.sums, q.weights = append(q.sums, q.sums[i]+float64(w*s.known)), append(q.weights, q.weights[i]+w)
	}
	for _, s := range q.order {
		if t.without.Has(ablation.PooledSpeed) {
			s.like = s.known
			continue
		}
		_, fixed := t.settled(s)
		off := s.unsure(min(fixed, t.mean.fixed))
		from, to := q.beyond(min(s.known/alike, s.known-off)), q.beyond(max(float64(s.known*alike), s.known+off))
		s.like = (q.sums[to] - q.sums[from]) / (q.weights[to] - q.weights[from])
	}
}

// beyond counts the endpoints that take at most perToken.
func (q *equals) beyond(perToken float64) int {
	return sort.Search(len(q.order), func(i int) bool { return q.order[i].known > perToken })
}
