package tune

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The live heap of a router is small (some 10 MB) and its garbage young, so that Go's default of collecting whenever
// the heap has doubled collects many times a second. gcSpare lets it grow by so much before the next collection.
const (
	gcSpare    = 24 << 20
	gcMost     = 400 // percent
	gcLeast    = 50
	gcInterval = 2 * time.Second
)

// GC keeps the collector's target at gcSpare above the live heap, or at half of it above where that is more (most of a
// large heap are tables without pointers, which cost the collector nothing), until ctx ends.
func GC(ctx context.Context) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(gcInterval)
	defer tick.Stop()
	for set := 0; ; {
		metrics.Read(live)
		if v := live[0].Value; v.Kind() == metrics.KindUint64 {
			percent := int(min(max(gcSpare*100/max(v.Uint64(), 1), gcLeast), gcMost))
			if percent*10 < set*9 || percent*9 > set*10 { // small changes are not worth stopping the world for
				set = percent
				debug.SetGCPercent(percent)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
