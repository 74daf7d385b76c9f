package trtllm

import (
	"errors"
	"fmt"
	"math"
	"slices"

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
	// Score is the formula: request_share (PR 12526), matched tokens / prompt tokens - active requests /
	// max_batch_size; or blocks (since June 2026), matched blocks - load_weight * active requests. Empty means
	// request_share.
	Score string `yaml:"score"`
	// UseTokens is accepted and changes nothing, as in the original: both formulas count requests.
	UseTokens bool `yaml:"use_tokens"`
	// MaxBatchSize is the divisor of active requests. 0 means 64.
	MaxBatchSize int `yaml:"max_batch_size"`
	// TokensPerBlock is the block size. 0 means the size that the engine reports, and 32 before its first report.
	TokensPerBlock int `yaml:"tokens_per_block"`
	// TrackRoutedBlocks counts prompts that an endpoint has answered in full as cached there, in addition to the
	// router's prediction. Unset means true.
	TrackRoutedBlocks *bool `yaml:"track_routed_blocks"`
	// BackfillBlockHashesOnFinish is an older name of track_routed_blocks.
	BackfillBlockHashesOnFinish *bool `yaml:"backfill_block_hashes_on_finish"`
	// LoadWeight is the weight of an active request in blocks, for score blocks. Unset means 0.25.
	LoadWeight *float64 `yaml:"load_weight"`
	// LoadCap excludes endpoints whose active requests / max_batch_size are at or above it, unless that excludes all. 0
	// means no cap.
	LoadCap float64 `yaml:"load_cap"`
	// ContentAffinity keeps conversations that begin alike at one endpoint: on, by the client's conversation id, or
	// without one by the first two messages and the tenant; messages, by the first two messages alone, as published, so
	// that all conversations that begin alike share one endpoint; off; or auto, which is on with score blocks and off
	// with request_share. Empty means auto.
	ContentAffinity string `yaml:"content_affinity"`
	// CustomTokenizer names Python code that loads the tokenizer, which cannot run here: set tokenizer_dir too, which
	// is loaded instead.
	CustomTokenizer string `yaml:"custom_tokenizer"`
	// TokenizerDir is a directory with the model's tokenizer.json and chat template, for matching the engines' KV
	// events to prompts, like kv_events.tokenizer. Placement uses bytes and does not wait for it.
	TokenizerDir string `yaml:"tokenizer_dir"`
	// ModelPath is the directory of the tokenizer if tokenizer_dir is not set.
	ModelPath string `yaml:"model_path"`
	// UseHarmony says that the engine uses gpt-oss' harmony format, which no chat template reproduces exactly: chats
	// are not tokenized then. Unset means that the model's config.json decides (model_type gpt_oss).
	UseHarmony *bool `yaml:"use_harmony"`
}

// ConversationConfig are the options of trtllm.conversation.
type ConversationConfig struct {
	// MatchThreshold is the share of a request's blocks that a session must contain for the request to continue it.
	// Unset means 0.75.
	MatchThreshold *float64 `yaml:"match_threshold"`
	// TokensPerBlock is the size of these blocks, in characters, or in tokens for token ids and with use_token_ids. 0
	// means 128.
	TokensPerBlock int `yaml:"tokens_per_block"`
	// UseTokenIDs counts text in (estimated) tokens, not in characters.
	UseTokenIDs bool `yaml:"use_token_ids"`
	// HashSkipCount is the number of leading tokens, of 5 characters each in text, that are excluded from the share.
	HashSkipCount int `yaml:"hash_skip_count"`
	// MaxSessions limits the sessions remembered; the least recently used one goes first. 0 means 100000.
	MaxSessions int `yaml:"max_sessions"`
	// IDsByTableOnly excludes sessions with an id from matching requests without one, as in the original since June
	// 2026.
	IDsByTableOnly bool `yaml:"ids_by_table_only"`
	// BlockWeights weighs requests by blocks * tokens_per_block, as the original does (all in PR 12526, those without
	// id since). A text then weighs five times as much as the same text as token ids or with an id.
	BlockWeights bool `yaml:"block_weights"`
	// CustomTokenizer, and the options that follow, are as in kv_cache_aware: they match KV events. Blocks are still
	// counted by estimate.
	CustomTokenizer string `yaml:"custom_tokenizer"`
	// TokenizerDir is as in kv_cache_aware.
	TokenizerDir string `yaml:"tokenizer_dir"`
	// ModelPath is as in kv_cache_aware.
	ModelPath string `yaml:"model_path"`
	// UseHarmony is as in kv_cache_aware.
	UseHarmony *bool `yaml:"use_harmony"`
}

