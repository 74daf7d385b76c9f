package trtllm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/policy/nearest"
)

// Config are the options of the policies trtllm.*, under their published names.
type Config struct {
	// LoadBalancing are the options of trtllm.load_balancing.
	LoadBalancing LoadBalancingConfig `yaml:"load_balancing"`
	// KVCacheAware are the options of trtllm.kv_cache_aware.
	KVCacheAware KVCacheAwareConfig `yaml:"kv_cache_aware"`
	// Conversation are the options of trtllm.conversation.
	Conversation ConversationConfig `yaml:"conversation"`
}

// LoadBalancingConfig are the options of trtllm.load_balancing.
type LoadBalancingConfig struct {
	// UseTokens counts the prompt tokens of active requests instead of the requests.
	UseTokens bool `yaml:"use_tokens"`
}

// KVCacheAwareConfig are the options of trtllm.kv_cache_aware.
type KVCacheAwareConfig struct {
	// Score is the formula: request_share (PR 12526), matched tokens / prompt tokens - active requests / max_batch_size; or
	// blocks (since June 2026), matched blocks - load_weight * active requests. Empty means request_share.
	Score string `yaml:"score"`
	// UseTokens is accepted and changes nothing, as in the original: both formulas count requests.
	UseTokens bool `yaml:"use_tokens"`
	// MaxBatchSize is what active requests are divided by. 0 means 64.
	MaxBatchSize int `yaml:"max_batch_size"`
	// TokensPerBlock is the size of a block. 0 means what the engine reports, and 32 until it has.
	TokensPerBlock int `yaml:"tokens_per_block"`
	// TrackRoutedBlocks counts what an endpoint has answered in full as cached there, beside what is believed of it. Not stated means true.
	TrackRoutedBlocks *bool `yaml:"track_routed_blocks"`
	// BackfillBlockHashesOnFinish is the older name of track_routed_blocks.
	BackfillBlockHashesOnFinish *bool `yaml:"backfill_block_hashes_on_finish"`
	// LoadWeight is how many blocks an active request weighs in the formula blocks. Not stated means 0.25.
	LoadWeight *float64 `yaml:"load_weight"`
	// LoadCap leaves out endpoints whose active requests / max_batch_size are at or above it, unless that leaves none. 0 means no cap.
	LoadCap float64 `yaml:"load_cap"`
	// ContentAffinity keeps what begins alike at one endpoint: on, by the client's conversation id, or the first two messages and the
	// tenant where there is none; messages, by the first two messages alone, as published, so that all who begin alike share
	// one endpoint; off; or auto, which is on with score blocks and off with request_share. Empty means auto.
	ContentAffinity string `yaml:"content_affinity"`
	// CustomTokenizer names Python code that loads the tokenizer, which is of no use here: it needs tokenizer_dir beside it, and that is loaded.
	CustomTokenizer string `yaml:"custom_tokenizer"`
	// TokenizerDir is a directory with the model's tokenizer.json and chat template, by which the engines' KV events are tied to prompts: see
	// kv_events.tokenizer, which is the same. Placing goes by bytes and does not wait for it.
	TokenizerDir string `yaml:"tokenizer_dir"`
	// ModelPath is where the tokenizer is when tokenizer_dir is not stated.
	ModelPath string `yaml:"model_path"`
	// UseHarmony says that the engine writes chats in gpt-oss' harmony format, which no chat template renders to the token: chats are not
	// tokenized then. Not stated means that the model's config.json tells (model_type gpt_oss).
	UseHarmony *bool `yaml:"use_harmony"`
}

// ConversationConfig are the options of trtllm.conversation.
type ConversationConfig struct {
	// MatchThreshold is the share of a request's blocks that a session must have for the request to continue it. Not stated means 0.75.
	MatchThreshold *float64 `yaml:"match_threshold"`
	// TokensPerBlock is the size of these blocks, in characters, or in tokens for token ids and with use_token_ids. 0 means 128.
	TokensPerBlock int `yaml:"tokens_per_block"`
	// UseTokenIDs counts text in (estimated) tokens, not in characters.
	UseTokenIDs bool `yaml:"use_token_ids"`
	// HashSkipCount is how many tokens at the beginning, of 5 characters each in text, count for nothing in the share.
	HashSkipCount int `yaml:"hash_skip_count"`
	// MaxSessions bounds the sessions that are remembered; the one used longest ago goes first. 0 means 100000.
	MaxSessions int `yaml:"max_sessions"`
	// IDsByTableOnly keeps sessions with an id out of the matching of requests without one, as the original does since June 2026.
	IDsByTableOnly bool `yaml:"ids_by_table_only"`
	// BlockWeights weighs requests by blocks * tokens_per_block, as the original does (all in PR 12526, those without id since). A
	// text then weighs five times as much as the same in token ids, or with an id.
	BlockWeights bool `yaml:"block_weights"`
	// CustomTokenizer is as that of kv_cache_aware, and so are those that follow: they tie KV events. Blocks are counted by estimate all the same.
	CustomTokenizer string `yaml:"custom_tokenizer"`
	// TokenizerDir is as that of kv_cache_aware.
	TokenizerDir string `yaml:"tokenizer_dir"`
	// ModelPath is as that of kv_cache_aware.
	ModelPath string `yaml:"model_path"`
	// UseHarmony is as that of kv_cache_aware.
	UseHarmony *bool `yaml:"use_harmony"`
}

