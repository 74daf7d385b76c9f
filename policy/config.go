package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/policy/nearest"
	"github.com/warmpath/warmpath/policy/rank"
	"github.com/warmpath/warmpath/policy/rivals"
	"github.com/warmpath/warmpath/policy/trtllm"
)

// Config selects a policy and holds the options of all policies. Options of policies that are not used are checked and
// otherwise ignored.
type Config struct {
	// Name of the policy. Empty means least_ttft.
	Name string `yaml:"name"`
	// ConsistentHash are the options of consistent_hash.
	ConsistentHash basic.ConsistentHashConfig `yaml:"consistent_hash"`
	// DualMap are the options of dualmap.
	DualMap rivals.DualMapConfig `yaml:"dualmap"`
	// LeastTTFT are the options of least_ttft.
	LeastTTFT leastttft.Config `yaml:"least_ttft"`
	// Rank are the options of the policies rank.*.
	Rank rank.Config `yaml:"rank"`
	// Session are the options of session.
	Session SessionConfig `yaml:"session"`
	// TRTLLM are the options of the policies trtllm.*.
	TRTLLM trtllm.Config `yaml:"trtllm"`
}

// SessionConfig are the options of session.
type SessionConfig struct {
	// Fallback is the policy for conversations without an endpoint: new ones, and those whose endpoint cannot take the
	// request. Any policy but session. Empty means least_tokens.
	Fallback string `yaml:"fallback"`
}

// defaultFallback is the default of SessionConfig.Fallback.
const defaultFallback = nameLeastTokens

// WithDefaults returns c with defaults for options that are not set.
func (c Config) WithDefaults() Config {
	if c.Name == "" {
		c.Name = Default
	}
	c.ConsistentHash = c.ConsistentHash.WithDefaults()
	c.DualMap = c.DualMap.WithDefaults()
	c.LeastTTFT = c.LeastTTFT.WithDefaults()
	c.Rank = c.Rank.WithDefaults()
	c.TRTLLM = c.TRTLLM.WithDefaults()
	if c.Session.Fallback == "" {
		c.Session.Fallback = defaultFallback
	}
	return c
}

// Validate reports every fault of c, joined into one error. For an unknown name it suggests the nearest valid one and
// lists our policies, without the many rivals.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var faults []error
	if _, ok := find(c.Name); !ok {
		faults = append(faults, unknown("name", c.Name, Names()))
	}
	if err := c.ConsistentHash.Validate(); err != nil {
		faults = append(faults, err)
	}
	if err := c.DualMap.Validate(); err != nil {
		faults = append(faults, err)
	}
	if _, ok := find(c.Session.Fallback); !ok || c.Session.Fallback == nameSession {
		faults = append(faults, unknown("session.fallback", c.Session.Fallback, fallbacks()))
	}
	if err := c.Rank.Validate(); err != nil {
		faults = append(faults, err)
	}
	if err := c.TRTLLM.Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// fallbacks are the valid values of SessionConfig.Fallback.
func fallbacks() []string {
	var names []string
	for _, name := range Names() {
		if name != nameSession {
			names = append(names, name)
		}
	}
	return names
}

func unknown(field, got string, valid []string) error {
	listed := slices.DeleteFunc(
		slices.Clone(valid),
		func(name string) bool { return slices.Contains(RivalNames(), name) },
	)
	return fmt.Errorf(
		"policy: %s is %q%s, and rules of other routers such as smg.cache_aware (warmpath policies lists them)",
		field,
		got,
		nearest.OrValid(got, valid, listed),
	)
}
