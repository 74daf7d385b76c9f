package reported

import "github.com/warmpath/warmpath/route/internal/bound"

// loose keeps the latest blocks that were stored and not bound, by the block they follow, for when it becomes known
// whose that is.
type loose struct {
	after map[uint64][]uint64
	order bound.Ring[uint64] // of the last bound.Many
}

func (l *loose) put(parent uint64, names []uint64) {
	if parent == 0 {
		return // the beginning of a prompt follows nothing
	}
	if l.after == nil {
		l.after = map[uint64][]uint64{}
	}
	oldest := l.order.Next(bound.Many)
	delete(l.after, *oldest)
	l.after[parent], *oldest = append([]uint64(nil), names...), parent
}

// takeContinuation takes out what goes on from a chain: a run that begins after its last block, or after an earlier one
// and contains the last.
func (l *loose) takeContinuation(chain []uint64) []uint64 {
	if len(l.after) == 0 {
		return nil
	}
	tail := chain[len(chain)-1]
	for i := len(chain) - 1; i >= max(0, len(chain)-bound.Look); i-- {
		names := l.after[chain[i]]
		if past := len(chain) - 1 - i; len(names) > past && (past == 0 || names[past-1] == tail) {
			delete(l.after, chain[i])
			return names[past:]
		}
	}
	return nil
}
