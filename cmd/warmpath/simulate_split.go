package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// splitFlags are the flags of simulate that need a fleet with roles.
var splitFlags = []string{"disagg-when", "disagg-threshold", "kv-bytes", "kv-bandwidth", "kv-latency"}

func simulateSplitFlags(c *cobra.Command, o *simulateOptions) {
	f := c.Flags()
	f.IntVar(&o.prefill, "prefill", 0,
		"simulated engines that compute prompts for others, instead of --endpoints; needs --decode")
	f.IntVar(&o.decode, "decode", 0, "simulated engines that answer")
	f.StringSliceVar(&o.when, "disagg-when", nil, "which requests are split, to compare: time, always, never, "+
		"tokens, uncached, in a fleet with roles; free (and never, to compare) in any (default time)")
	f.IntSliceVar(&o.thresholds, "disagg-threshold", []int{0},
		"threshold in tokens, used by --disagg-when tokens and uncached; several with commas between are compared")
	f.Lookup("disagg-threshold").DefValue = "0"
	f.Float64Var(&o.transfer.BytesPerToken, "kv-bytes", o.transfer.BytesPerToken, "bytes of KV cache a token")
	f.Float64Var(&o.transfer.Bandwidth, "kv-bandwidth", o.transfer.Bandwidth,
		"bytes of KV cache a second that an engine sends, or receives")
	f.DurationVar(&o.transfer.Latency, "kv-latency", o.transfer.Latency, "time that each transfer takes besides")
	var names []string
	for _, w := range fleet.SplitWhens() {
		names = append(names, string(w))
	}
	_ = c.RegisterFlagCompletionFunc("disagg-when", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// checkSplit reports faults of the flags about roles that can be found without the fleet.
func (o *simulateOptions) checkSplit(changed func(flag string) bool) error {
	var errs []error
	if o.prefill < 0 || o.decode < 0 || o.prefill+o.decode > simrig.Most || (o.prefill > 0) != (o.decode > 0) {
		errs = append(errs,
			fmt.Errorf("--prefill and --decode go together, each at least 1 and both at most %d, got %d and %d",
				simrig.Most, o.prefill, o.decode))
	}
	if o.prefill > 0 {
		for _, flag := range []string{"endpoints", "mixed", "fleet"} {
			if changed(flag) {
				errs = append(errs, fmt.Errorf("--%s has no meaning with --prefill and --decode", flag))
			}
		}
	}
	for _, w := range o.when {
		c := route.Config{
			Policy: func() pick.Policy { return nil }, Disaggregation: route.Disaggregation{When: fleet.SplitWhen(w)},
		}
		if err := c.Validate(); err != nil || w == "" {
			errs = append(errs, fmt.Errorf("--disagg-when: %q is not a rule for splitting requests; known: %v",
				w, fleet.SplitWhens()))
		}
	}
	if changed("disagg-threshold") && !slices.Contains(o.when, string(fleet.WhenTokens)) &&
		!slices.Contains(o.when, string(fleet.WhenUncached)) {
		errs = append(errs,
			errors.New("--disagg-threshold is used by --disagg-when tokens and uncached only; give one of them"))
	}
	for i, t := range o.thresholds {
		if t < 0 {
			errs = append(errs, fmt.Errorf("--disagg-threshold must not be negative, got %d", t))
		}
		if slices.Contains(o.thresholds[:i], t) {
			errs = append(errs, fmt.Errorf("--disagg-threshold names %d twice", t))
		}
	}
	return errors.Join(append(errs, o.transfer.Validate())...)
}

// checkRoles reports flags and policies that do not fit the fleet.
func (o *simulateOptions) checkRoles(changed func(flag string) bool, f simrig.Fleet) error {
	var errs []error
	for _, flag := range splitFlags {
		if changed(flag) && !o.splits(f) {
			errs = append(errs, fmt.Errorf("--%s has no meaning without roles; give --prefill and --decode, "+
				"a fleet file with roles, or --disagg-when free", flag))
		}
	}
	for _, w := range o.when {
		if o.splits(f) && !f.HasRoles() && w != string(fleet.WhenFree) && w != string(fleet.WhenNever) {
			errs = append(errs, fmt.Errorf(
				"--disagg-when: %s splits nothing in a fleet without roles; free and never can be compared there", w))
		}
	}
	if o.find && f.HasRoles() {
		errs = append(errs, errors.New("--find-endpoints: the endpoints have roles, and it finds one number; "+
			"compare numbers of both with --prefill and --decode"))
	}
	if shared, _, _ := o.shared(); shared && o.splits(f) {
		errs = append(errs, errors.New("--staleness: routers that hear of each other are simulated without roles only"))
	}
	for _, name := range o.policies {
		if name == drive.OracleName && o.splits(f) {
			errs = append(errs, errors.New("--policy: oracle places whole requests only, and some may be split"))
		}
	}
	return errors.Join(errs...)
}

// splits reports whether requests may be split: in a fleet with roles, or with a rule that needs none.
func (o *simulateOptions) splits(f simrig.Fleet) bool {
	return f.HasRoles() || slices.Contains(o.when, string(fleet.WhenFree))
}

// splitWay is one way to split requests.
type splitWay struct {
	name string
	route.Disaggregation
}

// ways are those to compare.
func (o *simulateOptions) ways(f simrig.Fleet) []splitWay {
	if !o.splits(f) {
		return []splitWay{{}}
	}
	when := o.when
	if len(when) == 0 {
		when = []string{string(fleet.WhenTime)}
	}
	var out []splitWay
	for _, w := range when {
		when := fleet.SplitWhen(w)
		if when != fleet.WhenTokens && when != fleet.WhenUncached {
			out = append(out, splitWay{w, route.Disaggregation{When: when}})
			continue
		}
		for _, t := range o.thresholds {
			out = append(out, splitWay{w + " " + strconv.Itoa(t), route.Disaggregation{When: when, Threshold: t}})
		}
	}
	return out
}
