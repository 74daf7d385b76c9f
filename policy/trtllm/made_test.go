package trtllm

import (
	"testing"

	"github.com/warmpath/warmpath/pick"
)

// router is one of TensorRT-LLM's routers with its options.
type router struct {
	Name   string
	TRTLLM Config
}

func makeTRT(t testing.TB, c router) pick.Policy {
	t.Helper()
	o := c.TRTLLM.WithDefaults()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	switch c.Name {
	case "trtllm.conversation":
		return NewConversation(o.Conversation)
	case "trtllm.kv_cache_aware":
		return NewKVCacheAware(o.KVCacheAware)
	case "trtllm.load_balancing":
		return NewLoadBalancing(o.LoadBalancing)
	case "trtllm.round_robin":
		return NewRoundRobin()
	}
	t.Fatal(c.Name)
	return nil
}
