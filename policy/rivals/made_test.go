package rivals

import (
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/stack"
)

// makeRival makes one of the rules by name, including those of package stack.
func makeRival(name string) pick.Policy {
	switch name {
	case "aibrix.prefix_cache":
		return NewAIBrix()
	case "dualmap":
		return NewDualMap(DualMapConfig{}.WithDefaults())
	case "dynamo.kv":
		return NewDynamo()
	case "llmd.default":
		return NewLLMD()
	case "lmetric":
		return NewLMetric()
	case "mooncake.algorithm1":
		return NewMooncake()
	case "preble.e2":
		return NewPreble()
	case "ray.prefix_pow2":
		return NewRay()
	case "smg.cache_aware":
		return NewSMGCacheAware()
	case "smg.prefix_hash":
		return NewSMGPrefixHash()
	case "stack.loadaware":
		return stack.NewLoadAware()
	case "stack.prefixaware":
		return stack.NewPrefixAware()
	case "vllmrouter.consistent_hash":
		return NewVLLMConsistentHash()
	case "vllmrouter.sticky_least_loaded":
		return NewVLLMSticky()
	}
	panic(name)
}
