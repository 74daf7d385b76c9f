package rank

import (
	"math/rand/v2"
	"slices"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/reasons"
)

// kvCacheAware is TensorRT-LLM's KV-cache-aware rank router with the hit-rate gate and the fair-share cap of PR 13198. Of the ranks below
//
//	expected = min(max(ceil(multiplier × ceil((active + new) / ranks)), most active), max_num_active_requests)
//
// each request goes to the one with the smallest
//
//	(tokens - cached) + weight × active tokens / max(active tokens of all eligible, tokens) × tokens
//
// where active tokens are those that remain to be computed, and cached counts as 0 everywhere unless the largest share
// of the prompt that any eligible rank holds is above the threshold (strictly, so that 0 lets any match count). Ranks are
// tried in an order shuffled with the request's id as its seed; of equals the one with fewer active tokens is taken, then the
// first in that order. The winner is charged with what it has to compute by its own match, whether the gate let it count
// or not.
//
// Warm-up, when asked for: until each rank has been given a request, a relaxed one that asks for no rank goes to the first that
// has not, in order of arrival and before the others of its batch. It ends for good.
type kvCacheAware struct {
	dealing
	weight, threshold, multiplier float64

	firstTurns bool // in round robin, see NewFirstTurn
	turn       int  // of first turns

	warming bool     // not every rank has been given a request
	warm    []uint64 // keys of those that have
	pcg     *rand.PCG
	rng     *rand.Rand
	tried   []int // eligible ranks in the order in which they are tried
}

// mostWarm bounds what warm-up remembers where ranks come and go.
const mostWarm = 4096

// NewKVCacheAware makes the policy rank.kv_cache_aware with a configuration that has its defaults.
func NewKVCacheAware(c Config) pick.Policy {
	return &adapter{most: c.MaxActive, router: makeKVCacheAware(c), tokens: tokensToCompute, transfers: c.InTransfer, caches: true}
}

func makeKVCacheAware(c Config) *kvCacheAware {
	pcg := rand.NewPCG(0, 0)
	return &kvCacheAware{
		weight: c.Weight, threshold: c.Threshold, multiplier: c.Multiplier, warming: c.Warmup, pcg: pcg, rng: rand.New(pcg),
	}
}

// Place implements router.
func (p *kvCacheAware) Place(ranks []dpRank, batch []request) (to []int, expected int) {
	p.begin(ranks, batch, func(at int, r *request) { p.charge(ranks, at, r) })
	expected = expectedOf(ranks, len(p.pool), p.multiplier)
	p.warmUp(ranks, batch, expected)
	slices.SortStableFunc(p.pool, func(a, b int) int { return byLead(&batch[a], &batch[b]) })
	for _, i := range p.pool {
		r := &batch[i]
		at := p.choose(ranks, r, expected)
		if at == pick.Nobody {
			break
		}
		p.to[i] = at
		p.charge(ranks, at, r)
	}
	return p.to, atLeast(ranks, expected)
}

// choose finds the rank of one request and says why.
func (p *kvCacheAware) choose(ranks []dpRank, r *request, expected int) int {
	if p.firstTurns && r.FirstTurn {
		p.why = reasons.RoundRobin
		return nextBelow(ranks, &p.turn, expected)
	}
	p.tried = p.tried[:0]
	matched, active := 0, int64(0)
	for i := range ranks {
		if ranks[i].below(expected) {
			p.tried = append(p.tried, i)
			matched = max(matched, r.cachedAt(i))
			active += ranks[i].Tokens
		}
	}
	open := float64(matched)/float64(max(r.Tokens, 1)) > p.threshold
	p.why = reasons.Load
	if open && matched > 0 {
		p.why = reasons.Score
	}
	p.pcg.Seed(r.ID, byhash.Golden)
	p.rng.Shuffle(len(p.tried), func(a, b int) { p.tried[a], p.tried[b] = p.tried[b], p.tried[a] })
	at, best := pick.Nobody, 0.0
	for _, i := range p.tried {
		cached := 0
		if open {
			cached = r.cachedAt(i)
		}
		score := p.score(&ranks[i], r.Tokens, cached, active)
		if at == pick.Nobody || score < best || score == best && ranks[i].Tokens < ranks[at].Tokens {
			at, best = i, score
		}
	}
	return at
}

// score is the cost of a request at a rank; active is the sum over the ranks that may have it. The denominator is at least 1, for
// requests without tokens to idle ranks (the original divides by zero).
func (p *kvCacheAware) score(rank *dpRank, tokens, cached int, active int64) float64 {
	denominator := float64(max(active, int64(tokens), 1))
	share := float64(p.weight * float64(float64(rank.Tokens)/denominator))
	return float64(tokens-cached) + float64(share*float64(tokens))
}

// warmUp serves, in order of arrival, those that go to ranks that were given nothing yet.
func (p *kvCacheAware) warmUp(ranks []dpRank, batch []request, expected int) {
	if !p.warming {
		return
	}
	p.pool = slices.DeleteFunc(p.pool, func(i int) bool {
		at := p.coldest(ranks, &batch[i], expected)
		if at == pick.Nobody {
			return false
		}
		p.to[i], p.why = at, reasons.RoundRobin
		p.charge(ranks, at, &batch[i])
		return true
	})
}

// coldest is the first rank that was given nothing yet, while ranks are warmed up; nobody otherwise.
func (p *kvCacheAware) coldest(ranks []dpRank, r *request, expected int) int {
	if !p.warming || r.Strict || r.Target > 0 {
		return pick.Nobody
	}
	for i := range ranks {
		if ranks[i].below(expected) && !slices.Contains(p.warm, ranks[i].Key) {
			return i
		}
	}
	return pick.Nobody
}

// charge enters a request under a rank.
func (p *kvCacheAware) charge(ranks []dpRank, at int, r *request) {
	ranks[at].Requests++
	ranks[at].Tokens += int64(max(r.Tokens-r.cachedAt(at), 0))
	if !p.warming {
		return
	}
	if !slices.Contains(p.warm, ranks[at].Key) {
		p.warm = append(p.warm, ranks[at].Key)
	}
	cold := func(k dpRank) bool { return !slices.Contains(p.warm, k.Key) }
	if !slices.ContainsFunc(ranks, cold) || len(p.warm) >= mostWarm {
		p.warming, p.warm = false, nil
	}
}
