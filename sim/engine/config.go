package engine

import (
	"errors"
	"fmt"
	"time"
)

// Config describes one simulated engine (or one data-parallel rank of it).
type Config struct {
	PrefillTokensPerSecond float64       // uncached prompt tokens computed per second
	ChunkTokens            int           // maximum prompt tokens per step, over all requests
	CacheTokens            int           // KV cache capacity in tokens
	BlockTokens            int           // tokens per KV block; a prompt is reused in whole blocks
	Slots                  int           // requests computed concurrently; others wait in order of arrival
	QueueLimit             int           // maximum waiting requests; 0 is no limit
	StepBase               time.Duration // base time of a step
	StepPerSeq             time.Duration // extra time of a step per sequence in it
	// second tier: tokens evicted from the KV cache that host memory keeps; 0 is none
	HostCacheTokens     int
	HostTokensPerSecond float64 // speed of restoring them for a prompt; required with HostCacheTokens
	// a request takes the lowest free slot at once, and prompts are computed in order of slots (llama.cpp) instead of
	// arrival
	SlotOrder bool
	AtOnce    bool // each prompt is computed as if alone: an address with many engines behind it
	// 0..1: each step's time varies evenly by up to this share in both directions; 0 is none
	Jitter float64
}

// DefaultConfig is a mid-size engine: 9,000 prefill tokens per second in chunks of 2,048, 120,000 tokens of cache in
// blocks of 16, 16 slots, a step of 4 ms plus 0.1 ms per sequence.
func DefaultConfig() Config {
	return Config{
		PrefillTokensPerSecond: 9000,
		ChunkTokens:            2048,
		CacheTokens:            120_000,
		BlockTokens:            16,
		Slots:                  16,
		StepBase:               4 * time.Millisecond,
		StepPerSeq:             100 * time.Microsecond,
	}
}

// Validate reports every fault of the configuration, joined into one error.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(""+format, args...))
		}
	}
	fault(!(c.PrefillTokensPerSecond > 0) || c.PrefillTokensPerSecond > 1e12,
		"prefill tokens per second must be above 0 and finite, got %v", c.PrefillTokensPerSecond)
	fault(c.ChunkTokens < 1, "chunk tokens must be at least 1, got %d", c.ChunkTokens)
	fault(c.BlockTokens < 1, "block tokens must be at least 1, got %d", c.BlockTokens)
	fault(c.CacheTokens < c.BlockTokens, "cache tokens (%d) must hold at least one block (%d tokens)",
		c.CacheTokens, c.BlockTokens)
	fault(c.BlockTokens > 0 && c.CacheTokens/c.BlockTokens > MaxBlocks, "cache of %d blocks is over the limit of %d",
		c.CacheTokens/max(c.BlockTokens, 1), MaxBlocks)
	fault(c.HostCacheTokens != 0 && c.HostCacheTokens < c.BlockTokens,
		"host cache tokens (%d) must be 0 or hold at least one block (%d tokens)", c.HostCacheTokens, c.BlockTokens)
	fault(c.BlockTokens > 0 && c.HostCacheTokens/max(c.BlockTokens, 1) > MaxBlocks,
		"host cache of %d blocks is over the limit of %d", c.HostCacheTokens/max(c.BlockTokens, 1), MaxBlocks)
	fault(c.HostCacheTokens > 0 && !(c.HostTokensPerSecond > 0 && c.HostTokensPerSecond <= 1e12),
		"a host cache needs a rate at which its tokens come back, above 0 and finite, got %v a second",
		c.HostTokensPerSecond)
	fault(c.HostCacheTokens == 0 && c.HostTokensPerSecond != 0,
		"a rate of the host cache (%v tokens a second) without a host cache", c.HostTokensPerSecond)
	fault(c.Slots < 1, "slots must be at least 1, got %d", c.Slots)
	fault(c.QueueLimit < 0, "queue limit must not be negative, got %d", c.QueueLimit)
	fault(c.StepBase < 0, "step base must not be negative, got %v", c.StepBase)
	fault(c.StepPerSeq < 0, "step per sequence must not be negative, got %v", c.StepPerSeq)
	fault(c.StepBase <= 0 && c.StepPerSeq <= 0, "a step must take time: step base and step per sequence are both 0")
	fault(!(c.Jitter >= 0 && c.Jitter < 1), "jitter must be in 0..1 (1 excluded), got %v", c.Jitter)
	return errors.Join(errs...)
}

// Blocks is the number of whole KV blocks in the cache.
func (c Config) Blocks() int { return c.CacheTokens / c.BlockTokens }

// HostBlocks is the number of whole KV blocks in the host cache.
func (c Config) HostBlocks() int { return c.HostCacheTokens / c.BlockTokens }

// MaxBlocks bounds the memory of a simulated cache (about 32 bytes per block).
const MaxBlocks = 1 << 24

// Slower is the engine with all times multiplied.
func (c Config) Slower(times float64) Config {
	c.PrefillTokensPerSecond /= times
	c.StepBase = time.Duration(float64(c.StepBase) * times)
	c.StepPerSeq = time.Duration(float64(c.StepPerSeq) * times)
	return c
}

// Work is the time in ns for this many prompt and answer tokens with all slots in use.
func (c Config) Work(prompt, output int64) float64 {
	token := float64(c.StepPerSeq) + float64(c.StepBase)/float64(c.Slots)
	return float64(float64(prompt)/c.PrefillTokensPerSecond*1e9) + float64(float64(output)*token)
}
