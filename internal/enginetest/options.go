package enginetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/handover"
	"github.com/warmpath/warmpath/internal/enginetest/kv"
	"github.com/warmpath/warmpath/internal/enginetest/pump"
	"github.com/warmpath/warmpath/sim/engine"
)

// Options configure a simulated engine. The zero value of a field means its default.
type Options struct {
	Dialect       fleet.Kind    // default fleet.KindVLLM
	Models        []string      // base models; default "simulated"; the first is the parent of the adapters
	Adapters      []string      // LoRA adapters, served as models (vLLM, SGLang)
	Ranks         int           // data-parallel ranks, each an engine with its own cache; default 1
	Engine        engine.Config // of each rank; default engine.DefaultConfig. llama.cpp uses Slots as its slots
	Seed          uint64        // of answers, ids and jitter
	APIKey        string        // required where the dialect requires a key; "" requires none
	Speed         float64       // simulated seconds per real second; default 1
	ContextTokens int           // maximum prompt plus answer; default 32768, at most the cache
	AnswerTokens  int           // mean natural length of answers; default 64
	LoadingFor    time.Duration // real time for which health reports "loading"; default 0
	NoCacheReport bool          // usage has no cached tokens, as in engines where that is off
	// host:port of KV events (vLLM, SGLang; ranks and replays at following ports; port 0 takes free ones), anything for
	// TensorRT-LLM's; "" publishes none
	KVEvents string
	// tcp://HOST:PORT of a listening router: KV events are published by dialling out (vLLM, SGLang; each rank to the
	// next port), without replay; instead of KVEvents
	KVConnect string
	KVTopic   string // of KV events; default kv-events
	KVArrays  bool   // events are arrays, as in vLLM up to 0.23
	BodyBytes int64  // longest request body; default 64 MiB

	Computed func(took time.Duration) // called with each prompt's time to completion, in simulated time; must not block

	// Disaggregated serving: either side of a transfer, as each request asks.
	// "nixl" or "lmcache" (vLLM), "trtllm" (TensorRT-LLM); "" has none and ignores parameters for one
	Connector         string
	KVLease           time.Duration // real time for which a prefiller holds blocks; default 30 s
	KVLatency         time.Duration // minimum simulated time of a transfer; default 5 ms
	KVTokensPerSecond float64       // tokens of KV cache moved per second; default 50,000
	// NIXL's bidirectional mode: real time for which a decoder holds blocks for the prefiller of the next turn; 0 is
	// off
	KVBack time.Duration
	// a decoder computes what it cannot fetch (kv_load_failure_policy); otherwise it answers 500
	KVRecompute bool
	// parameters of older versions: a flat list of blocks, no request id, no cached tokens; for TensorRT-LLM,
	// conversation_id in disaggregated_params and no conversation_params
	OldKV bool
	TP    int // LMCache: tensor-parallel ranks, each with its own ports; default 1
	// LMCache: first of a decoder's receiving ports, opened by Listen; 0 leaves them to ListenKV
	KVPort int
	// LMCache: host:port for notifications of pushed KV cache to the router; "" sends none
	KVNotify string
	Silent   bool       // every answer is just the end-of-sequence token
	Role     fleet.Role // SGLang: the server's role; the others take it from each request
	// SGLang and Mooncake: of a prefiller's bootstrap server, opened by Listen; 0 takes a free one
	BootstrapPort int
	Tokenizer     Tokenizer // TensorRT-LLM: makes the tokens; nil: four bytes of a prompt are a token
	// TensorRT-LLM: a generation worker rejects unsigned requests; "" requires no signature
	DisaggKey string
}

