package route

import (
	"errors"
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/split"
)

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

// Disaggregation configures pools with roles. The zero value splits by predicted time, and both sides use the router's policy.
type Disaggregation struct {
	When      When
	Threshold int // tokens, see When

	// Tokens measures a prompt for WhenTokens; nil uses the router's own estimate.
	Tokens func(*fleet.Request) int

	Prefill     func() pick.Policy // policy for a pool's prefill legs; nil is Config.Policy
	PrefillName string
	Decode      func() pick.Policy // policy for decode legs and whole requests; nil is Config.Policy
	DecodeName  string

	// NoFallback returns an error when no endpoint can compute the prompt of a request that should be split. Otherwise the
	// decoder computes it.
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
		errs = append(errs, fmt.Errorf("%q is not a rule for splitting requests; known: %v", d.When, Whens()))
	}
	if d.Threshold < 0 {
		errs = append(errs, fmt.Errorf("the threshold is %d tokens, must not be negative", d.Threshold))
	}
	return errors.Join(errs...)
}

// rule is the rule for splitting.
func (d *Disaggregation) rule() split.Rule {
	return split.Rule{When: d.When, Threshold: d.Threshold, Tokens: d.Tokens}
}

// prices sets the costs of delays between prompts and answers, if costs decide about splitting.
func (r *readers) prices(d *decision, v *pick.View) {
	rule := r.cfg.Disaggregation.rule()
	if !d.open || rule.When == WhenUncached {
		return
	}
	v.Splits, v.Interrupts = true, rule.Interrupts()
	if rule.When == WhenFree && v.Leg == fleet.LegWhole {
		v.AnswerWait = split.AnswerWait
		r.speed.FillAnswers(v)
	}
}

// weighFree decides about splitting without roles, and which endpoint answers.
func (r *readers) weighFree(d *decision) (SplitWhy, Weighed, pick.Choice) {
	f := split.Begin(&d.prefill, &d.whole)
	for i, row := range f.Prefiller {
		if row >= 0 {
			r.fillDecode(d, f.ReadyMs(i))
			f.Pair(i, &d.decode)
		}
	}
	why, w, row := f.Choose(&d.decode)
	return why, w, pick.Choice{Index: row, Reason: pick.ReasonWeighed}
}
