package cache

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
)

// marksOf are the names of a chain at its quarters: enough to see later that another prompt goes on with it, or between
// which two of them it begins to differ.
func marksOf(chain []uint64) (m [4]uint32) {
	for i := range m {
		if at := len(chain) * (i + 1) / len(m); at > 0 {
			m[i] = uint32(chain[at-1])
		}
	}
	return m
}

// Difference is where a prompt begins to differ from an earlier one, in canonical bytes. The zero value is unknown.
type Difference struct {
	Known     bool
	Continues bool // the prompt has all of the earlier one, and From and To say nothing
	// the bytes that both have, and those by the end of which they differ
	From, To int
}

// DifferenceOf says where a prompt, of which names is the Names, differs from an earlier one. Of the earlier one, bytes
// is its length and marks are what was kept of its text. cached is the number of the prompt's blocks that the earlier
// one's endpoint has cached. If they end between two marks, the prompts differ where they end.
func DifferenceOf(names []uint64, bytes int, marks [4]uint32, cached int) (d Difference) {
	n := blocks.Kept(bytes / fleet.BlockBytes)
	if names == nil || n == 0 || marks == ([4]uint32{}) {
		return d
	}
	d = Difference{Known: true, To: bytes}
	for i, mark := range marks {
		at := n * (i + 1) / len(marks)
		switch {
		case at == 0:
			continue
		case at <= len(names) && uint32(names[at-1]) == mark:
			d.From = blocks.Bytes(at)
			continue
		}
		d.To = blocks.Bytes(at)
		if b := blocks.Bytes(cached); b > d.From && b < d.To {
			d.From, d.To = b, blocks.Bytes(cached+1)
		}
		return d
	}
	d.Continues = true
	return d
}

// Work is how many canonical bytes an endpoint has computed since a conversation's last turn ended there, but for those
// of a lease.
func (r Reader) Work(n, since uint32) int64 {
	l := r.t.leases.Get(int(n))
	return int64(uint32(r.t.endpoints.Get(l.slot).flow)-uint32(l.flow)-since) * fleet.BlockBytes
}
