package split

// Why says in one word why a request was split, or was not. The set is closed: it is a metric label.
type Why string

// Why a request goes to two endpoints.
const (
	Always   Why = "always"   // all are split
	Long     Why = "long"     // its prompt has at least the threshold of tokens
	Uncached Why = "uncached" // more of its prompt than the threshold is not cached where it would decode
	Sooner   Why = "sooner"   // with the transfer it is predicted to cost less than at one endpoint
	Kept     Why = "kept"     // its prompt is computed, and another decoder is to have it
)

// Why it goes to one endpoint although its pool could split it.
const (
	WholeNever  Why = "never"        // none is split
	WholeShort  Why = "short"        // its prompt has fewer tokens than the threshold
	WholeWarm   Why = "warm"         // no more of its prompt than the threshold is uncached where it decodes
	WholeSooner Why = "whole_sooner" // it is predicted to cost less at one endpoint
	// its kind cannot be split: several answers, several prompts, an API without a protocol
	WholeUnfit Why = "unfit"
	// it must go to one endpoint: pinned, or the holder of the response it refers to
	WholePinned       Why = "pinned"
	WholeNoPrefiller  Why = "no_prefiller"  // no other endpoint can compute its prompt now
	WholePrefillFails Why = "prefill_fails" // its prefill leg failed, and the decoder computes the prompt itself
)

// Whys lists the words, those of requests that are split first.
func Whys() []Why {
	return []Why{
		Always, Long, Uncached, Sooner, Kept,
		WholeNever, WholeShort, WholeWarm, WholeSooner, WholeUnfit, WholePinned, WholeNoPrefiller, WholePrefillFails,
	}
}

// Splits reports whether the word is one of a request that goes to two endpoints.
func (w Why) Splits() bool {
	return w == Always || w == Long || w == Uncached || w == Sooner || w == Kept
}
