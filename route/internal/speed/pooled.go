package speed

import (
	"math"
	"slices"
	"sort"

	"github.com/warmpath/warmpath/route/ablation"
)

// Engines of one kind are equally fast, but their estimates differ by chance and by the prompts they were sent. If small
// differences decided, the engine that seems faster would get all long prompts. So endpoints whose estimates differ by less than
// a tenth, or by less than their standard error, share the weighted mean. The error matters for short prompts: first bytes are
// early or late for reasons that have nothing to do with the prompt, such as an engine that compiles for its first request.

// equals are the endpoints whose speed is known, fastest first. While the fleet's lock is held, one that has changed is moved, and the
// sums are made anew.
type equals struct {
	ranks []rank
	sums  []float64 // of weighted ms per token; sums[i] is that of the first i ranks
	all   []float64 // of weights, in the same way
	off   []float64 // see unsure
}

// rank is the place of an endpoint among equals.
type rank struct {
	known float64
	place uint64 // decides between endpoints that are equally fast: the one that was declared first comes first
	slot  int
}

func (r rank) before(o rank) bool {
	return r.known < o.known || r.known == o.known && r.place < o.place
}

// drop removes an endpoint.
func (q *equals) drop(slot int) {
	if i := slices.IndexFunc(q.ranks, func(r rank) bool { return r.slot == slot }); i >= 0 {
		q.ranks = slices.Delete(q.ranks, i, i+1)
	}
}

// put adds an endpoint.
func (q *equals) put(r rank) {
	i := sort.Search(len(q.ranks), func(i int) bool { return r.before(q.ranks[i]) })
	q.ranks = slices.Insert(q.ranks, i, r)
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
	t.equals.drop(slot)
	if s.known = known; known > 0 {
		t.equals.put(rank{known, t.endpoints.Get(slot).place, slot})
	} else {
		s.like = 0
	}
	t.equate()
}

// equate sets like of each endpoint to the mean over those about as fast. From prefix sums, endpoints with the same peers get the same
// mean to the last bit.
func (t *Table) equate() {
	q := &t.equals
	apart := t.without.Has(ablation.PooledSpeed)
	q.sums, q.all, q.off = append(q.sums[:0], 0), append(q.all[:0], 0), q.off[:0]
	for i := range q.ranks {
		s := &t.endpoints.Get(q.ranks[i].slot).prefill
		if apart {
			s.like = s.known
			continue
		}
		w := min(s.evidence(), priorTokens*priorTokens)
		q.sums, q.all = append(q.sums, q.sums[i]+float64(w*s.known)), append(q.all, q.all[i]+w)
		_, fixed := t.settled(s)
		q.off = append(q.off, s.unsure(min(fixed, t.mean.fixed)))
	}
	if apart {
		return
	}
	from, to := 0, 0 // those about as fast without regard to the error; both rise with known
	for i := range q.ranks {
		known := q.ranks[i].known
		fastest, slowest := known/alike, float64(known*alike)
		for from < len(q.ranks) && q.ranks[from].known <= fastest {
			from++
		}
		for to < len(q.ranks) && q.ranks[to].known <= slowest {
			to++
		}
		first, end := from, to
		if sure := known - q.off[i]; sure < fastest {
			first = q.beyond(sure, 0, from)
		}
		if sure := known + q.off[i]; sure > slowest {
			end = q.beyond(sure, to, len(q.ranks))
		}
		t.endpoints.Get(q.ranks[i].slot).prefill.like = (q.sums[end] - q.sums[first]) / (q.all[end] - q.all[first])
	}
}

// beyond counts the endpoints that take at most perToken; the count is between from and to.
func (q *equals) beyond(perToken float64, from, to int) int {
	if from == to || q.ranks[from].known > perToken {
		return from
	}
	if q.ranks[to-1].known <= perToken {
		return to
	}
	return from + sort.Search(to-from, func(i int) bool { return q.ranks[from+i].known > perToken })
}
