package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// The books of the two legs of a request. A prefill leg is outstanding until its prompt is computed, and in transfer
// until its decoder has the KV cache. A decode leg is outstanding from the beginning, since it will come, and in transfer
// until its first byte.

// part takes from what a whole request would add to the books what the other leg adds.
func (f *flight) part(d *Decision) {
	switch f.leg {
	case fleet.LegPrefill:
		f.decode, f.context, f.transfer = 0, int64(d.PromptTokens), int64(d.PromptTokens)
	case fleet.LegDecode:
		f.prefill, f.transfer = 0, int64(d.PromptTokens-d.CachedTokens)
	case fleet.LegWhole:
	}
}

// computedLeg notes that the first byte came.
func (r *Router) computedLeg(now time.Time, f *flight) {
	l := &f.ep.load
	switch f.leg {
	case fleet.LegPrefill:
		l.Requests--
		l.TransferRequests++
		l.TransferTokens += f.transfer
		return
	case fleet.LegDecode:
		l.TransferRequests--
		l.TransferTokens -= f.transfer
		r.came(now, f)
		r.learnTransfer(now, f)
	case fleet.LegWhole:
	}
}

// leave takes a flight that ends off the count of requests.
func (r *Router) leave(now time.Time, f *flight) {
	l := &f.ep.load
	inTransfer := f.leg != fleet.LegWhole && f.prefilled == (f.leg == fleet.LegPrefill)
	if inTransfer {
		l.TransferRequests--
		l.TransferTokens -= f.transfer
		if f.leg == fleet.LegDecode {
			r.came(now, f)
		}
	}
	if !inTransfer || f.leg == fleet.LegDecode {
		l.Requests--
	}
}

// about is what the end of a leg says about its own endpoint. A decoder's count of the prompt and of what was cached is the
// prefiller's; the one token that a prefiller makes is no answer.
func (f *flight) about(ev *Finished) Finished {
	told := *ev
	switch f.leg {
	case fleet.LegPrefill:
		told.Usage.OutputTokens = 0
	case fleet.LegDecode:
		told.Usage.CachedTokens, told.Usage.CachedKnown = 0, false
	case fleet.LegWhole:
	}
	return told
}
