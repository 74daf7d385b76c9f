package fleet

// SplitWhen is a rule for which requests are split: one endpoint computes the prompt, and another one answers.
type SplitWhen string

// The rules. The zero value is WhenTime.
const (
	WhenTime SplitWhen = "time" // those that are predicted to cost less in two legs, transfer included
	// as WhenTime, also where no endpoint has a role: who answers is chosen together with who computes the prompt
	WhenFree   SplitWhen = "free"
	WhenAlways SplitWhen = "always" // all that can be
	WhenNever  SplitWhen = "never"  // none
	// those whose prompt has at least as many tokens as the threshold (production-stack PR 890, --routing-threshold)
	WhenTokens SplitWhen = "tokens"
	// those of whose prompt more tokens than the threshold, or all, are not cached at the decoder that was picked
	// (TensorRT-LLM, max_local_prefill_length)
	WhenUncached SplitWhen = "uncached"
)

// SplitWhens lists the rules.
func SplitWhens() []SplitWhen {
	return []SplitWhen{WhenTime, WhenFree, WhenAlways, WhenNever, WhenTokens, WhenUncached}
}

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
	WholeNever  SplitWhy = "never"        // none is split
	WholeShort  SplitWhy = "short"        // its prompt has fewer tokens than the threshold
	WholeWarm   SplitWhy = "warm"         // no more of its prompt than the threshold is uncached where it decodes
	WholeSooner SplitWhy = "whole_sooner" // it is predicted to cost less at one endpoint
	// its kind cannot be split: several answers, several prompts, an API without a protocol
	WholeUnfit SplitWhy = "unfit"
	// it must go to one endpoint: pinned, or the holder of the response it refers to
	WholePinned       SplitWhy = "pinned"
	WholeNoPrefiller  SplitWhy = "no_prefiller"  // no other endpoint can compute its prompt now
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

// Weighed is what a request was predicted to cost as a whole and in two legs, in ms: what it waits, and what others
// wait for it. Both are 0 where that was not asked.
type Weighed struct {
	WholeMs, SplitMs float64
}
