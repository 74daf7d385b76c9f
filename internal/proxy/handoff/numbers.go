package handoff

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Numbers draws the numbers that protocols make request ids of, so that no two of one router are the same, nor of two routers.
//
// With a node they are laid out as TensorRT-LLM's orchestrator lays them out (disagg_utils.py): 39 bits of milliseconds, 8 of the node, 6 of
// the process, 10 that count, so that routers and orchestrators with nodes of their own never collide. Theirs is the clock since
// the machine started; this one is the wall clock that never goes back, so that a router which starts again does not repeat
// itself. Without a node, 40 bits that are drawn when the router starts stand for the first three, and 23 count: two routers share
// the 40 bits once in 10^12.
type Numbers struct {
	prefix uint64
	timed  bool
	last   atomic.Uint64 // timed: ms<<10|count; else count
	now    func() time.Time
}

// The widths of the parts.
const (
	countBits   = 10
	processBits = 6
	nodeBits    = 8
	timeBits    = 39
	aloneBits   = 23 // of the count when there is no node
)

// NewNumbers makes a source for a node (0 to 255, negative for none) and a process of it (0 to 63).
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
		next := max(last+1, uint64(n.now().UnixMilli())<<countBits) // more than 1,024 in a millisecond are taken from the next
		if n.last.CompareAndSwap(last, next) {
			ms, count := next>>countBits&(1<<timeBits-1), next&(1<<countBits-1)
			return ms<<(nodeBits+processBits+countBits) | n.prefix | count
		}
	}
}