// Published defaults.
const (
	defaultMaxBatchSize   = 64
	defaultTokensPerBlock = 32 // of kv_cache_aware
	defaultLoadWeight     = 0.25
	defaultMatchThreshold = 0.75
	defaultMatchBlock     = 128 // of conversation
	defaultMaxSessions    = 100_000
	mostPlaced            = 50_000 // conversations remembered for content affinity
	charsPerToken         = 5
	scoreShare            = "request_share"
	scoreBlocks           = "blocks"
	affinityAuto          = "auto"
	affinityOn            = "on"
	affinityMessages      = "messages"
	affinityOff           = "off"
)

// WithDefaults returns c with defaults for options that are not set.
func (c Config) WithDefaults() Config {
	kv, conv := &c.KVCacheAware, &c.Conversation
	if kv.Score == "" {
		kv.Score = scoreShare
	}
	if kv.ContentAffinity == "" {
		kv.ContentAffinity = affinityAuto
	}
	for _, d := range []struct {
		of *int
		to int
	}{
		{&kv.MaxBatchSize, defaultMaxBatchSize},
		{&conv.TokensPerBlock, defaultMatchBlock},
		{&conv.MaxSessions, defaultMaxSessions},
	} {
		if *d.of == 0 {
			*d.of = d.to
		}
	}
	return c
}

// tracks is the effective value of TrackRoutedBlocks under either name.
func (c *KVCacheAwareConfig) tracks() bool {
	switch {
	case c.TrackRoutedBlocks != nil:
		return *c.TrackRoutedBlocks
	case c.BackfillBlockHashesOnFinish != nil:
		return *c.BackfillBlockHashesOnFinish
	}
	return true
}

// affinity is ContentAffinity with auto resolved.
func (c *KVCacheAwareConfig) affinity() string {
	switch {
	case c.ContentAffinity != affinityAuto:
		return c.ContentAffinity
	case c.Score == scoreBlocks:
		return affinityOn
	}
	return affinityOff
}

func floatOr(f *float64, otherwise float64) float64 {
	if f == nil {
		return otherwise
	}
	return *f
}

// Validate reports every fault of a configuration that has its defaults.
func (c Config) Validate() error {
	kv, conv := &c.KVCacheAware, &c.Conversation
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("policy: trtllm."+format, args...))
	}
	oneOf := func(field, got string, valid ...string) {
		if !slices.Contains(valid, got) {
			fault("%s is %q%s", field, got, nearest.OrValid(got, valid, valid))
		}
	}
	between := func(field string, got, least, most int) {
		if got < least || got > most {
			fault("%s is %d, must be between %d and %d", field, got, least, most)
		}
	}
	tokenizer := func(router, custom, path string) {
		if custom != "" && path == "" {
			fault("%s.custom_tokenizer is %q: that names Python code, and none runs here; "+
				"set tokenizer_dir to a directory with the model's tokenizer.json, or leave both out", router, custom)
		}
	}
	oneOf("kv_cache_aware.score", kv.Score, scoreShare, scoreBlocks)
	oneOf("kv_cache_aware.content_affinity", kv.ContentAffinity,
		affinityAuto, affinityOn, affinityMessages, affinityOff)
	between("kv_cache_aware.max_batch_size", kv.MaxBatchSize, 1, 1<<20)
	between("kv_cache_aware.tokens_per_block", kv.TokensPerBlock, 0, 1<<20)
	between("conversation.tokens_per_block", conv.TokensPerBlock, 1, 1<<20)
	between("conversation.hash_skip_count", conv.HashSkipCount, 0, 1<<30)
	between("conversation.max_sessions", conv.MaxSessions, 1, 1<<24)
	if w := floatOr(kv.LoadWeight, defaultLoadWeight); !(w >= 0) || math.IsInf(w, 0) {
		fault("kv_cache_aware.load_weight is %v, must be 0 or more", w)
	}
	if !(kv.LoadCap >= 0) {
		fault("kv_cache_aware.load_cap is %v, must be 0 or more (0 means no cap)", kv.LoadCap)
	}
	if s := floatOr(conv.MatchThreshold, defaultMatchThreshold); !(s >= 0 && s <= 1) {
		fault("conversation.match_threshold is %v, must be between 0 and 1", s)
	}
	tokenizer("kv_cache_aware", kv.CustomTokenizer, kv.TokenizerDir+kv.ModelPath)
	tokenizer("conversation", conv.CustomTokenizer, conv.TokenizerDir+conv.ModelPath)
	if a, b := kv.TrackRoutedBlocks, kv.BackfillBlockHashesOnFinish; a != nil && b != nil && *a != *b {
		fault("kv_cache_aware.track_routed_blocks and backfill_block_hashes_on_finish are two names of one option " +
			"and differ")
	}
	return errors.Join(faults...)
}
