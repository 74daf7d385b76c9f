// Package rank has the rank routers of NVIDIA TensorRT-LLM (tensorrt_llm/_torch/pyexecutor/scheduler/adp_router.py),
// which distribute a batch of new requests over the attention data-parallel ranks of one engine: its default router,
// the KV-cache-aware one (PR 13198 and later), the one by conversation, and round robin for first turns (PR 14744). As
// policies they distribute requests over endpoints, one at a time.
//
// The rules are written for batches, as published, because only so can their order within a batch, requests for a rank,
// and waiting be checked. A live request is a batch of one that asks for no rank, so only tests set Target, Strict and
// Lead.
//
// They ignore weights. Their only randomness is a shuffle seeded by the request's id, so that every replica gets equal
// results from equal inputs.
package rank

import (
	"cmp"
	"math"
	"slices"

	"github.com/warmpath/warmpath/pick"
)

// dpRank is one data-parallel rank, or one endpoint. Place charges it with what it receives.
type dpRank struct {
	Key      uint64 // identity across batches, for example its number
	Requests int    // active requests
	Tokens   int64  // all their prompt tokens for the default router, those still to compute for the others
	Most     int    // limit of concurrent requests (max_num_active_requests); 0 for none
}

// room reports whether it may have another request.
func (r *dpRank) room() bool { return r.Most <= 0 || r.Requests < r.Most }

// below reports whether it has room and fewer requests than expected.
func (r *dpRank) below(expected int) bool { return r.Requests < expected && r.room() }

// request is one request of a batch.
type request struct {
	ID           uint64   // seed of the order among ties
	Conversation uint64   // names its conversation; 0 when it has no id
	Home         int      // 1 + the rank where the conversation is known to be; 0 when unknown
	FirstTurn    bool     // is_first_turn, see session.Seen
	Tokens       int      // of its prompt
	Cached       []int    // of these, found at each rank; nil when nowhere
	Lead         []uint64 // first token ids, or first block hashes; the first 64 count
	Target       int      // 1 + the rank that it asks for; 0 for none
	Strict       bool     // served before relaxed ones (attention_dp_relax: false)
}

// cachedAt is the number of the prompt's tokens cached at a rank.
func (r *request) cachedAt(rank int) int {
	if rank < len(r.Cached) {
		return r.Cached[rank]
	}
	return 0
}

// router distributes batches of requests over ranks. It is not safe for concurrent use.
type router interface {
	// Place returns for each request of the batch its rank, or unplaced. It charges ranks, of which there is at least
	// one. expected is the expected maximum of requests per rank, at least the present maximum. to is valid until the
	// next call. It changes no later placement.
	Place(ranks []dpRank, batch []request) (to []int, expected int)
	// keep makes the latest Place come true: what it remembers of its batch counts from the next one on.
	keep()
	reason() pick.Reason // of the request placed last
}

// unplaced means that a request must wait for the next batch: no rank has room.
const unplaced = pick.None

// leadTokens is the number of leading tokens compared.
const leadTokens = 64

// dealing is the common part of the rank routers.
type dealing struct {
	to   []int
	pool []int // unplaced requests, in order
	why  pick.Reason
}

func (d *dealing) reason() pick.Reason { return d.why }

// begin sorts strict requests first and places those that ask for a rank with room. An unset attention_dp_relax counts
// as relaxed. charge records a request at a rank.
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

// expectedOf is min(max(ceil(multiplier × fair share), most active), max_num_active_requests). Rounding up is as
// published: with 1 request at one rank, 1.5 times 1 gives 2. If ranks have different limits the largest applies;
// dpRank.below checks each one's own.
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

// atLeast raises expected to the ranks' actual maximum, since engines pad their batches to it.
func atLeast(ranks []dpRank, expected int) int {
	for i := range ranks {
		expected = max(expected, ranks[i].Requests)
	}
	return expected
}

// fewestBelow is the rank with fewest requests among those below expected, the first of ties; pick.None if there is
// none.
func fewestBelow(ranks []dpRank, expected int) int {
	at := pick.None
	for i := range ranks {
		if ranks[i].below(expected) && (at == pick.None || ranks[i].Requests < ranks[at].Requests) {
			at = i
		}
	}
	return at
}

// nextBelow is the next rank in turn below expected; pick.None if there is none. The turn advances past skipped ranks.
func nextBelow(ranks []dpRank, turn *int, expected int) int {
	for step := range ranks {
		at := (*turn + step) % len(ranks)
		if ranks[at].below(expected) {
			*turn = (at + 1) % len(ranks)
			return at
		}
	}
	return pick.None
}

// byLead orders requests by their leading tokens, the longer first among equals, so that turns of one conversation in
// one batch are adjacent.
func byLead(a, b *request) int {
	n, m := a.Lead[:min(len(a.Lead), leadTokens)], b.Lead[:min(len(b.Lead), leadTokens)]
	return cmp.Or(slices.Compare(n, m), cmp.Compare(b.Tokens, a.Tokens))
}
