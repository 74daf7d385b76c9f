package backlog

import (
	"fmt"
	"testing"
)

// BenchmarkLink is what many pending transfers to one decoder cost: LinkMs of a candidate, a transfer that begins and
// one that ends, and both after a second in which half of those that are not streamed have arrived.
//
//	go test ./route/internal/backlog -run '^$' -bench Link
func BenchmarkLink(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for _, stream := range []bool{true, false} {
			fill := func() *wire {
				w := newWire(0.1)
				for i := range n {
					k := w.expect(1000+i, 0)
					w.endpoints.Get(0).pendingTransfers[k].stream = stream
					w.Transferring(w.now, k)
				}
				return w
			}
			name := fmt.Sprintf("%d stream=%t ", n, stream)
			b.Run(name+"candidate", func(b *testing.B) {
				w := fill()
				w.wait(1)
				for b.Loop() {
					w.LinkMs(w.now, 0, Transfer{0.1, 10}, 1000, 10)
				}
			})
			b.Run(name+"begin and end", func(b *testing.B) {
				w := fill()
				for i := uint32(0); b.Loop(); i++ {
					w.wait(1)
					k := w.expect(1000, 0)
					w.Transferring(w.now, k)
					w.Close(w.now, i, 0, 0)
				}
			})
			b.Run(name+"candidate late", func(b *testing.B) {
				w := fill()
				w.wait(0.1 * float64(n) * float64(1000+n/2))
				for b.Loop() {
					w.LinkMs(w.now, 0, Transfer{0.1, 10}, 1000, 10)
				}
			})
		}
	}
}
