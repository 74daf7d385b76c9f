package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestWholeDoesNotCountOnWhatIsComing: a whole request at a decoder can use the blocks that have arrived, not those
// that a decode leg still waits for.
func TestWholeDoesNotCountOnWhatIsComing(t *testing.T) {
	r := route.New(route.Config{Policy: func() pick.Policy {
		return firstLeast{}
	}, Disaggregation: route.Disaggregation{When: fleet.WhenTokens, Threshold: 1000}})
	now := time.Unix(1000, 0)
	r.Observe(now, declared([]string{"s", "p,role=prefill,model=m", "d,role=decode,model=m"}))
	blocks := make([]uint64, 64)
	for i := range blocks {
		blocks[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	ask := func(id string, n int) route.Plan {
		t.Helper()
		bytes := n * fleet.BlockBytes
		plan, err := r.Decide(now, &fleet.Request{
			ID: id, Seed: 1, Model: "m", Session: id, PromptTokens: bytes / 4, Stream: true, Splits: true,
			Content: &fleet.Content{Blocks: blocks[:n], Bytes: bytes},
		})
		if err != nil {
			t.Fatal(err)
		}
		return plan.Plan
	}
	long := ask("long", 64)
	if !long.Split() {
		t.Fatalf("%+v", long)
	}
	before := ask("before", 16)
	if before.Split() || before.CachedTokens != 0 {
		t.Errorf("while it is coming: split %t, %d cached tokens", before.Split(), before.CachedTokens)
	}
	r.Observe(now, route.Finished{Lease: before.Lease, Outcome: fleet.ClientGone})
	r.Observe(now, route.FirstByte{Lease: long.Prefill.Lease})
	r.Observe(now, route.Transferring{Lease: long.Lease})
	r.Observe(now, route.FirstByte{Lease: long.Lease})
	after := ask("after", 16)
	if after.Split() || after.CachedTokens < 400 {
		t.Errorf("when it has come: split %t, %d cached tokens", after.Split(), after.CachedTokens)
	}
}
