// Package policy is the registry of policies: names, options, reasons, and New.
//
// It owns the list of policies and implements none; the packages below it do, and each has the Config with its options.
// Every name in Names makes a policy, and Validate reports every fault of a configuration at once.
//
// Rules for all policies:
//
//   - Equal views and equal state give equal picks on every machine. Where a float decides, sums and products are
//     rounded one by one (an assignment or a conversion prevents fused operations).
//   - Weight is a share of traffic: loads are compared per weight, and ties are drawn in proportion to weight, never
//     in order of the list. Rivals (rules of other routers) ignore weights.
//   - A pick allocates nothing.
package policy

import (
	"fmt"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
)

// Default is the name of the default policy.
const Default = nameLeastTTFT

// Names used by the registry itself.
const (
	nameLeastTTFT   = "least_ttft"
	nameLeastTokens = "least_tokens"
	nameSession     = "session"
)

// ReadsContent reports whether the configured policy uses cached prefixes, so that prompts should be parsed even when
// requests name their conversation.
func ReadsContent(c Config) bool {
	return needs(c).Content
}

// NeedsIDs reports whether the configured policy tells first turns from later ones by clients' conversation ids alone.
// Without ids it works, and gains little.
func NeedsIDs(c Config) bool {
	return needs(c).IDs
}

// needs are those of the configured policy; none for a configuration with faults.
func needs(c Config) (n pick.Needs) {
	if make, err := New(c); err == nil {
		n = make().Needs()
	}
	return n
}

// Queue returns the default queue settings for the configured policy: none for one that does exactly what another
// router does, which sends each request at once, and for what is no policy of the registry.
func Queue(c Config) route.QueueConfig {
	if c.Validate() != nil || needs(c).Exact {
		return route.QueueConfig{}
	}
	return route.QueueConfig{Ahead: route.DefaultAhead, Patience: route.DefaultPatience}
}

// Names lists the policies, sorted.
func Names() []string { return namesOf(kinds()) }

// RivalNames lists the rules of other routers and of papers, sorted.
func RivalNames() []string { return namesOf(theirs()) }

// Describe returns a one-line description of a policy, or "" for an unknown name.
func Describe(name string) string {
	k, _ := find(name)
	return k.describe
}

// Reasons lists every reason a decision can have.
func Reasons() []pick.Reason { return reasons.All() }

// New returns a constructor of the configured policy. Each pool calls it once, so that pools share no state. The error
// is that of Config.Validate.
func New(c Config) (func() pick.Policy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	k, ok := find(c.Name)
	if !ok {
		return nil, fmt.Errorf("policy: no policy %q", c.Name)
	}
	return func() pick.Policy { return k.make(c) }, nil
}
