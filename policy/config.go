package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Config names a policy and holds the options of those that have any. Options of policies that are not used are
// checked and otherwise ignored.
type Config struct {
	// Name of the policy. Empty means least_ttft.
	Name string `yaml:"name"`
	// ConsistentHash are the options of consistent_hash.
	ConsistentHash ConsistentHashConfig `yaml:"consistent_hash"`
	// DualMap are the options of dualmap.
	DualMap DualMapConfig `yaml:"dualmap"`
	// LeastTTFT are the options of least_ttft.
	LeastTTFT LeastTTFTConfig `yaml:"least_ttft"`
	// Rank are the options of the policies rank.*.
	Rank RankConfig `yaml:"rank"`
	// Session are the options of session.
	Session SessionConfig `yaml:"session"`
	// TRTLLM are the options of the policies trtllm.*.
	TRTLLM TRTLLMConfig `yaml:"trtllm"`
}

// LeastTTFTConfig are the options of least_ttft.
type LeastTTFTConfig struct {
	// StayMs is how many milliseconds another endpoint must be quicker than a conversation's own before the conversation
	// moves. 0 means 20.
	StayMs float64 `yaml:"stay_ms"`
	// StayShare is the same as a share of the time predicted at its own endpoint; the larger of both counts. 0 means 0.2.
	StayShare float64 `yaml:"stay_share"`
	// FairShare bounds an endpoint's outstanding requests to so many times its fair share, by weight and speed (decode legs by
	// weight alone), and eight more. 0 means 2.
	FairShare float64 `yaml:"fair_share"`
	// SpreadShare is how much slower an endpoint is thought for each fourteenth that it was given more new conversations than the
	// one with fewest, as a share of a turn's mean time. 0 means 1.
	SpreadShare float64 `yaml:"spread_share"`
}

// ConsistentHashConfig are the options of consistent_hash.
type ConsistentHashConfig struct {
	// LoadFactor bounds the outstanding requests of an endpoint to this many times its fair share, rounded up. 1 is the
	// tightest: requests are spread evenly and conversations move most. Large values approach rendezvous. 0 means 1.25.
	LoadFactor float64 `yaml:"load_factor"`
}

// DualMapConfig are the options of dualmap.
type DualMapConfig struct {
	// SLOMs is the objective for the time to first token in milliseconds: while it is predicted to be met, the warmer of the two
	// endpoints is picked. 0 means 5000.
	SLOMs float64 `yaml:"slo_ms"`
}

// SessionConfig are the options of session.
type SessionConfig struct {
	// Fallback is the policy that places conversations without an endpoint: new ones, and those whose endpoint cannot
	// take the request. Any policy but session. Empty means least_tokens.
	Fallback string `yaml:"fallback"`
}

// The values of options that are not given.
const (
	DefaultLoadFactor = 1.25
	DefaultFallback   = nameLeastTokens
	DefaultSLOMs      = 5000
)

// WithDefaults is c with each option that is not given replaced by its default.
func (c Config) WithDefaults() Config {
	if c.Name == "" {
		c.Name = Default
	}
	if c.ConsistentHash.LoadFactor == 0 {
		c.ConsistentHash.LoadFactor = DefaultLoadFactor
	}
	if c.DualMap.SLOMs == 0 {
		c.DualMap.SLOMs = DefaultSLOMs
	}
	c.LeastTTFT = c.LeastTTFT.withDefaults()
	c.Rank = c.Rank.withDefaults()
	c.TRTLLM = c.TRTLLM.withDefaults()
	if c.Session.Fallback == "" {
		c.Session.Fallback = DefaultFallback
	}
	return c
}

func (c LeastTTFTConfig) withDefaults() LeastTTFTConfig {
	set := func(f *float64, v float64) {
		if *f == 0 {
			*f = v
		}
	}
	set(&c.StayMs, 20)
	set(&c.StayShare, 0.2)
	set(&c.FairShare, 2)
	set(&c.SpreadShare, 1)
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
	if f := c.ConsistentHash.LoadFactor; !(f >= 1) || math.IsInf(f, 0) {
		faults = append(faults, fmt.Errorf("policy: consistent_hash.load_factor is %v, must be 1 or more (0 means %v)", f, DefaultLoadFactor))
	}
	if f := c.DualMap.SLOMs; !(f > 0) || math.IsInf(f, 0) {
		faults = append(faults, fmt.Errorf("policy: dualmap.slo_ms is %v, must be above 0 (0 means %v)", f, DefaultSLOMs))
	}
	if _, ok := find(c.Session.Fallback); !ok || c.Session.Fallback == nameSession {
		faults = append(faults, unknown("session.fallback", c.Session.Fallback, fallbacks()))
	}
	if err := c.Rank.Validate(); err != nil {
		faults = append(faults, err)
	}
	if err := c.TRTLLM.validate(); err != nil {
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
		field, got, nearest(got, valid), strings.Join(listed, ", "))
}
