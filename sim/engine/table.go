package engine

import "math/bits"

// table maps a hash to a block: open addressing with linear probing and backward-shift deletion. It is at most half
// full and holds block indices only: 64 kB for a cache of 7,500 blocks.
type table struct {
	slots []int32 // block index, 0 empty
	shift uint
}

func (t *table) init(n int) {
	width := uint(bits.Len(uint(max(2*n, 2) - 1)))
	t.slots = make([]int32, 1<<width)
	t.shift = 64 - width
}

// home is a hash's preferred slot. The multiplication spreads weak hashes, as in tests.
func (t *table) home(hash uint64) int { return int((hash * 0x9E3779B97F4A7C15) >> t.shift) }

// find returns the block with the hash, or 0.
func (t *table) find(blocks []block, hash uint64) int32 {
	mask := len(t.slots) - 1
	for i := t.home(hash); ; i = (i + 1) & mask {
		b := t.slots[i]
		if b == 0 || blocks[b].hash == hash {
			return b
		}
	}
}

// insert adds a block whose hash is not present.
func (t *table) insert(blocks []block, b int32) {
	mask := len(t.slots) - 1
	i := t.home(blocks[b].hash)
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = b
}

// remove removes a block and closes the gap, so that no probe ends too early.
func (t *table) remove(blocks []block, b int32) {
	mask := len(t.slots) - 1
	i := t.home(blocks[b].hash)
	for t.slots[i] != b {
		i = (i + 1) & mask
	}
	for j := i; ; {
		t.slots[i] = 0
		for {
			j = (j + 1) & mask
			if t.slots[j] == 0 {
				return
			}
			// The entry at j may move to i unless its home lies cyclically in (i, j].
			h := t.home(blocks[t.slots[j]].hash)
			if (j-h)&mask >= (j-i)&mask {
				break
			}
		}
		t.slots[i] = t.slots[j]
		i = j
	}
}
