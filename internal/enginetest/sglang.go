package enginetest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	"github.com/warmpath/warmpath/sim/engine"
)

// sglangRoutes are the paths of SGLang's server (0.5.23). It no longer has /get_load.
func (s *Server) sglangRoutes(m *http.ServeMux) {
	s.openAIRoutes(m)
	s.responsesRoutes(m)
	s.messagesRoutes(m)
	m.HandleFunc("POST /v1/embeddings", s.embeddings)
	m.HandleFunc("POST /generate", s.generate)
	m.HandleFunc("GET /health", s.sglangHealth)
	m.HandleFunc("GET /health_generate", s.sglangHealth)
	m.HandleFunc("GET /ready", s.emptyHealth)
	m.HandleFunc("GET /ping", s.emptyHealth)
	for _, prefix := range []string{"/", "/get_"} {
		m.HandleFunc("GET "+prefix+"model_info", s.sglangModelInfo)
		m.HandleFunc("GET "+prefix+"server_info", s.sglangServerInfo)
	}
	m.HandleFunc("GET /v1/loads", s.sglangLoads)
	m.HandleFunc("GET /metrics", s.sglangMetrics)
	m.HandleFunc("POST /v1/tokenize", s.tokenize)
	m.HandleFunc("POST /flush_cache", s.flushCache)
	m.HandleFunc("GET /flush_cache", s.flushCache)
}

func (s *Server) flushCache(w http.ResponseWriter, _ *http.Request) {
	if !s.pump.ClearCache() {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("Flush cache failed: requests are running.\n"))
		return
	}
	_, _ = w.Write([]byte("Cache flushed.\n"))
}

// sglangHealth runs a generation of one token, and answers after a second of simulated time.
func (s *Server) sglangHealth(w http.ResponseWriter, r *http.Request) {
	if s.loading() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	st, err := s.pump.Submit(-1, engine.Job{PromptTokens: 1, OutputTokens: 1})
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	pause := time.NewTimer(time.Duration(float64(time.Second) / s.opts.Speed))
	defer pause.Stop()
	s.wait(r, st, 1)
	select {
	case <-pause.C:
	case <-r.Context().Done():
	case <-s.closing:
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) sglangModelInfo(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, map[string]any{
		"model_path": s.opts.Models[0], "tokenizer_path": s.opts.Models[0], "is_generation": true,
		"weight_version": "default", "simulated": true,
	})
}

func (s *Server) sglangServerInfo(w http.ResponseWriter, _ *http.Request) {
	c := s.opts.Engine
	states := make([]any, s.opts.Ranks)
	for i := range states {
		states[i] = map[string]any{
			"last_gen_throughput": 0.0, "memory_usage": map[string]any{"token_capacity": c.Blocks() * c.BlockTokens},
		}
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{
		"model_path": s.opts.Models[0], "served_model_name": s.opts.Models[0], "context_length": s.opts.ContextTokens,
		"page_size": c.BlockTokens, "max_running_requests": c.Slots, "max_total_num_tokens": c.Blocks() * c.BlockTokens,
		"chunked_prefill_size": c.ChunkTokens, "dp_size": s.opts.Ranks, "tp_size": 1,
		"disaggregation_mode": s.sglangMode(), "disaggregation_bootstrap_port": max(s.BootstrapPort(), 8998),
		"enable_cache_report": !s.opts.NoCacheReport, "load_balance_method": "round_robin", "kv_events_config": nil,
		"kv_events": s.pump.Publishers().Info(),
		"status":    "ready", "version": s.dialect.version, "internal_states": states, "simulated": true,
	})
}

// sglangLoads is the core section of each rank, or of ?dp_rank=.
func (s *Server) sglangLoads(w http.ResponseWriter, r *http.Request) {
	only := r.URL.Query().Get("dp_rank")
	now := time.Now()
	capacity := s.opts.Engine.Blocks() * s.opts.Engine.BlockTokens
	loads := []any{}
	for rank, st := range s.pump.Stats() {
		if only != "" && only != strconv.Itoa(rank) {
			continue
		}
		used := st.HeldBlocks * s.opts.Engine.BlockTokens
		loads = append(loads, map[string]any{
			"timestamp": float64(now.UnixMicro()) / 1e6, "dp_rank": rank,
			"num_running_reqs": st.Running, "num_waiting_reqs": st.Waiting, "num_waiting_uncached_tokens": 0,
			"num_used_tokens": used, "num_total_tokens": used, "num_active_tokens": used,
			"max_total_num_tokens": capacity, "max_running_requests": s.opts.Engine.Slots,
			"token_usage": ratio(float64(used), float64(capacity)), "gen_throughput": ratio(float64(st.OutputTokens),
				st.Busy.Seconds()), "cache_hit_rate": ratio(float64(st.CachedTokens), float64(st.PromptTokens)),
			"utilization": ratio(float64(st.Running), float64(s.opts.Engine.Slots)),
			"memory":      map[string]any{"token_capacity": capacity},
			"queues":      map[string]any{"waiting": st.Waiting, "grammar": 0, "paused": 0, "retracted": 0},
		})
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{
		"timestamp": now.UTC().Format("2006-01-02T15:04:05.000000+00:00"), "version": s.dialect.version,
		"accelerator": "simulated", "num_accelerators": 1, "loads": loads,
	})
}

