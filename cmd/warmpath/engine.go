package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/sim/engine"
)

func engineCommand(e env) *cobra.Command {
	var (
		listen, dialect string
		seed            uint64
		role            string
	)
	o := enginetest.Options{Engine: engine.DefaultConfig(), Models: []string{"simulated"}, Ranks: 1, Speed: 1}
	c := &cobra.Command{
		Use:   "engine",
		Short: "Run one simulated engine",
		Long: `Runs one simulated inference engine over HTTP, with continuous batching, chunked prefill, a KV block cache and the API of vLLM,
SGLang, TensorRT-LLM, llama.cpp or Ollama. It computes nothing and says in its answers that it is simulated. Faults can be
switched on while it runs: POST /_sim/fault {"kind":"503","count":3}; GET /_sim/stats shows what it did. Kinds: refuse (give
"seconds", since the closed port cannot be told to open), 500, 503, 429 ("retry_after"), hang, cut ("after_chunks"), slow ("factor";
1000000 hangs with good health), restart, error_event, garbage, none.`,
		Example: `  warmpath engine --dialect vllm --listen 127.0.0.1:9001
  warmpath engine --dialect sglang --ranks 4 --listen 127.0.0.1:9002
  warmpath serve --endpoint http://127.0.0.1:9001

  # One that computes prompts for others, or answers what others computed
  warmpath engine --connector nixl --role prefill --listen 127.0.0.1:9003
  warmpath engine --connector nixl --role decode --listen 127.0.0.1:9004
  warmpath serve --prefill http://127.0.0.1:9003 \
    --decode http://127.0.0.1:9004 --disagg-when always`,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Dialect, o.Seed = fleet.Kind(dialect), seed
			var err error
			if o.Role, err = fleet.ParseRole(role); err != nil {
				return usageError(fmt.Errorf("--role: %w", err))
			}
			if !c.Flags().Changed("seed") && o.Connector == "" {
				h := fnv.New64a()
				_, _ = h.Write([]byte(listen))
				// engines have different seeds; those that hand KV cache over have the same weights, and give the same
				// answers
				o.Seed = h.Sum64()
			}
			if o.KVConnect != "" && o.KVTopic == "" {
				if strings.HasSuffix(listen, ":0") {
					return usageError(
						errors.New("--kv-events-connect needs --kv-topic where --listen leaves the port open"))
				}
				model := "simulated"
				if len(o.Models) > 0 {
					model = o.Models[0]
				}
				o.KVTopic = "kv@" + listen + "@" + model
			}
			if !(o.Speed > 0) {
				return usageError(fmt.Errorf("--speed must be above 0 (1 is real time), got %v", o.Speed))
			}
			if o.Ranks < 1 {
				return usageError(errors.New("--ranks must be at least 1"))
			}
			return runEngine(c.Context(), e, listen, o)
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9001", "address to listen on; port 0 takes a free one")
	f.StringVar(&dialect, "dialect", "vllm", "vllm, sglang, trtllm, llamacpp or ollama")
	f.StringSliceVar(&o.Models, "model", o.Models, "model names to serve")
	f.StringSliceVar(&o.Adapters, "adapter", nil, "LoRA adapters to serve (vllm, sglang)")
	f.StringVar(&o.KVEvents, "kv-events", "", "`ADDRESS` at which KV events are published (vllm, sglang; "+
		"ranks and replays at the ports after it); trtllm answers /kv_cache_events with any")
	f.StringVar(&o.KVConnect, "kv-events-connect", "", "`ADDRESS` (tcp://HOST:PORT) of a router's kv_events.listen: "+
		"KV events are published by dialling out to it (vllm, sglang; each rank to a port one higher)")
	f.StringVar(&o.KVTopic, "kv-topic", "",
		"`TOPIC` of KV events; not given, kv@LISTEN@MODEL with --kv-events-connect, else kv-events")
	f.StringVar(&o.Connector, "connector", "", "`NAME` of the protocol by which KV cache is handed over, "+
		"for serve --prefill and --decode: nixl, lmcache, mooncake, moriio or moriio_read (vllm), sglang, trtllm")
	f.IntVar(&o.TP, "kv-ranks", 1, "tensor-parallel ranks of lmcache, each with two ports of its own")
	f.IntVar(&o.KVPort, "kv-port", 0,
		"first `PORT` at which a decoder of lmcache receives: one to initialise for each rank, then one to allocate")
	f.StringVar(&role, "role", "",
		"prefill or decode: its role. sglang then rejects the rest; others do what each request asks")
	f.IntVar(&o.BootstrapPort, "bootstrap-port", 0,
		"port of a prefiller's bootstrap server (sglang, mooncake); 0 takes a free one")
	f.DurationVar(&o.KVBack, "kv-back", 0, "nixl: how long an answered prompt is held for the prefiller of the next "+
		"turn (bidirectional_kv_xfer); 0 is off")
	f.StringVar(&o.KVNotify, "kv-notify", "",
		"`ADDRESS` of the router's socket for notifications of pushed KV cache (lmcache)")
	f.DurationVar(&o.KVLease, "kv-lease", 0,
		"how long the KV cache of a prompt computed for another engine is held; 0 is 30s")
	f.IntVar(&o.Ranks, "ranks", o.Ranks, "data-parallel ranks, each with a cache of its own")
	f.Uint64Var(&seed, "seed", 0,
		"seed of answers; not given, 0 with a connector, else one that follows from the address")
	f.Float64Var(&o.Speed, "speed", o.Speed, "simulated seconds a real second")
	f.StringVar(&o.APIKey, "api-key", "", "bearer token to ask for")
	f.IntVar(&o.ContextTokens, "context", 0, "longest prompt plus answer in tokens; 0 is 32768")
	f.DurationVar(&o.LoadingFor, "loading", 0, "how long health says that the model is loading")
	f.Float64Var(&o.Engine.PrefillTokensPerSecond, "prefill-rate", o.Engine.PrefillTokensPerSecond,
		"prompt tokens computed a second")
	f.IntVar(&o.Engine.CacheTokens, "cache-tokens", o.Engine.CacheTokens, "KV cache in tokens")
	f.IntVar(&o.Engine.BlockTokens, "block-tokens", o.Engine.BlockTokens, "tokens a KV block")
	f.IntVar(&o.Engine.Slots, "slots", o.Engine.Slots, "requests computed at once")
	_ = c.RegisterFlagCompletionFunc("role",
		cobra.FixedCompletions([]string{"prefill", "decode"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions(
		[]string{"vllm", "sglang", "trtllm", "llamacpp", "ollama"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func runEngine(ctx context.Context, e env, listen string, o enginetest.Options) error {
	s, err := enginetest.New(o)
	if err != nil {
		return usageError(err)
	}
	url, err := s.Listen(listen)
	if err != nil {
		return usageError(fmt.Errorf("cannot listen: %w%s", err, listenHint(err, "--listen", "127.0.0.1:9001")))
	}
	got := s.Options()
	fmt.Fprintf(e.stdout, "simulated %s engine, %d rank(s), models %v, on %s\n",
		got.Dialect, got.Ranks, append(got.Models, got.Adapters...), url)
	<-ctx.Done()
	fmt.Fprintln(e.stdout, "stopping")
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		return errors.New("requests did not end within 10 s")
	}
}
