package policy

import (
	"slices"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/policy/rank"
	"github.com/warmpath/warmpath/policy/rivals"
	"github.com/warmpath/warmpath/policy/stack"
	"github.com/warmpath/warmpath/policy/trtllm"
)

// kind is one row of the registry.
type kind struct {
	name     string
	describe string                     // one line for help texts and documentation
	make     func(c Config) pick.Policy // constructor; the configuration is valid and has its defaults
}

// kinds lists the policies, ours before the rivals.
func kinds() []kind { return slices.Concat(ours(), theirs()) }

func ours() []kind {
	return []kind{
		{
			"consistent_hash",
			"rendezvous with a limit on each endpoint's share of requests",
			func(c Config) pick.Policy { return basic.NewConsistentHash(c.ConsistentHash) },
		},
		{"least_requests", "fewest outstanding requests per weight", always(basic.NewLeastRequests)},
		{nameLeastTokens, "fewest tokens still to compute per weight", always(basic.NewLeastTokens)},
		{
			nameLeastTTFT,
			"shortest predicted time to first token, including the delay of other requests",
			func(c Config) pick.Policy { return leastttft.New(c.LeastTTFT) },
		},
		{"power_of_two", "the less loaded of two endpoints drawn by weight", always(basic.NewPowerOfTwo)},
		{"random", "at random, in proportion to weight", always(basic.NewRandom)},
		{
			"rendezvous",
			"by hash of the conversation, equal on every replica, ignoring load",
			always(basic.NewRendezvous),
		},
		{"round_robin", "smooth weighted round robin", always(basic.NewRoundRobin)},
		{nameSession, "the conversation's endpoint; the fallback policy places new conversations", newSessionOf},
	}
}

// newSessionOf makes session with a fallback from the same configuration.
func newSessionOf(c Config) pick.Policy {
	k, _ := find(c.Session.Fallback)
	return basic.NewSession(k.make(c))
}

// theirs are rules of other routers and of papers.
func theirs() []kind {
	return []kind{
		{
			"aibrix.prefix_cache",
			"AIBrix prefix-cache: most of the prompt cached, load within one standard deviation",
			always(rivals.NewAIBrix),
		},
		{
			"dualmap",
			"DualMap: the warmer of two endpoints by prefix hash, the other one beyond the TTFT objective",
			func(c Config) pick.Policy { return rivals.NewDualMap(c.DualMap) },
		},
		{
			"dynamo.kv",
			"NVIDIA Dynamo kv: fewest blocks to compute plus active blocks, temperature 0",
			always(rivals.NewDynamo),
		},
		{
			"llmd.default",
			"llm-d endpoint picker without configuration: 2 queue + 2 KV cache + 3 prefix",
			always(rivals.NewLLMD),
		},
		{"lmetric", "LMetric: smallest product of tokens to compute and batch size", always(rivals.NewLMetric)},
		{
			"mooncake.algorithm1",
			"Mooncake conductor: smallest estimated time to first token",
			always(rivals.NewMooncake),
		},
		{
			"preble.e2",
			"Preble E2: exploit a long match, else explore by load, eviction and prefill cost",
			always(rivals.NewPreble),
		},
		{"ray.prefix_pow2", "Ray Serve LLM: longest match above 10 %, else the smallest tree", always(rivals.NewRay)},
		{
			"smg.cache_aware",
			"SMG cache_aware: match above 30 % while loads are in balance, else least loaded",
			always(rivals.NewSMGCacheAware),
		},
		{
			"smg.prefix_hash",
			"SMG prefix_hash: hash of the first 256 tokens within 1.25 times the mean load",
			always(rivals.NewSMGPrefixHash),
		},
		{
			"stack.loadaware",
			"production-stack loadaware: cached share of the prompt minus relative load",
			always(stack.NewLoadAware),
		},
		{
			"stack.prefixaware",
			"production-stack prefixaware: longest match, ignoring load",
			always(stack.NewPrefixAware),
		},
		{
			"vllmrouter.consistent_hash",
			"vllm-router consistent_hash: ring of 160 places, by session or by prompt",
			always(rivals.NewVLLMConsistentHash),
		},
		{
			"vllmrouter.sticky_least_loaded",
			"vllm-router sticky_least_loaded: a new session to the endpoint with fewest sessions, then always there",
			always(rivals.NewVLLMSticky),
		},
		{
			"rank.conversation",
			"TensorRT-LLM ranks by conversation: new ones in round robin, known ones at home",
			func(c Config) pick.Policy { return rank.NewConversation(c.Rank) },
		},
		{
			"rank.default",
			"TensorRT-LLM ranks: fewest prompt tokens among those below their fair share of requests",
			func(c Config) pick.Policy { return rank.NewDefault(c.Rank) },
		},
		{
			"rank.first_turn",
			"TensorRT-LLM ranks, PR 14744: first turns in round robin, then by cache and load",
			func(c Config) pick.Policy { return rank.NewFirstTurn(c.Rank) },
		},
		{
			"rank.kv_cache_aware",
			"TensorRT-LLM ranks, PR 13198: by cache and load, with hit-rate gate and fair-share cap",
			func(c Config) pick.Policy { return rank.NewKVCacheAware(c.Rank) },
		},
		{
			"stack.least_loaded",
			"production-stack PR 890 least_loaded: fewest requests in the engines' reports, else round robin",
			always(stack.NewLeastLoaded),
		},
		{"stack.round_robin", "production-stack PR 890 round_robin", always(stack.NewRoundRobin)},
		{
			"trtllm.conversation",
			"TensorRT-LLM conversation: where the conversation was (by id or 75 % of its blocks), else least loaded",
			func(c Config) pick.Policy { return trtllm.NewConversation(c.TRTLLM.Conversation) },
		},
		{
			"trtllm.kv_cache_aware",
			"TensorRT-LLM kv_cache_aware: cached share of the prompt minus share of slots taken, " +
				"or blocks minus requests",
			func(c Config) pick.Policy { return trtllm.NewKVCacheAware(c.TRTLLM.KVCacheAware) },
		},
		{
			"trtllm.load_balancing",
			"TensorRT-LLM load_balancing: fewest active requests, or tokens",
			func(c Config) pick.Policy { return trtllm.NewLoadBalancing(c.TRTLLM.LoadBalancing) },
		},
		{"trtllm.round_robin", "TensorRT-LLM round_robin: in order of declaration", always(trtllm.NewRoundRobin)},
	}
}

// always is a constructor without options.
func always(make func() pick.Policy) func(Config) pick.Policy {
	return func(Config) pick.Policy { return make() }
}

func namesOf(kinds []kind) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	slices.Sort(names)
	return names
}

func find(name string) (kind, bool) {
	for _, k := range kinds() {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}
