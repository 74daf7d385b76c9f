// Package policy is the registry of the ways to choose an endpoint: their names, options and reasons, and New.
//
// It owns the configuration of all policies and has no rule of its own; those are in the packages below it. Every name in Names makes a
// policy, and Validate reports every fault of a configuration at once.
//
// Rules that all policies keep:
//
//   - The same view and the same state give the same pick, on every machine. Where a float decides, sums and products
//     are rounded one by one (an assignment or a conversion forbids fusing them), so that the architecture does not
//     matter.
//   - Weight is a share of traffic: loads are compared per weight, and endpoints that are equal are drawn in
//     proportion to weight, never in order of the list. Rivals (rules of other routers) know no weights.
//   - A pick allocates nothing.
package policy

import (
	"fmt"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/shadow"
)

// Default is the name of the policy used when none is configured.
const Default = nameLeastTTFT

// Names that the registry itself needs.
const (
	nameLeastTTFT   = "least_ttft"
	nameLeastTokens = "least_tokens"
	nameSession     = "session"
)

// ReadsContent reports whether the configured policy considers what endpoints have cached, so that prompts are worth reading for
// requests that name their conversation too.
func ReadsContent(c Config) bool {
	c = c.WithDefaults()
	k, _ := find(c.Name)
	if c.Name == nameSession {
		k, _ = find(c.Session.Fallback)
	}
	return k.content
}

// Queue is how routers queue prompts with the configured policy by default: only least_ttft has them queue.
func Queue(c Config) route.Queue {
	if c.WithDefaults().Name != nameLeastTTFT {
		return route.Queue{}
	}
	return route.Queue{Ahead: route.DefaultAhead, Patience: route.DefaultPatience}
}

// Names lists the policies, sorted.
func Names() []string { return namesOf(kinds()) }

// RivalNames lists those of Names that are rules of other routers and of papers, sorted.
func RivalNames() []string { return namesOf(theirs()) }

// Describe says in one line what a policy does, or "" for a name that is not in Names.
func Describe(name string) string {
	k, _ := find(name)
	return k.describe
}

// Reasons lists every reason a decision can have.
func Reasons() []pick.Reason { return reasons.All() }

// New makes a factory of the configured policy. Each pool calls it once, so that pools share no state. The error is
// that of Config.Validate.
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

// NewEstimator makes what estimates the costs of placements in one pool, whichever policy decides there: the terms of least_ttft.
func NewEstimator(c Config) shadow.Estimator {
	return leastttft.NewEstimator(c.WithDefaults().LeastTTFT)
}
