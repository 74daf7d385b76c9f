package rank

import (
	"math/rand/v2"
	"slices"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/reasons"
)

// kvCacheAware is TensorRT-LLM's KV-cache-aware rank router with the hit-rate gate and fair-share cap of PR 13198. Of
// the ranks below
//
//	expected = min(max(ceil(multiplier × ceil((active + new) / ranks)), most active), max_num_active_requests)
//
// each request goes to the one with the smallest
//
//	(tokens - cached) + weight × active tokens / max(active tokens of all eligible, tokens) × tokens
//
// where active tokens are those still to compute, and cached counts as 0 everywhere unless the largest cached share at
// an eligible rank exceeds the threshold (strictly, so that 0 lets any match count). Ranks are tried in an order
// shuffled by the request's id; ties go to fewer active tokens, then to the first in that order. The winner is charged
// with the tokens it has to compute by its own match, whether or not the gate let it count.
//
// Optional warm-up: until each rank has received a request, a relaxed one that asks for no rank goes to the first that
// has not, in order of arrival and before the others of its batch. Warm-up happens once.
type kvCacheAware struct {
	dealing
	weight, threshold, multiplier float64

	firstTurns bool // in round robin, see NewFirstTurn

	kept, next memory // before and after the latest batch

	gate  pick.CacheGate // of the last scored request
	pcg   *rand.PCG
	rng   *rand.Rand
	tried []int // eligible ranks in the order of trial
}

// memory is what counts for later batches.
type memory struct {
	turn    int      // of first turns
	warming bool     // some rank has not received a request
	warm    []uint64 // keys of those that have
}

// set copies another memory, into its own space.
func (m *memory) set(from *memory) {
	m.turn, m.warming, m.warm = from.turn, from.warming, append(m.warm[:0], from.warm...)
}

// mostWarm bounds the memory of warm-up when ranks come and go.
const mostWarm = 4096

// NewKVCacheAware makes rank.kv_cache_aware. The configuration must have its defaults.
func NewKVCacheAware(c Config) pick.Policy {
	return &adapter{
		Plain: pick.Plain{Name: "rank.kv_cache_aware", Exact: true, Content: true},
		most:  c.MaxActive, router: makeKVCacheAware(c), tokens: tokensToCompute, transfers: c.InTransfer, caches: true,
	}
}

func makeKVCacheAware(c Config) *kvCacheAware {
	pcg := rand.NewPCG(0, 0)
	return &kvCacheAware{
		weight: c.Weight, threshold: c.Threshold, multiplier: c.Multiplier, kept: memory{warming: c.Warmup}, pcg: pcg,
		rng: rand.New(pcg),
	}
}

// Place implements router.
func (p *kvCacheAware) Place(ranks []dpRank, batch []request) (to []int, expected int) {
	p.next.set(&p.kept)
	p.gate = pick.CacheGate{}
	p.begin(ranks, batch, func(at int, r *request) { p.charge(ranks, at, r) })
	expected = expectedOf(ranks, len(p.pool), p.multiplier)
	p.warmUp(ranks, batch, expected)
	slices.SortStableFunc(p.pool, func(a, b int) int { return byLead(&batch[a], &batch[b]) })
	for _, i := range p.pool {
		r := &batch[i]
		at := p.choose(ranks, r, expected)
		if at == pick.None {
			break
		}
		p.to[i] = at
		p.charge(ranks, at, r)
	}
	return p.to, atLeast(ranks, expected)
}

// choose finds the rank of one request and sets the reason.
func (p *kvCacheAware) choose(ranks []dpRank, r *request, expected int) int {
	if p.firstTurns && r.FirstTurn {
		p.why = reasons.RoundRobin
		return nextBelow(ranks, &p.next.turn, expected)
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
	p.gate = pick.CacheGate{Asked: true, Open: open, Match: matched, Threshold: p.threshold}
	p.why = reasons.Load
	if open && matched > 0 {
		p.why = reasons.Score
	}
	p.pcg.Seed(r.ID, byhash.Golden)
	p.rng.Shuffle(len(p.tried), func(a, b int) { p.tried[a], p.tried[b] = p.tried[b], p.tried[a] })
	at, best := pick.None, 0.0
	for _, i := range p.tried {
		cached := 0
		if open {
			cached = r.cachedAt(i)
		}
		score := p.score(&ranks[i], r.Tokens, cached, active)
		if at == pick.None || score < best || score == best && ranks[i].Tokens < ranks[at].Tokens {
			at, best = i, score
		}
	}
	return at
}

// score is the cost of a request at a rank; active is the sum over the eligible ranks. The denominator is at least 1
// (the original divides by zero for empty requests to idle ranks).
func (p *kvCacheAware) score(rank *dpRank, tokens, cached int, active int64) float64 {
	denominator := float64(max(active, int64(tokens), 1))
	share := float64(p.weight * float64(float64(rank.Tokens)/denominator))
	return float64(tokens-cached) + float64(share*float64(tokens))
}

// warmUp places requests on ranks that have received none, in order of arrival.
func (p *kvCacheAware) warmUp(ranks []dpRank, batch []request, expected int) {
	if !p.next.warming {
		return
	}
	p.pool = slices.DeleteFunc(p.pool, func(i int) bool {
		at := p.coldest(ranks, &batch[i], expected)
		if at == pick.None {
			return false
		}
		p.to[i], p.why = at, reasons.RoundRobin
		p.charge(ranks, at, &batch[i])
		return true
	})
}

// coldest is the first rank without a request during warm-up, else pick.None.
func (p *kvCacheAware) coldest(ranks []dpRank, r *request, expected int) int {
	if !p.next.warming || r.Strict || r.Target > 0 {
		return pick.None
	}
	for i := range ranks {
		if ranks[i].below(expected) && !slices.Contains(p.next.warm, ranks[i].Key) {
			return i
		}
	}
	return pick.None
}

// charge records a request at a rank.
func (p *kvCacheAware) charge(ranks []dpRank, at int, r *request) {
	ranks[at].Requests++
	ranks[at].Tokens += int64(max(r.Tokens-r.cachedAt(at), 0))
	if !p.next.warming {
		return
	}
	if !slices.Contains(p.next.warm, ranks[at].Key) {
		p.next.warm = append(p.next.warm, ranks[at].Key)
	}
	cold := func(k dpRank) bool { return !slices.Contains(p.next.warm, k.Key) }
	if !slices.ContainsFunc(ranks, cold) || len(p.next.warm) >= mostWarm {
		p.next.warming, p.next.warm = false, p.next.warm[:0]
	}
}

// lastGate implements gated. First turns and those of warm-up are not scored.
func (p *kvCacheAware) lastGate() pick.CacheGate { return p.gate }

// keep implements router.
func (p *kvCacheAware) keep() { p.kept.set(&p.next) }
