package enginetest

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	"github.com/warmpath/warmpath/sim/engine"
)

// vllmRoutes are the paths of vLLM's OpenAI server (0.32).
func (s *Server) vllmRoutes(m *http.ServeMux) {
	s.openAIRoutes(m)
	s.responsesRoutes(m)
	s.messagesRoutes(m)
	m.HandleFunc("POST /v1/embeddings", s.embeddings)
	m.HandleFunc("GET /health", s.emptyHealth)
	m.HandleFunc("GET /ping", s.emptyHealth)
	m.HandleFunc("POST /ping", s.emptyHealth)
	m.HandleFunc("GET /version", s.versionJSON)
	m.HandleFunc("GET /load", s.vllmLoad)
	m.HandleFunc("GET /metrics", s.vllmMetrics)
	m.HandleFunc("POST /tokenize", s.tokenize)
	if s.opts.KVEvents+s.opts.KVConnect != "" {
		m.HandleFunc("GET /kv_event_sources", s.kvEventSources)
	}
	m.HandleFunc("POST /detokenize", s.detokenize)
	m.HandleFunc("POST /reset_prefix_cache", func(w http.ResponseWriter, _ *http.Request) {
		s.pump.ClearCache() // 200 even when rejected
		w.WriteHeader(http.StatusOK)
	})
}

// emptyHealth is 200 without a body, 503 during start-up.
func (s *Server) emptyHealth(w http.ResponseWriter, _ *http.Request) {
	if s.loading() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) versionJSON(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, map[string]string{"version": s.dialect.version})
}

func (s *Server) vllmLoad(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, map[string]int64{"server_load": s.tally.open.Load()})
}

// vllmMetrics has the names that routers read, labelled with engine (the rank) and model_name.
func (s *Server) vllmMetrics(w http.ResponseWriter, _ *http.Request) {
	var x exposition
	ranks := s.pump.Stats()
	each := func(name, kind, help string, value func(engine.Stats) float64) {
		x.family(name, kind, help)
		for r, st := range ranks {
			x.sample(name, value(st), "engine", strconv.Itoa(r), "model_name", s.opts.Models[0])
		}
	}
	each("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.",
		func(st engine.Stats) float64 { return float64(st.Running) })
	each("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.",
		func(st engine.Stats) float64 { return float64(st.Waiting) })
	each("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.",
		func(st engine.Stats) float64 {
			return ratio(float64(st.HeldBlocks), float64(st.TotalBlocks))
		})
	each("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in tokens.",
		func(st engine.Stats) float64 { return float64(st.QueryTokens) })
	each("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in tokens.",
		func(st engine.Stats) float64 { return float64(st.HitTokens) })
	each("vllm:num_preemptions_total", "counter", "Preemptions.", func(st engine.Stats) float64 {
		return float64(st.Preemptions)
	})
	each("vllm:prompt_tokens_total", "counter", "Prefill tokens processed.",
		func(st engine.Stats) float64 { return float64(st.PromptTokens) })
	each("vllm:prompt_tokens_cached_total", "counter", "Prompt tokens found in the cache.",
		func(st engine.Stats) float64 { return float64(st.CachedTokens) })
	each("vllm:generation_tokens_total", "counter", "Generation tokens processed.",
		func(st engine.Stats) float64 { return float64(st.OutputTokens) })
	x.family("vllm:request_success_total", "counter", "Successfully processed requests.")
	for r, st := range ranks {
		x.sample("vllm:request_success_total", float64(st.Finished), "engine", strconv.Itoa(r), "finished_reason",
			"stop", "model_name", s.opts.Models[0])
	}
	x.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig.")
	c := s.opts.Engine
	for r := range ranks {
		x.sample("vllm:cache_config_info", 1, "block_size", strconv.Itoa(c.BlockTokens), "enable_prefix_caching",
			"True", "engine", strconv.Itoa(r), "kv_cache_size_tokens", strconv.Itoa(c.Blocks()*c.BlockTokens),
			"num_gpu_blocks", strconv.Itoa(c.Blocks()), "prefix_caching_hash_algo", "simulated")
	}
	if len(s.opts.Adapters) > 0 {
		x.family("vllm:lora_requests_info", "gauge", "Running stats on LoRA requests.")
		x.sample("vllm:lora_requests_info", float64(time.Now().UnixMilli())/1e3,
			"max_lora", strconv.Itoa(len(s.opts.Adapters)),
			"running_lora_adapters", strings.Join(s.opts.Adapters, ","), "waiting_lora_adapters", "")
	}
	x.write(w)
}

// tokenize counts as the engine does: four bytes per token. It takes a prompt or messages (vLLM) or content
// (llama.cpp).
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var f struct {
		api.Fields
		Content *string `json:"content"`
	}
	err := s.read(w, r, &f)
	var b []byte
	switch {
	case err != nil:
	case f.Content != nil:
		b = []byte(*f.Content)
	case len(f.Messages) > 0:
		b, err = prompts.Render(nil, f.Tools, f.Messages)
	default:
		b, err = prompts.PromptBytes(f.Prompt)
	}
	if err != nil {
		s.failWith(w, r, api.ClientFault(err))
		return
	}
	ids := prompts.TokenIDs(b)
	if s.dialect.lanes {
		api.WriteJSON(w, http.StatusOK, map[string]any{"tokens": ids})
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{
		"count": len(ids), "max_model_len": s.opts.ContextTokens, "tokens": ids, "token_strs": nil,
	})
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var f struct {
		Tokens []uint32 `json:"tokens"`
	}
	if err := s.read(w, r, &f); err != nil {
		s.failWith(w, r, err)
		return
	}
	text := strings.TrimRight(string(prompts.TokenBytes(f.Tokens)), "\x00")
	if s.dialect.lanes {
		api.WriteJSON(w, http.StatusOK, map[string]any{"content": text})
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{"prompt": text})
}
