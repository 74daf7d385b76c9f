package rank

import (
	"errors"
	"fmt"
	"math"
)

// Config are the options of rank.kv_cache_aware, rank.first_turn and rank.conversation, under the names in
// TensorRT-LLM's attention_dp_config. The zero value means DefaultConfig; programs that set single options should start
// from that.
type Config struct {
	// Weight of load in the score, at least 0: with 1, all outstanding work at one endpoint counts as much as the whole
	// prompt.
	Weight float64 `yaml:"kv_cache_routing_load_balance_weight"`
	// Threshold is the share of a prompt (0 to 1) that some endpoint must exceed for cached tokens to count; 0 lets any
	// match count.
	Threshold float64 `yaml:"kv_cache_routing_match_rate_threshold"`
	// Multiplier limits the requests of an endpoint to this many times its fair share, rounded up; 1 or more.
	Multiplier float64 `yaml:"kv_cache_routing_fair_share_multiplier"`
	// Warmup gives each endpoint one request before the score decides.
	Warmup bool `yaml:"kv_cache_routing_cold_start_warmup"`
	// InTransfer counts requests whose KV is still being transferred to another endpoint, in requests and in tokens, as
	// PR 13198 did; its successors do not.
	InTransfer bool `yaml:"kv_cache_routing_account_for_in_transfer"`
	// MaxSessions limits the conversations that rank.conversation remembers; the least recently used one goes first.
	MaxSessions int `yaml:"kv_cache_routing_max_sessions"`
	// Placement of new conversations by rank.conversation: round_robin or least_queued.
	Placement string `yaml:"kv_cache_routing_new_conv_placement"`
	// MaxActive limits the concurrent requests of an endpoint, without connections that give it no work. 0 uses the
	// engine's report; without one there is no limit.
	MaxActive int `yaml:"max_num_active_requests"`
}

// The values of Config.Placement.
const (
	placeRoundRobin  = "round_robin"
	placeLeastQueued = "least_queued"
)

// mostRankSessions bounds Config.MaxSessions: about 60 bytes each.
const mostSessions = 100_000_000

// DefaultConfig has TensorRT-LLM's defaults, with requests in transfer counted as in PR 13198.
func DefaultConfig() Config {
	return Config{
		Weight:      1,
		Threshold:   0.1,
		Multiplier:  2,
		InTransfer:  true,
		MaxSessions: 65_536,
		Placement:   placeRoundRobin,
	}
}

// WithDefaults returns c, or DefaultConfig for the zero value.
func (c Config) WithDefaults() Config {
	if c == (Config{}) {
		return DefaultConfig()
	}
	return c
}

// Validate reports every fault, joined into one error.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var faults []error
	fault := func(name, format string, args ...any) {
		faults = append(faults, fmt.Errorf("policy: rank."+name+" "+format, args...))
	}
	if !(c.Weight >= 0) || math.IsInf(c.Weight, 0) {
		fault("kv_cache_routing_load_balance_weight", "is %v, must be a number from 0 up", c.Weight)
	}
	if !(c.Threshold >= 0 && c.Threshold <= 1) {
		fault("kv_cache_routing_match_rate_threshold", "is %v, must be between 0 and 1", c.Threshold)
	}
	if !(c.Multiplier >= 1) || math.IsInf(c.Multiplier, 0) {
		fault("kv_cache_routing_fair_share_multiplier", "is %v, must be 1 or more", c.Multiplier)
	}
	if c.MaxSessions < 1 || c.MaxSessions > mostSessions {
		fault("kv_cache_routing_max_sessions", "is %d, must be between 1 and %d", c.MaxSessions, mostSessions)
	}
	if c.Placement != placeRoundRobin && c.Placement != placeLeastQueued {
		fault(
			"kv_cache_routing_new_conv_placement",
			"is %q, must be %s or %s",
			c.Placement,
			placeRoundRobin,
			placeLeastQueued,
		)
	}
	if c.MaxActive < 0 {
		fault("max_num_active_requests", "is %d, must be 0 or more", c.MaxActive)
	}
	return errors.Join(faults...)
}
