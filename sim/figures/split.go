package figures

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/drive"
)

// SplitFigures sum up split requests in a fleet with roles. Shares are 0..1, times in ms.
type SplitFigures struct {
	When      string      `json:"when"`
	Threshold int         `json:"threshold"`
	Share     float64     `json:"share"` // of turns that were split
	Why       []WhyFigure `json:"why"`

	Moved      float64 `json:"moved_tokens"` // transferred tokens, mean of split turns
	MovedShare float64 `json:"moved_share"`  // of the prompt tokens of those turns; the decoders had the rest cached
	Prefill    Spread  `json:"prefill_ms"`   // from sending to the end of the prefill leg
	// from the first byte requested to the last received, of turns with a transfer
	Transfer Spread `json:"transfer_ms"`
	// from the end of the prefill leg until the decoder had everything: waiting for room there, and the transfer
	Handed     Spread `json:"handed_ms"`
	FirstToken Spread `json:"first_step_ms"` // from there to the first token

	Pools []PoolFigure `json:"pools"`
}

// WhyFigure is the number of decisions with a reason to split or not.
type WhyFigure struct {
	Why   string `json:"why"`
	Turns int    `json:"turns"`
}

// PoolFigure is the figures of the endpoints of one role.
type PoolFigure struct {
	Role      string  `json:"role"`
	Endpoints int     `json:"endpoints"`
	Prompts   int     `json:"prompts"`  // computed for other endpoints
	Answers   int     `json:"answers"`  // to prompts computed elsewhere
	Whole     int     `json:"whole"`    // whole turns
	HitRate   float64 `json:"hit_rate"` // of prompts computed there
	Busy      float64 `json:"busy"`     // share of the time that its engines were busy
}

// splitOf computes the figures of a fleet with roles; nil for others.
func splitOf(r *drive.Replay, o *drive.Outcome) *SplitFigures {
	if !r.Splits() {
		return nil
	}
	f := &SplitFigures{When: string(r.Disaggregation.When), Threshold: r.Disaggregation.Threshold, Why: []WhyFigure{}}
	if f.When == "" {
		f.When = string(fleet.WhenTime)
	}
	var prefill, transfer, handed, first []time.Duration
	var split, served int
	var moved, prompts int64
	for i := range o.Turns {
		t := &o.Turns[i]
		f.why(string(t.Why))
		if t.Failed {
			continue
		}
		if served++; !t.Why.Splits() {
			continue
		}
		split++
		moved += int64(t.Moved)
		prompts += int64(r.Trace.Turns[t.Turn].Prompt)
		prefill, handed, first = append(prefill, t.Prefill), append(handed, t.Handed),
			append(first, t.TTFT-t.Prefill-t.Handed)
		if t.Moved > 0 {
			transfer = append(transfer, t.MovedTook)
		}
	}
	f.Share = rounded(ratio(float64(split), float64(served)), 6)
	f.Moved, f.MovedShare = rounded(ratio(float64(moved), float64(split)), 1),
		rounded(ratio(float64(moved), float64(prompts)), 6)
	f.Prefill, f.Transfer, f.Handed, f.FirstToken = spread(prefill), spread(transfer), spread(handed), spread(first)
	slices.SortStableFunc(f.Why, func(a, b WhyFigure) int { return b.Turns - a.Turns })
	f.Pools = poolsOf(r, o)
	return f
}

func (f *SplitFigures) why(why string) {
	at := slices.IndexFunc(f.Why, func(w WhyFigure) bool { return w.Why == why })
	if at < 0 {
		at = len(f.Why)
		f.Why = append(f.Why, WhyFigure{Why: why})
	}
	f.Why[at].Turns++
}

// poolsOf computes the figures by role.
func poolsOf(r *drive.Replay, o *drive.Outcome) []PoolFigure {
	var out []PoolFigure
	for _, role := range []fleet.Role{fleet.RolePrefill, fleet.RoleDecode, fleet.RoleBoth} {
		f := PoolFigure{Role: role.String()}
		var busy time.Duration
		var prompt, cached int64
		for i, e := range r.Fleet.Endpoints {
			if e.Role == role {
				f.Endpoints++
				busy += o.Engines[i].Busy
			}
		}
		for i := range o.Turns {
			t := &o.Turns[i]
			if t.Failed {
				continue
			}
			tokens := int64(r.Trace.Turns[t.Turn].Prompt)
			answered := r.Fleet.Endpoints[t.Endpoint].Role == role
			switch {
			case !t.Why.Splits() && answered:
				f.Whole++
			case t.Why.Splits() && answered:
				f.Answers++
			}
			if r.Fleet.Endpoints[t.Computed()].Role != role {
				continue
			}
			if t.Why.Splits() {
				f.Prompts++
			}
			prompt, cached = prompt+tokens, cached+int64(t.Cached)
		}
		if f.Endpoints > 0 {
			f.HitRate = rounded(ratio(float64(cached), float64(prompt)), 6)
			f.Busy = rounded(ratio(busy.Seconds(), o.Span.Seconds()*float64(f.Endpoints)), 6)
			out = append(out, f)
		}
	}
	return out
}
