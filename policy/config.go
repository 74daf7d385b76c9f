package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/policy/nearest"
	"github.com/warmpath/warmpath/policy/rank"
	"github.com/warmpath/warmpath/policy/rivals"
	"github.com/warmpath/warmpath/policy/trtllm"
)

// Config names a policy and holds the options of those that have any. Options of policies that are not used are
// checked and otherwise ignored.
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
	// Fallback is the policy that places conversations without an endpoint: new ones, and those whose endpoint cannot
	// take the request. Any policy but session. Empty means least_tokens.
	Fallback string `yaml:"fallback"`
}

// defaultFallback is the policy that session falls back to when none is given.
const defaultFallback = nameLeastTokens

// WithDefaults is c with each option that is not given replaced by its default.
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

// Validate reports every fault of c, joined into one error. An unknown name is answered with the nearest valid one and
// the list of ours; rivals are many, and whoever wants one knows its name.
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

// fallbacks are the names that SessionConfig.Fallback may have.
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
	listed := slices.DeleteFunc(slices.Clone(valid), func(name string) bool { return slices.Contains(RivalNames(), name) })
	return fmt.Errorf("policy: %s is %q; did you mean %q? valid: %s, and rivals such as smg.cache_aware (docs/policies.md)",
		field, got, nearest.Name(got, valid), strings.Join(listed, ", "))
}
