package transfers

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Numbers draws the numbers for protocols' request ids, unique within a router and between routers.
//
// With a node the layout is that of TensorRT-LLM's orchestrator (disagg_utils.py): 39 bits of milliseconds, 8 of the
// node, 6 of the process, 10 of a counter, so that routers and orchestrators with different nodes never collide. The
// orchestrator counts milliseconds since the machine started. This clock is the wall clock, never set back, so that a
// restarted router does not repeat numbers. Without a node, 40 random bits drawn at start replace the first three
// parts, and 23 bits count: two routers share the 40 bits once in 10^12.
type Numbers struct {
	prefix uint64
	timed  bool
	last   atomic.Uint64 // with a node: ms<<10|count; else count
	now    func() time.Time
}

// Widths of the parts in bits.
const (
	countBits   = 10
	processBits = 6
	nodeBits    = 8
	timeBits    = 39
	aloneBits   = 23 // of the count without a node
)

// NewNumbers makes a source for a node (0 to 255; negative for none) and process (0 to 63).
func NewNumbers(node, process int) *Numbers {
	n := &Numbers{now: time.Now, timed: node >= 0}
	if n.timed {
		n.prefix = uint64(node)<<(processBits+countBits) | uint64(process)<<countBits
		return n
	}
	n.prefix = rand.Uint64() >> 1 &^ (1<<aloneBits - 1)
	return n
}

// Next draws a number of at most 63 bits. It is safe for concurrent use.
func (n *Numbers) Next() uint64 {
	if !n.timed {
		return n.prefix | n.last.Add(1)&(1<<aloneBits-1)
	}
	for {
		last := n.last.Load()
		// more than 1,024 in a millisecond use the next one's
		next := max(last+1, uint64(n.now().UnixMilli())<<countBits)
		if n.last.CompareAndSwap(last, next) {
			ms, count := next>>countBits&(1<<timeBits-1), next&(1<<countBits-1)
			return ms<<(nodeBits+processBits+countBits) | n.prefix | count
		}
	}
}
