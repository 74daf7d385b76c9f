// Package policy holds the ways to choose an endpoint, one file each, behind route.Policy.
//
// A policy is given the endpoints that may take a request, the router's own books on each, and a source of chance
// seeded from the request. It answers with one of them and a reason. It keeps as little state as it can.
//
// Rules that all of them keep, but for rivals (rules of other routers, to compare with), which know no weights:
//
//   - The same view and the same state give the same pick, on every machine. Where a float decides, sums and products
//     are rounded one by one (an assignment or a conversion forbids fusing them), so that the architecture does not
//     matter.
//   - Weight is a share of traffic: loads are compared per weight, and endpoints that are equal are drawn in
//     proportion to weight, never in order of the list. An endpoint that is taken in gently after coming back has a
//     small weight and thereby a small share even where everybody is idle.
//   - A pick allocates nothing.
package policy

import (
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// Default is the name of the policy used when none is configured.
const Default = nameLeastTTFT

// A kind is one policy of the package.
type kind struct {
	name     string
	describe string                     // one line for --help and the documentation
	make     func(c Config) pick.Policy // from a valid configuration with its defaults
	content  bool                       // it goes by what endpoints have cached, or by the prompt
}

// ReadsContent reports whether the configured policy goes by what endpoints have cached, so that prompts are worth reading for
// requests that name their conversation too.
func ReadsContent(c Config) bool {
	c = c.WithDefaults()
	k, _ := find(c.Name)
	if c.Name == nameSession {
		k, _ = find(c.Session.Fallback)
	}
	return k.content
}

// Queue is how routers keep prompts in line with the configured policy by default. A rule of another router is as it is there, and the
// simple ones are what they say.
func Queue(c Config) route.Queue {
	if c.WithDefaults().Name != nameLeastTTFT {
		return route.Queue{}
	}
	return route.Queue{Ahead: route.DefaultAhead, Patience: route.DefaultPatience}
}

// kinds lists the policies, ours before the rivals. It is a function so that nothing can change it.
func kinds() []kind { return slices.Concat(ours(), rivals(), ranks(), founding()) }

func ours() []kind {
	return []kind{
		{"consistent_hash", "rendezvous with a bound on each endpoint's share of requests; beyond it the next in order", newConsistentHash, false},
		{"least_requests", "fewest outstanding requests per weight", newLeastRequests, false},
		{nameLeastTokens, "fewest tokens still to compute per weight", newLeastTokens, false},
		{nameLeastTTFT, "the shortest predicted time to first token, what the placement costs others included", newLeastTTFT, true},
		{"power_of_two", "the less loaded of two endpoints drawn by weight", newPowerOfTwo, false},
		{"random", "any endpoint, in proportion to weight", newRandom, false},
		{"rendezvous", "by hash of the conversation; the same on every replica, whatever the load", newRendezvous, false},
		{"round_robin", "each in turn, smoothly by weight", newRoundRobin, false},
		{nameSession, "the conversation's endpoint; a new conversation goes by the fallback policy", newSession, false},
	}
}

// Names lists the policies, sorted.
func Names() []string { return namesOf(kinds()) }

// Describe says in one line what a policy does, or "" for a name that is not in Names.
func Describe(name string) string {
	k, _ := find(name)
	return k.describe
}

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

func find(name string) (kind, bool) {
	for _, k := range kinds() {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}
