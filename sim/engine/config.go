package engine

import (
	"errors"
	"fmt"
	"time"
)

// Config describes one simulated engine (or one data-parallel rank of it).
type Config struct {
	PrefillTokensPerSecond float64       // uncached prompt tokens computed a second
	ChunkTokens            int           // prompt tokens that one step computes at most, over all requests
	CacheTokens            int           // KV cache capacity in tokens
	BlockTokens            int           // tokens a KV block; a prompt is reused in whole blocks
	Slots                  int           // requests computed at once; the others wait in order of arrival
	QueueLimit             int           // requests that may wait; 0 is no limit
	StepBase               time.Duration // time of a step before anything in it is counted
	StepPerSeq             time.Duration // time a step takes longer for each sequence in it
	HostCacheTokens        int           // second tier: what is pushed out of the KV cache stays in host memory, so many tokens of it; 0 is none
	HostTokensPerSecond    float64       // at which it comes back when a prompt needs it; needed with HostCacheTokens
	SlotOrder              bool          // a request takes the lowest free slot as soon as there is one, and prompts are computed lower slots first (llama.cpp), not in order of arrival
	Jitter                 float64       // 0..1: each step's time varies by up to this share, evenly, both ways; 0 is none
}

// DefaultConfig is a mid-size engine: 9,000 prefill tokens a second in chunks of 2,048, 120,000 tokens of cache in
// blocks of 16, 16 slots, a step of 4 ms and 0.1 ms a sequence.
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
			errs = append(errs, fmt.Errorf("sim: "+format, args...))
		}
	}
	fault(!(c.PrefillTokensPerSecond > 0) || c.PrefillTokensPerSecond > 1e12,
		"prefill tokens per second must be above 0 and finite, got %v", c.PrefillTokensPerSecond)
	fault(c.ChunkTokens < 1, "chunk tokens must be at least 1, got %d", c.ChunkTokens)
	fault(c.BlockTokens < 1, "block tokens must be at least 1, got %d", c.BlockTokens)
	fault(c.CacheTokens < c.BlockTokens, "cache tokens (%d) must hold at least one block (%d tokens)", c.CacheTokens, c.BlockTokens)
	fault(c.BlockTokens > 0 && c.CacheTokens/c.BlockTokens > MaxBlocks, "cache of %d blocks is over the limit of %d",
		c.CacheTokens/max(c.BlockTokens, 1), MaxBlocks)
	fault(c.HostCacheTokens != 0 && c.HostCacheTokens < c.BlockTokens, "host cache tokens (%d) must be 0 or hold at least one block (%d tokens)", c.HostCacheTokens, c.BlockTokens)
	fault(c.BlockTokens > 0 && c.HostCacheTokens/max(c.BlockTokens, 1) > MaxBlocks, "host cache of %d blocks is over the limit of %d",
		c.HostCacheTokens/max(c.BlockTokens, 1), MaxBlocks)
	fault(c.HostCacheTokens > 0 && !(c.HostTokensPerSecond > 0 && c.HostTokensPerSecond <= 1e12),
		"a host cache needs a rate at which its tokens come back, above 0 and finite, got %v a second", c.HostTokensPerSecond)
	fault(c.HostCacheTokens == 0 && c.HostTokensPerSecond != 0, "a rate of the host cache (%v tokens a second) without a host cache", c.HostTokensPerSecond)
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

// MaxBlocks bounds the memory of a simulated cache (about 32 bytes a block).
const MaxBlocks = 1 << 24

// Slower is the engine at a fraction of its speed.
func (c Config) Slower(times float64) Config {
	c.PrefillTokensPerSecond /= times
	c.StepBase = time.Duration(float64(c.StepBase) * times)
	c.StepPerSeq = time.Duration(float64(c.StepPerSeq) * times)
	return c
}

// Work is how many ns an engine takes for so many prompt and answer tokens when all its slots are in use.
func (c Config) Work(prompt, output int64) float64 {
	token := float64(c.StepPerSeq) + float64(c.StepBase)/float64(c.Slots)
	return float64(float64(prompt)/c.PrefillTokensPerSecond*1e9) + float64(float64(output)*token)
}