// sglangMetrics has the names that routers read.
func (s *Server) sglangMetrics(w http.ResponseWriter, _ *http.Request) {
	var x exposition
	ranks := s.pump.Stats()
	bt := float64(s.opts.Engine.BlockTokens)
	labels := func(rank int, more ...string) []string {
		l := append([]string{
			"engine_type", "unified", "model_name", s.opts.Models[0], "pp_rank", "0", "tp_rank", "0",
		}, more...)
		if len(ranks) > 1 {
			l = append(l, "dp_rank", strconv.Itoa(rank))
		}
		return l
	}
	each := func(name, kind, help string, value func(engine.Stats) float64, more ...string) {
		x.family(name, kind, help)
		for r, st := range ranks {
			x.sample(name, value(st), labels(r, more...)...)
		}
	}
	each("sglang:num_running_reqs", "gauge", "The number of running requests.",
		func(st engine.Stats) float64 { return float64(st.Running) })
	each("sglang:num_queue_reqs", "gauge", "The number of requests in the waiting queue.",
		func(st engine.Stats) float64 { return float64(st.Waiting) })
	each("sglang:token_usage", "gauge", "The token usage.",
		func(st engine.Stats) float64 { return ratio(float64(st.HeldBlocks), float64(st.TotalBlocks)) })
	each("sglang:kv_used_tokens", "gauge", "Tokens in use.", func(st engine.Stats) float64 {
		return float64(st.HeldBlocks) * bt
	})
	each("sglang:kv_evictable_tokens", "gauge", "Cached tokens that can be evicted.",
		func(st engine.Stats) float64 { return float64(st.KeptBlocks) * bt })
	each("sglang:kv_available_tokens", "gauge", "Free tokens.", func(st engine.Stats) float64 {
		return float64(st.TotalBlocks-st.HeldBlocks-st.KeptBlocks) * bt
	})
	each("sglang:max_total_num_tokens", "gauge", "Tokens in the KV cache pool.",
		func(st engine.Stats) float64 { return float64(st.TotalBlocks) * bt })
	each("sglang:page_size", "gauge", "KV cache page size in tokens.", func(engine.Stats) float64 { return bt })
	each("sglang:cache_hit_rate", "gauge", "The prefix cache hit rate.", func(st engine.Stats) float64 {
		return ratio(float64(st.CachedTokens), float64(st.PromptTokens))
	})
	each("sglang:utilization", "gauge", "The utilization.", func(st engine.Stats) float64 {
		return ratio(float64(st.Running), float64(s.opts.Engine.Slots))
	})
	each("sglang:num_retracted_reqs", "gauge", "Requests retracted.",
		func(st engine.Stats) float64 { return float64(st.Preemptions) })
	each("sglang:prompt_tokens_total", "counter", "Prefill tokens processed.",
		func(st engine.Stats) float64 { return float64(st.PromptTokens) })
	each("sglang:generation_tokens_total", "counter", "Generation tokens processed.",
		func(st engine.Stats) float64 { return float64(st.OutputTokens) })
	each("sglang:cached_tokens_total", "counter", "Cached prompt tokens.",
		func(st engine.Stats) float64 { return float64(st.CachedTokens) }, "cache_source", "device")
	each("sglang:num_requests_total", "counter", "Requests processed.",
		func(st engine.Stats) float64 { return float64(st.Finished) })
	each("sglang:num_aborted_requests_total", "counter", "Requests aborted.",
		func(st engine.Stats) float64 { return float64(st.Cancelled) })
	x.write(w)
}

// generate is SGLang's native path: text or input_ids, sampling_params, with the whole text so far in each chunk.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	var f struct {
		api.Fields
		Text     json.RawMessage `json:"text"`
		InputIDs json.RawMessage `json:"input_ids"`
		Sampling struct {
			MaxNewTokens *int `json:"max_new_tokens"`
			MinNewTokens int  `json:"min_new_tokens"`
			IgnoreEOS    bool `json:"ignore_eos"`
			N            *int `json:"n"`
		} `json:"sampling_params"`
	}
	err := s.read(w, r, &f)
	var a *api.Ask
	if err == nil {
		f.MaxTokens, f.MinTokens, f.IgnoreEOS, f.N = f.Sampling.MaxNewTokens, f.Sampling.MinNewTokens,
			f.Sampling.IgnoreEOS, f.Sampling.N
		if f.MaxTokens == nil {
			f.MaxTokens = new(int)
			*f.MaxTokens = 128 // SGLang's default
		}
		a, err = s.newAsk(r, &f.Fields)
	}
	if err == nil {
		raw := f.Text
		if !prompts.Present(raw) {
			raw = f.InputIDs
		}
		if a.Prompt, err = prompts.PromptBytes(raw); err != nil {
			err = api.Bad("text or input_ids: %v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, api.NewGenerate(s.style))
}

// sglangMode is the server's role in /server_info.
func (s *Server) sglangMode() string {
	if s.opts.Connector != "sglang" || s.opts.Role == fleet.RoleBoth {
		return "null"
	}
	return string(s.opts.Role)
}
