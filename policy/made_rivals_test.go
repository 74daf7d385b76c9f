package policy

import (
	"github.com/warmpath/warmpath/pick"
)

// makeRival makes one of the rules by name, those of package stack included.
func makeRival(name string) pick.Policy {
	switch name {
	case "aibrix.prefix_cache":
		return newAIBrix()
	case "dualmap":
		return newDualMap(DualMapConfig{}.WithDefaults())
	case "dynamo.kv":
		return newDynamo()
	case "llmd.default":
		return newLLMD()
	case "lmetric":
		return newLMetric()
	case "mooncake.algorithm1":
		return newMooncake()
	case "preble.e2":
		return newPreble()
	case "ray.prefix_pow2":
		return newRay()
	case "smg.cache_aware":
		return newSMGCacheAware()
	case "smg.prefix_hash":
		return newSMGPrefixHash()
	case "stack.loadaware":
		return newStackLoadAware()
	case "stack.prefixaware":
		return newStackPrefixAware()
	case "vllmrouter.consistent_hash":
		return newVLLMConsistentHash()
	case "vllmrouter.sticky_least_loaded":
		return newVLLMSticky()
	}
	panic(name)
}
