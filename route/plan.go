package route

import "github.com/warmpath/warmpath/pick"

// Plan is where a request goes: as a whole to one endpoint, or with its prompt to one endpoint and with its answer to another.
type Plan struct {
	Decision          // of the whole request, or of the leg that answers; Lease is 0 when only a prefill leg was asked for
	Prefill  Decision // of the leg that computes the prompt; Lease is 0 when there is none

	View *pick.View // what the policy saw; nil of a request that is split. It is valid until the next decision and may not be changed
}

// Split reports whether the request goes to two endpoints.
func (p *Plan) Split() bool { return p.Prefill.Lease != 0 }

// SplitWhy says in one word why a request was split, or was not. The set is closed: it is a metric label.
type SplitWhy string

// Why a request goes to two endpoints.
const (
	SplitAlways   SplitWhy = "always"   // all are split
	SplitLong     SplitWhy = "long"     // its prompt has at least the threshold of tokens
	SplitUncached SplitWhy = "uncached" // more of its prompt than the threshold is not cached where it would decode
	SplitSooner   SplitWhy = "sooner"   // with the transfer it is predicted to cost less than at one endpoint
	SplitKept     SplitWhy = "kept"     // its prompt is computed, and another decoder is to have it
)

// Why it goes to one endpoint although its pool could split it.
const (
	WholeNever        SplitWhy = "never"         // none is split
	WholeShort        SplitWhy = "short"         // its prompt has fewer tokens than the threshold
	WholeWarm         SplitWhy = "warm"          // no more of its prompt than the threshold is uncached where it decodes
	WholeSooner       SplitWhy = "whole_sooner"  // it is predicted to cost less at one endpoint
	WholeUnfit        SplitWhy = "unfit"         // its kind cannot be split: several answers, several prompts, an API without a protocol
	WholePinned       SplitWhy = "pinned"        // it must go to one endpoint: pinned, or to whoever holds the response it refers to
	WholeNoPrefiller  SplitWhy = "no_prefiller"  // nobody else can compute its prompt now
	WholePrefillFails SplitWhy = "prefill_fails" // its prefill leg failed, and the decoder computes the prompt itself
)

// SplitWhys lists the words, those of requests that are split first.
func SplitWhys() []SplitWhy {
	return []SplitWhy{
		SplitAlways, SplitLong, SplitUncached, SplitSooner, SplitKept,
		WholeNever, WholeShort, WholeWarm, WholeSooner, WholeUnfit, WholePinned, WholeNoPrefiller, WholePrefillFails,
	}
}

// Splits reports whether the word is one of a request that goes to two endpoints.
func (w SplitWhy) Splits() bool {
	return w == SplitAlways || w == SplitLong || w == SplitUncached || w == SplitSooner || w == SplitKept
}

// Weighed is what a request was predicted to cost as a whole and in two legs, in ms; both are 0 when that was not asked.
// The costs are what the request waits, and what others wait for it.
type Weighed struct {
	WholeMs, SplitMs float64
}
