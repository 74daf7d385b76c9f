package route

import (
	"errors"
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// When says which requests a pool with roles splits.
type When string

// The ways to decide it. The zero value is WhenTime.
const (
	WhenTime     When = "time"     // those that are predicted to cost less in two legs, transfer included
	WhenFree     When = "free"     // as WhenTime, also where no endpoint has a role: who answers is chosen together with who computes the prompt, see weighFree
	WhenAlways   When = "always"   // all that can be
	WhenNever    When = "never"    // none
	WhenTokens   When = "tokens"   // those whose prompt has at least Threshold tokens (production-stack PR 890, --routing-threshold)
	WhenUncached When = "uncached" // those of whose prompt more than Threshold tokens, or all, are not cached at the decoder that was picked (TensorRT-LLM, max_local_prefill_length)
)

// Whens lists them.
func Whens() []When {
	return []When{WhenTime, WhenFree, WhenAlways, WhenNever, WhenTokens, WhenUncached}
}

// Disaggregation says how pools are served whose endpoints have roles. The zero value splits by predicted time, and both sides
// choose by the router's policy.
type Disaggregation struct {
	When      When
	Threshold int // tokens, see When

	// Tokens measures a prompt for WhenTokens; nil goes by the router's own estimate.
	Tokens func(*fleet.Request) int

	Prefill     func() pick.Policy // makes the policy of a pool's prefill legs; nil is Config.Policy
	PrefillName string
	Decode      func() pick.Policy // makes the policy of what decodes, whole requests included; nil is Config.Policy
	DecodeName  string

	// NoFallback answers with an error when nobody can compute the prompt of a request that is to be split. Otherwise the decoder
	// does it itself.
	NoFallback bool
}

func (d *Disaggregation) withDefaults(c *Config) {
	if d.When == "" {
		d.When = WhenTime
	}
	if d.Prefill == nil {
		d.Prefill, d.PrefillName = c.Policy, c.PolicyName
	}
	if d.Decode == nil {
		d.Decode, d.DecodeName = c.Policy, c.PolicyName
	}
}

func (d *Disaggregation) validate() error {
	var errs []error
	if d.When != "" && !slices.Contains(Whens(), d.When) {
		errs = append(errs, fmt.Errorf("%q is no way to decide what is split; known: %v", d.When, Whens()))
	}
	if d.Threshold < 0 {
		errs = append(errs, fmt.Errorf("the threshold is %d tokens, must not be negative", d.Threshold))
	}
	return errors.Join(errs...)
}

// mayPart says whether a request is split as far as that can be told without its candidates. open means that it cannot.
func (r *Router) mayPart(p *pool, req *fleet.Request, tokens int) (why SplitWhy, open bool) {
	d := &r.cfg.Disaggregation
	switch {
	case !p.parts || req.Class != fleet.Turn:
		return "", false
	case req.Pin != "":
		return WholePinned, false
	case req.Fails:
		return WholePrefillFails, false
	case !req.Splits:
		return WholeUnfit, false
	}
	if p.bound() {
		return SplitAlways, false
	}
	switch d.When {
	case WhenNever:
		return WholeNever, false
	case WhenAlways:
		return SplitAlways, false
	case WhenTokens:
		if d.Tokens != nil {
			tokens = d.Tokens(req)
		}
		if tokens < d.Threshold {
			return WholeShort, false
		}
		return SplitLong, false
	default:
		return "", true
	}
}

// uncached decides by what the endpoint that was picked to decode has of the prompt. One that has nothing leaves the prompt to
// others however short it is (TensorRT-LLM, openai_disagg_service.py).
func (r *Router) uncached(v *pick.View, picked int) SplitWhy {
	cached := v.Candidates[picked].CachedTokens
	if cached == 0 || v.PromptTokens-cached > r.cfg.Disaggregation.Threshold {
		return SplitUncached
	}
	return WholeWarm
}

const (
	splitGainMs    = 1.0  // what a split must gain at least
	splitGainShare = 0.05 // and as a share of what the whole costs
)

// weigh decides by predicted time: what the request costs at the best of those that could do all of it, against the best
// of those that could compute the prompt and the best of those that could then decode.
func (r *Router) weigh(d *decision) (SplitWhy, Weighed) {
	whole := -1.0
	for i := range d.whole.Candidates {
		c := &d.whole.Candidates[i]
		prefill := float64((float64(d.whole.PromptTokens-c.PresentTokens) + c.Unsure) * c.MsPerToken)
		// A step that computes prompts makes everybody wait who decodes there.
		stall := float64(float64(c.Decoding) * prefill)
		if cost := c.WaitMs + prefill + c.FixedMs + stall + inLine(c, prefill); whole < 0 || cost < whole {
			whole = cost
		}
	}
	split, first := -1.0, d.prefillMs()
	for i := range d.prefill.Candidates {
		c := &d.prefill.Candidates[i]
		prefill := float64((float64(d.prefill.PromptTokens-c.CachedTokens) + c.Unsure) * c.MsPerToken)
		c.DelayMs = float64(float64(c.Decoding) * prefill) // one without a role answers too
		if cost := c.WaitMs + prefill + c.FixedMs + c.DelayMs + inLine(c, prefill); split < 0 || cost < split {
			split = cost
		}
	}
	moved := -1.0
	for i := range d.whole.Candidates {
		c := &d.whole.Candidates[i]
		tokens := float64(d.whole.PromptTokens - c.CachedTokens)
		pace := r.speed.Reader().Transfer(d.now, c.Slot)
		wait := r.backlog.Reader().LegWaitMs(d.now, c, r.speed.Reader())
		shared := r.backlog.Reader().LinkMs(d.now, c.Slot, pace, tokens, first)
		cost := max(0, wait-first) + pace.FixedMs + float64(tokens*pace.MsPerToken) + float64(2*shared)
		if moved < 0 || cost < moved {
			moved = cost
		}
	}
	w := Weighed{WholeMs: whole, SplitMs: split + moved}
	if w.SplitMs+max(splitGainMs, float64(splitGainShare*whole)) < whole {
		return SplitSooner, w
	}
	return WholeSooner, w
}

// inLine is what a prompt that takes so many ms costs others where the shortest goes first: those in line that it goes in front of wait for it.
// While it stands in line itself few do, those that are not much shorter (see Queue.Patience), and they are not counted.
func inLine(c *pick.Candidate, prefill float64) float64 {
	return burden(c, c.WaitMs-c.LineMs, prefill) + float64(float64(c.Behind)*prefill)
}

// burden is what those who come after wait for a prompt of so many ms that waits for so many itself (M/G/1, as in the policy least_ttft).
func burden(c *pick.Candidate, wait, prefill float64) float64 {
	const fullBusy = 0.9
	rate := c.TurnsPerMs / (1 - min(c.Busy, fullBusy))
	return float64(float64(rate*prefill) * (wait + prefill/2))
}
