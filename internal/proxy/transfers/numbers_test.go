package transfers

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/engine/handover"
)

// The most that a node and a process can be.
const (
	maxNode    = 1<<nodeBits - 1
	maxProcess = 1<<processBits - 1
)

// TestNumbersNeverMeet: routers with nodes or processes of their own, and one router in many goroutines, draw no id
// twice, whatever their clocks do.
func TestNumbersNeverMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "time"), 0)
		step := func() time.Time {
			at = at.Add(time.Duration(rapid.IntRange(-5, 3).Draw(t, "step")) * time.Millisecond)
			return at
		}
		seen := map[uint64]bool{}
		for _, of := range []struct{ node, process int }{
			{0, 0}, {0, 1}, {0, maxProcess}, {1, 0}, {maxNode, maxProcess}, {7, 3},
		} {
			n := NewNumbers(of.node, of.process)
			n.now = step
			for range rapid.IntRange(1, 200).Draw(t, "draws") {
				id := n.Next()
				if seen[id] || id>>63 != 0 || int(id>>16&maxNode) != of.node || int(id>>10&maxProcess) != of.process {
					t.Fatalf("%+v drew %x", of, id)
				}
				seen[id] = true
			}
		}
	})
	for _, node := range []int{-1, 9} {
		n := NewNumbers(node, 0)
		var mu sync.Mutex
		seen := map[uint64]bool{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				ids := make([]uint64, 5000)
				for i := range ids {
					ids[i] = n.Next()
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range ids {
					if seen[handover.DisaggID(id)] {
						t.Errorf("node %d: %x twice", node, id)
					}
					seen[handover.DisaggID(id)] = true
				}
			})
		}
		wg.Wait()
	}
	if a, b := NewNumbers(-1, 0), NewNumbers(-1, 0); a.prefix == b.prefix {
		t.Error("two routers drew the same beginning")
	}
}
