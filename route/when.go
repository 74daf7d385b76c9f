package route

import "github.com/warmpath/warmpath/route/internal/split"

// When is a rule for which requests are split, see package split.
type When = split.When

// The rules. The zero value is WhenTime.
const (
	WhenTime     = split.WhenTime
	WhenFree     = split.WhenFree
	WhenAlways   = split.WhenAlways
	WhenNever    = split.WhenNever
	WhenTokens   = split.WhenTokens
	WhenUncached = split.WhenUncached
)

// Whens lists the rules.
func Whens() []When { return split.Whens() }

// SplitWhy is the word that says why a request was split or not.
type SplitWhy = split.Why

// SplitWhys lists the words, those of split requests first.
func SplitWhys() []SplitWhy { return split.Whys() }

// The words, see package split.
const (
	SplitAlways       = split.Always
	SplitLong         = split.Long
	SplitUncached     = split.Uncached
	SplitSooner       = split.Sooner
	SplitKept         = split.Kept
	WholeNever        = split.WholeNever
	WholeShort        = split.WholeShort
	WholeWarm         = split.WholeWarm
	WholeSooner       = split.WholeSooner
	WholeUnfit        = split.WholeUnfit
	WholePinned       = split.WholePinned
	WholeNoPrefiller  = split.WholeNoPrefiller
	WholePrefillFails = split.WholePrefillFails
)

// Weighed is the predicted cost of a request whole and split.
type Weighed = split.Weighed