func (o Options) withDefaults() Options {
	if o.Dialect == fleet.KindUnknown {
		o.Dialect = fleet.KindVLLM
	}
	if len(o.Models) == 0 {
		o.Models = []string{"simulated"}
	}
	if o.Ranks == 0 {
		o.Ranks = 1
	}
	if o.Engine == (engine.Config{}) {
		o.Engine = engine.DefaultConfig()
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.ContextTokens == 0 {
		o.ContextTokens = 32768
	}
	if o.Engine.BlockTokens > 0 {
		o.ContextTokens = min(o.ContextTokens, o.Engine.Blocks()*o.Engine.BlockTokens)
	}
	if o.AnswerTokens == 0 {
		o.AnswerTokens = 64
	}
	if o.TP == 0 {
		o.TP = 1
	}
	if o.KVLease == 0 {
		o.KVLease = 30 * time.Second
	}
	if o.KVLatency == 0 {
		o.KVLatency = 5 * time.Millisecond
	}
	if o.KVTokensPerSecond == 0 {
		o.KVTokensPerSecond = 50_000
	}
	if o.BodyBytes == 0 {
		o.BodyBytes = 64 << 20
	}
	return o
}

// pump is what drives the engines of all ranks.
func (o Options) pump() pump.Config {
	c := pump.Config{Engine: o.Engine, Ranks: o.Ranks, Seed: o.Seed, Speed: o.Speed, Computed: o.Computed}
	if o.KVEvents != "" || o.KVConnect != "" {
		c.Events = &kv.Config{
			Kind: o.Dialect, Arrays: o.KVArrays, Ranks: o.Ranks, BlockTokens: o.Engine.BlockTokens,
			Address: o.KVEvents, Connect: o.KVConnect, Topic: o.KVTopic,
		}
	}
	return c
}

// validate reports every fault of options with defaults.
func (o Options) validate(known bool) error {
	errs := []error{o.Engine.Validate()}
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(""+format, args...))
		}
	}
	fault(!known, "no simulated engine speaks %q; known are vllm, sglang, trtllm, llamacpp, ollama", o.Dialect)
	fault(o.KVConnect != "" && o.KVEvents != "", "KV events are published at an address or by dialling out, not both")
	fault(o.KVConnect != "" && o.Dialect != fleet.KindVLLM && o.Dialect != fleet.KindSGLang,
		"%s does not dial out to publish KV events", o.Dialect)
	fault(o.Ranks < 1 || o.Ranks > 64, "ranks must be in 1..64, got %d", o.Ranks)
	fault(o.Ranks > 1 && (o.Dialect == fleet.KindLlamaCpp || o.Dialect == fleet.KindOllama),
		"%s has no data-parallel ranks", o.Dialect)
	fault(!(o.Speed > 0 && o.Speed <= 1e6), "speed must be above 0 and at most 1e6, got %v", o.Speed)
	fault(o.ContextTokens < 2, "context tokens must be at least 2, got %d", o.ContextTokens)
	fault(o.AnswerTokens < 1, "answer tokens must be at least 1, got %d", o.AnswerTokens)
	fault(o.BodyBytes < 1, "body bytes must be at least 1, got %d", o.BodyBytes)
	fault(!handover.Has(o.Dialect, o.Connector), "no simulated %s hands KV cache over by %q; %s",
		o.Dialect, o.Connector, handover.Known)
	fault(o.KVLease < 0 || o.KVLatency < 0 || !(o.KVTokensPerSecond > 0),
		"transfers must take time: lease %v, latency %v, %v tokens a second",
		o.KVLease, o.KVLatency, o.KVTokensPerSecond)
	fault(o.KVPort < 0 || o.KVPort+2*o.TP > 65536, "there are no %d ports from %d on", 2*o.TP, o.KVPort)
	fault(o.TP < 1 || o.TP > 64, "tensor-parallel ranks must be in 1..64, got %d", o.TP)
	fault(o.Tokenizer != nil && (o.Dialect != fleet.KindTRTLLM || o.Connector != ""),
		"only trtllm without a connector takes a tokenizer")
	fault(o.LoadingFor < 0, "loading time must not be negative, got %v", o.LoadingFor)
	for _, m := range append(append([]string(nil), o.Models...), o.Adapters...) {
		fault(m == "", "a model's name is empty")
	}
	return errors.Join(errs...)
}

// Tokenizer is a real tokenizer, for engines with a model's own tokens: Request tokenizes a chat or completion, Encode
// a text.
type Tokenizer interface {
	Request(body []byte) ([]int32, error)
	Encode(text string, special bool) []int32
}