// Published defaults.
const (
	trtMaxBatchSize    = 64
	trtTokensPerBlock  = 32 // of kv_cache_aware
	trtLoadWeight      = 0.25
	trtMatchThreshold  = 0.75
	trtMatchBlock      = 128 // of conversation
	trtMaxSessions     = 100_000
	trtPlaced          = 50_000 // conversations that content affinity remembers
	trtCharsPerToken   = 5
	trtScoreShare      = "request_share"
	trtScoreBlocks     = "blocks"
	trtAffinityAuto    = "auto"
	trtAffinityOn      = "on"
	trtAffinityMessage = "messages"
	trtAffinityOff     = "off"
)

// WithDefaults is c with each option that is not given replaced by its default.
func (c Config) WithDefaults() Config {
	kv, conv := &c.KVCacheAware, &c.Conversation
	if kv.Score == "" {
		kv.Score = trtScoreShare
	}
	if kv.ContentAffinity == "" {
		kv.ContentAffinity = trtAffinityAuto
	}
	for _, d := range []struct {
		of *int
		to int
	}{{&kv.MaxBatchSize, trtMaxBatchSize}, {&conv.TokensPerBlock, trtMatchBlock}, {&conv.MaxSessions, trtMaxSessions}} {
		if *d.of == 0 {
			*d.of = d.to
		}
	}
	return c
}

// tracks is what TrackRoutedBlocks, under either name, comes to.
func (c *KVCacheAwareConfig) tracks() bool {
	switch {
	case c.TrackRoutedBlocks != nil:
		return *c.TrackRoutedBlocks
	case c.BackfillBlockHashesOnFinish != nil:
		return *c.BackfillBlockHashesOnFinish
	}
	return true
}

// affinity is ContentAffinity without auto.
func (c *KVCacheAwareConfig) affinity() string {
	switch {
	case c.ContentAffinity != trtAffinityAuto:
		return c.ContentAffinity
	case c.Score == trtScoreBlocks:
		return trtAffinityOn
	}
	return trtAffinityOff
}

func floatOr(f *float64, otherwise float64) float64 {
	if f == nil {
		return otherwise
	}
	return *f
}

// Validate reports every fault of a configuration with its defaults.
func (c Config) Validate() error {
	kv, conv := &c.KVCacheAware, &c.Conversation
	var faults []error
	oneOf := func(field, got string, valid ...string) {
		if !slices.Contains(valid, got) {
			faults = append(faults, fmt.Errorf("policy: trtllm.%s is %q; did you mean %q? valid: %s", field, got, nearest.Name(got, valid), strings.Join(valid, ", ")))
		}
	}
	oneOf("kv_cache_aware.score", kv.Score, trtScoreShare, trtScoreBlocks)
	oneOf("kv_cache_aware.content_affinity", kv.ContentAffinity, trtAffinityAuto, trtAffinityOn, trtAffinityMessage, trtAffinityOff)
	for _, n := range []struct {
		field       string
		got, lo, hi int
	}{
		{"kv_cache_aware.max_batch_size", kv.MaxBatchSize, 1, 1 << 20},
		{"kv_cache_aware.tokens_per_block", kv.TokensPerBlock, 0, 1 << 20},
		{"conversation.tokens_per_block", conv.TokensPerBlock, 1, 1 << 20},
		{"conversation.hash_skip_count", conv.HashSkipCount, 0, 1 << 30},
		{"conversation.max_sessions", conv.MaxSessions, 1, 1 << 24},
	} {
		if n.got < n.lo || n.got > n.hi {
			faults = append(faults, fmt.Errorf("policy: trtllm.%s is %d, must be between %d and %d", n.field, n.got, n.lo, n.hi))
		}
	}
	if w := floatOr(kv.LoadWeight, trtLoadWeight); !(w >= 0) || math.IsInf(w, 0) {
		faults = append(faults, fmt.Errorf("policy: trtllm.kv_cache_aware.load_weight is %v, must be 0 or more", w))
	}
	if !(kv.LoadCap >= 0) {
		faults = append(faults, fmt.Errorf("policy: trtllm.kv_cache_aware.load_cap is %v, must be 0 or more (0 means no cap)", kv.LoadCap))
	}
	if s := floatOr(conv.MatchThreshold, trtMatchThreshold); !(s >= 0 && s <= 1) {
		faults = append(faults, fmt.Errorf("policy: trtllm.conversation.match_threshold is %v, must be between 0 and 1", s))
	}
	for _, t := range []struct{ router, custom, path string }{
		{"kv_cache_aware", kv.CustomTokenizer, kv.TokenizerDir + kv.ModelPath},
		{"conversation", conv.CustomTokenizer, conv.TokenizerDir + conv.ModelPath},
	} {
		if t.custom != "" && t.path == "" {
			faults = append(faults, fmt.Errorf("policy: trtllm.%s.custom_tokenizer is %q: that names Python code, and none runs here; "+
				"set tokenizer_dir to a directory with the model's tokenizer.json, or leave both out", t.router, t.custom))
		}
	}
	if a, b := kv.TrackRoutedBlocks, kv.BackfillBlockHashesOnFinish; a != nil && b != nil && *a != *b {
		faults = append(faults, errors.New("policy: trtllm.kv_cache_aware.track_routed_blocks and backfill_block_hashes_on_finish are two names of one option and differ"))
	}
	return errors.Join(faults...)
}
