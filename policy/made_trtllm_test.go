package policy

import (
	"testing"

	"github.com/warmpath/warmpath/pick"
)

// router names one of TensorRT-LLM's routers and its options.
type router struct {
	Name   string
	TRTLLM TRTLLMConfig
}

func makeTRT(t testing.TB, c router) pick.Policy {
	t.Helper()
	o := c.TRTLLM.WithDefaults()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	switch c.Name {
	case "trtllm.conversation":
		return newTRTConversation(o.Conversation)
	case "trtllm.kv_cache_aware":
		return newTRTKVCacheAware(o.KVCacheAware)
	case "trtllm.load_balancing":
		return newTRTLoadBalancing(o.LoadBalancing)
	case "trtllm.round_robin":
		return newTRTRoundRobin()
	}
	t.Fatal(c.Name)
	return nil
}
