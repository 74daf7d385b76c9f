// Package rank has the rank routers of NVIDIA TensorRT-LLM (tensorrt_llm/_torch/pyexecutor/scheduler/adp_router.py), which deal a batch of
// new requests to the attention data-parallel ranks of one engine: its default router, the KV-cache-aware one (PR 13198 and after), the
// one by conversation, and the first turns in round robin of PR 14744. As policies they deal to endpoints, one request at a time.
//
// They know no weights. They use no chance but a shuffle whose seed is the request's id, so that every replica comes to the same answer
// from the same figures.
package rank

import (
	"cmp"
	"math"
	"slices"

	"github.com/warmpath/warmpath/pick"
)

// dpRank is one data-parallel rank, or one endpoint, as a rank router sees it. Place charges it with what it is given.
type dpRank struct {
	Key      uint64 // what it is known by from batch to batch, its number for example
	Requests int    // active requests
	Tokens   int64  // their tokens: all prompt tokens for the default router, those that remain to be computed for the others
	Most     int    // requests that it may have at once (max_num_active_requests); 0 is no bound
}

// room reports whether it may have one request more.
func (r *dpRank) room() bool { return r.Most <= 0 || r.Requests < r.Most }

// below reports whether it has room, and fewer requests than expected of it.
func (r *dpRank) below(expected int) bool { return r.Requests < expected && r.room() }

// request is one request of a batch.
type request struct {
	ID           uint64   // seeds the order in which equal ranks are tried
	Conversation uint64   // names its conversation; 0 when it has no id
	Home         int      // 1 + the rank where others know the conversation to be; 0 when nobody does
	FirstTurn    bool     // is_first_turn, see session.Seen
	Tokens       int      // of its prompt
	Cached       []int    // of these, found at each rank; nil when nowhere
	Lead         []uint64 // ids of its first tokens, or hashes of its first blocks; the first 64 count
	Target       int      // 1 + the rank that it asks for; 0 for none
	Strict       bool     // it is to have that rank before those that are relaxed (attention_dp_relax: false)
}

// cachedAt is how many tokens of the prompt a rank holds.
func (r *request) cachedAt(rank int) int {
	if rank < len(r.Cached) {
		return r.Cached[rank]
	}
	return 0
}

// router deals batches of requests to ranks. It keeps what it has to know from batch to batch and serves one caller at a
// time.
type router interface {
	// Place says for each request of the batch the rank that it goes to, or unplaced. ranks, at least one, is
	// charged with what each is given. expected is how many requests a rank is thought to have at most after it, never
	// less than one of them has. to is valid until the next call.
	Place(ranks []dpRank, batch []request) (to []int, expected int)
	reason() pick.Reason // of the request that was placed last
}

// unplaced says that a request has to wait for the next batch: no rank has room.
const unplaced = pick.Nobody

// leadTokens is how much of a prompt's beginning tells batches apart.
const leadTokens = 64

// dealing is what the rank routers have in common.
type dealing struct {
	to   []int
	pool []int // requests that are not placed yet, in order
	why  pick.Reason
}

func (d *dealing) reason() pick.Reason { return d.why }

// begin puts the strict ones first and serves those that ask for a rank with room. An unset attention_dp_relax counts as
// relaxed. charge enters a request under a rank.
func (d *dealing) begin(ranks []dpRank, batch []request, charge func(rank int, r *request)) {
	d.to, d.pool = d.to[:0], d.pool[:0]
	for range batch {
		d.to = append(d.to, unplaced)
	}
	for _, strict := range [...]bool{true, false} {
		for i := range batch {
			r := &batch[i]
			if r.Strict != strict {
				continue
			}
			if at := r.Target - 1; at >= 0 && at < len(ranks) && ranks[at].room() {
				d.to[i] = at
				d.why = pick.ReasonPinned
				charge(at, r)
				continue
			}
			d.pool = append(d.pool, i)
		}
	}
}

// fairShare is ceil((active requests + new ones) / ranks).
func fairShare(ranks []dpRank, fresh int) int {
	total := fresh
	for i := range ranks {
		total += ranks[i].Requests
	}
	return (total + len(ranks) - 1) / len(ranks)
}

// expectedOf is min(max(ceil(multiplier × fair share), most active), max_num_active_requests). Rounding up is the published
// form: with 1 request to one rank, 1.5 times 1 are 2. Where ranks may have different numbers at once the largest bounds
// it; dpRank.below minds each one's own.
func expectedOf(ranks []dpRank, fresh int, multiplier float64) int {
	share := math.Ceil(float64(multiplier * float64(fairShare(ranks, fresh))))
	expected := int(min(share, math.MaxInt32))
	most, bounded := 0, true
	for i := range ranks {
		expected = max(expected, ranks[i].Requests)
		most = max(most, ranks[i].Most)
		bounded = bounded && ranks[i].Most > 0
	}
	if bounded {
		expected = min(expected, most)
	}
	return expected
}

// atLeast raises what is expected to what the ranks really have, since engines pad their batches to it.
func atLeast(ranks []dpRank, expected int) int {
	for i := range ranks {
		expected = max(expected, ranks[i].Requests)
	}
	return expected
}

// fewestBelow is the rank with fewest requests of those below what is expected, the first of equals; nobody when there is none.
func fewestBelow(ranks []dpRank, expected int) int {
	at := pick.Nobody
	for i := range ranks {
		if ranks[i].below(expected) && (at == pick.Nobody || ranks[i].Requests < ranks[at].Requests) {
			at = i
		}
	}
	return at
}

// nextBelow is the next rank in turn of those below what is expected; nobody when there is none. The turn moves past those that
// were left out.
func nextBelow(ranks []dpRank, turn *int, expected int) int {
	for step := range ranks {
		at := (*turn + step) % len(ranks)
		if ranks[at].below(expected) {
			*turn = (at + 1) % len(ranks)
			return at
		}
	}
	return pick.Nobody
}

// byLead orders requests by how they begin, the longer first among those that begin alike, so that turns of one conversation in one
// batch see each other.
func byLead(a, b *request) int {
	n, m := a.Lead[:min(len(a.Lead), leadTokens)], b.Lead[:min(len(b.Lead), leadTokens)]
	return cmp.Or(slices.Compare(n, m), cmp.Compare(b.Tokens, a.Tokens))
}
