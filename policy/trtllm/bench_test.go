package trtllm

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
)

// BenchmarkTRTLongPrompts is a turn of one of many conversations with prompts of 100 kB, 800 blocks, of which the first
// 200 are common to all.
func BenchmarkTRTLongPrompts(b *testing.B) {
	const talks = 500
	for _, name := range []string{"trtllm.conversation", "trtllm.kv_cache_aware"} {
		for _, ids := range []string{"ids", "noids"} {
			b.Run(name+"/"+ids, func(b *testing.B) {
				p, cs := pick.Install(makeTRT(b, router{Name: name})), policytest.Same(8)
				asked := make([]*fleet.Request, talks)
				for i := range asked {
					asked[i] = policytest.Words(200, i+2, 600)
					if ids == "ids" {
						asked[i].Session = "s"
					}
				}
				i := 0
				turn := func() {
					r := asked[i%talks]
					v := policytest.Asks(cs, 25_000)
					v.Hash = byhash.Mix(uint64(i % talks))
					c := policytest.PlaceBy(p, v, r)
					p.Hooks.Reserved(fleet.Lease(i+1)<<32, &cs[c.Index], v, r)
					p.Hooks.Released(fleet.Lease(i+1)<<32, true)
					i++
				}
				for range talks {
					turn()
				}
				b.ReportAllocs()
				for b.Loop() {
					turn()
				}
			})
		}
	}
}
