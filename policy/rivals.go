package policy

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Rivals are the rules of other routers and papers, each in a file of its own with its source and published defaults, so that
// they can be compared with on the same fleet. Common to them:
//
//   - They know no weights, as the originals do not.
//   - What an original reads of a prompt's characters or tokens is read of the blocks of Request.Content, 128 bytes each.
//     Where its rule is in tokens and it estimates them, a token is 4 bytes.
//   - An original with a tree of what it sent where has one here too (memory), not the router's belief. One that hears
//     from the engines what they hold is given Candidate.CachedTokens in its place.
//   - The load that an original counts by itself is the router's books.
//
// Their reasons are a few for all.
const (
	ReasonCacheMatch pick.Reason = "cache_match" // it holds enough of the prompt
	ReasonLoad       pick.Reason = "load"        // least loaded, by the rule's measure
	ReasonHash       pick.Reason = "hash"        // where the hash of the session or of the prompt falls
	ReasonScore      pick.Reason = "score"       // the best by a score of several figures
)

// bytesPerToken is what estimates of tokens by characters commonly take.
const bytesPerToken = 4

func rivals() []kind {
	return []kind{
		{"aibrix.prefix_cache", "AIBrix prefix-cache: most of the prompt cached, load within one standard deviation", newAIBrix, true},
		{"dualmap", "DualMap: of two endpoints by hash of the prefix the warmer, the other beyond the TTFT objective", newDualMap, true},
		{"dynamo.kv", "NVIDIA Dynamo kv: fewest blocks to compute plus blocks active, temperature 0", newDynamo, true},
		{"llmd.default", "llm-d endpoint picker without configuration: 2 queue + 2 KV cache + 3 prefix", newLLMD, true},
		{"lmetric", "LMetric: smallest product of tokens to compute and batch size", newLMetric, true},
		{"mooncake.algorithm1", "Mooncake conductor: smallest estimated time to first token", newMooncake, true},
		{"preble.e2", "Preble E2: exploit a long match, else explore by load, eviction and prefill cost", newPreble, true},
		{"ray.prefix_pow2", "Ray Serve LLM: longest match above 10 %, else the smallest tree", newRay, true},
		{"smg.cache_aware", "SMG cache_aware: match above 30 % while loads are in balance, else least loaded", newSMGCacheAware, true},
		{"smg.prefix_hash", "SMG prefix_hash: hash of the first 256 tokens within 1.25 times the mean load", newSMGPrefixHash, true},
		{"stack.loadaware", "production-stack loadaware: share of the prompt cached less relative load", newStackLoadAware, true},
		{"stack.prefixaware", "production-stack prefixaware: longest match, whatever the load", newStackPrefixAware, true},
		{"vllmrouter.consistent_hash", "vllm-router consistent_hash: ring of 160 places, by session or by prompt", newVLLMConsistentHash, false},
		{"vllmrouter.sticky_least_loaded", "vllm-router sticky_least_loaded: fewest sessions first, then always there", newVLLMSticky, false},
	}
}

// RivalNames lists those of Names that are rules of other routers and of papers, sorted.
func RivalNames() []string { return namesOf(slices.Concat(rivals(), ranks(), founding())) }

func namesOf(kinds []kind) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	slices.Sort(names)
	return names
}

// blocksOf is the chain of a request's prompt, nil when it is not known.
func blocksOf(r *fleet.Request) []uint64 {
	if r.Content == nil {
		return nil
	}
	return r.Content.Blocks
}

// bytesOf is the length of a request's prompt in canonical bytes, 0 when it is not known.
func bytesOf(r *fleet.Request) int {
	if r.Content == nil {
		return 0
	}
	return r.Content.Bytes
}

// lowest picks the candidate with the smallest figure; equals are drawn evenly.
func lowest(v *pick.View, of func(c *pick.Candidate) float64) int {
	at, equals, best := 0, 0, 0.0
	for i := range v.Candidates {
		f := of(&v.Candidates[i])
		switch {
		case equals == 0 || f < best:
			at, equals, best = i, 1, f
		case f == best:
			equals++
			if v.Rand.IntN(equals) == 0 {
				at = i
			}
		}
	}
	return at
}

// uncached is how many tokens of the prompt a candidate would have to compute.
func uncached(v *pick.View, c *pick.Candidate) float64 {
	return float64(max(0, v.PromptTokens-c.CachedTokens))
}

// outstanding is how many requests a candidate holds by the router's books.
func outstanding(c *pick.Candidate) float64 { return float64(c.Load.Requests) }

// spread says how many requests the least and the most loaded hold, and how many all hold.
func spread(cs []pick.Candidate) (fewest, most, total int) {
	fewest = cs[0].Load.Requests
	for i := range cs {
		n := cs[i].Load.Requests
		fewest, most, total = min(fewest, n), max(most, n), total+n
	}
	return fewest, most, total
}
