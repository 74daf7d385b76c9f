package enginetest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/sim/engine"
)

// trtllmRoutes are the paths of a trtllm-serve worker.
func (s *Server) trtllmRoutes(m *http.ServeMux) {
	s.openAIRoutes(m)
	m.HandleFunc("GET /health", s.emptyHealth)
	m.HandleFunc("GET /version", s.versionJSON)
	m.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) {
		api.WriteJSON(w, http.StatusOK, map[string]any{
			"disaggregated_params": s.trtServerInfo(), "tokens_per_block": s.opts.Engine.BlockTokens,
			"kv_cache_hash_algo": "simulated", "max_batch_size": s.opts.Engine.Slots, "simulated": true,
		})
	})
	it := &iterations{s: s, last: make([]engine.Stats, s.opts.Ranks)}
	m.HandleFunc("GET /metrics", it.serve)
	if s.opts.KVEvents != "" {
		m.HandleFunc("POST /kv_cache_events", s.kvCacheEvents)
	}
	m.HandleFunc("GET /prometheus/metrics", s.trtllmMetrics)
	if s.opts.Connector == "" {
		m.HandleFunc("GET /perf_metrics",
			func(w http.ResponseWriter, _ *http.Request) { api.WriteJSON(w, http.StatusOK, []any{}) })
	}
}

// trtllmChat and trtllmCompletions are the members that TensorRT-LLM's requests may have; it refuses others
// (serve/openai_protocol.py, 0076e939). Its responses take any.
const (
	trtllmBoth = " model frequency_penalty logit_bias logprobs max_tokens n presence_penalty response_format seed " +
		"stop stream stream_options " +
		"temperature top_p user lora_request prompt_ignore_length best_of use_beam_search top_k top_p_min min_p " +
		"repetition_penalty length_penalty early_stopping stop_token_ids include_stop_str_in_output ignore_eos " +
		"min_tokens skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens " +
		"thinking_token_budget echo add_special_tokens disaggregated_params conversation_params priority "
	trtllmChat = trtllmBoth + "messages prompt_token_ids prompt_token_ids_b64 top_logprobs max_completion_tokens " +
		"tools tool_choice parallel_tool_calls reasoning_effort thinking add_generation_prompt documents " +
		"chat_template chat_template_kwargs " +
		"injected_chat_template_kwargs media_io_kwargs cache_salt agent_hierarchy mm_processor_kwargs "
	trtllmCompletions = trtllmBoth + "prompt suffix return_context_logits detokenize "
)

// checkTRTLLM refuses what pydantic refuses before TensorRT-LLM's handlers see it.
func checkTRTLLM(r *http.Request, f *api.Fields) error {
	known := trtllmCompletions
	switch r.URL.Path {
	case "/v1/chat/completions":
		known = trtllmChat
	case "/v1/completions":
	default:
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(f.Body, &members); err != nil {
		return api.Bad("the body is not valid: %v", err)
	}
	limits := 0
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name == "max_tokens" || name == "max_completion_tokens" {
			limits++ // one is the other's alias, and beside it an unknown member
		}
		if limits > 1 || !strings.Contains(known, " "+name+" ") {
			return api.Invalid("extra_forbidden", name, "Extra inputs are not permitted")
		}
	}
	switch {
	case f.Model == "":
		return api.Invalid("missing", "model", "Field required")
	case f.StreamOptions != nil && (f.Stream == nil || !*f.Stream):
		return api.Invalid("value_error", "", "Value error, stream_options can only be set if stream is true")
	}
	return nil
}

// iterations are the engine's iteration statistics: a JSON array since the last call, which clears it. The simulated
// engine sums up the steps in between to one entry per rank, and has none without steps.
type iterations struct {
	s    *Server
	mu   sync.Mutex
	last []engine.Stats
}

func (it *iterations) serve(w http.ResponseWriter, _ *http.Request) {
	it.mu.Lock()
	defer it.mu.Unlock()
	out := []any{}
	for rank, st := range it.s.pump.Stats() {
		last := it.last[rank]
		if st.Steps < last.Steps {
			last = engine.Stats{} // the engine restarted
		}
		it.last[rank] = st
		if st.Steps == last.Steps {
			continue
		}
		out = append(out, map[string]any{
			"iter": st.Steps, "iterLatencyMS": ms(st.Busy-last.Busy) / float64(st.Steps-last.Steps),
			"numActiveRequests": st.Running + st.Waiting, "numQueuedRequests": st.Waiting,
			"numCompletedRequests": st.Finished - last.Finished, "maxNumActiveRequests": it.s.opts.Engine.Slots,
			"attentionDpRank": rank, "timestamp": time.Now().Format("01-02-2006 15:04:05.000000"),
			"kvCacheStats": map[string]any{
				"maxNumBlocks": st.TotalBlocks, "freeNumBlocks": st.TotalBlocks - st.HeldBlocks,
				"usedNumBlocks": st.HeldBlocks, "tokensPerBlock": it.s.opts.Engine.BlockTokens,
				"reusedBlocks": int(st.HitTokens-last.HitTokens) / it.s.opts.Engine.BlockTokens,
				"cacheHitRate": ratio(float64(st.HitTokens-last.HitTokens), float64(st.QueryTokens-last.QueryTokens)),
			},
			"inflightBatchingStats": map[string]any{
				"numScheduledRequests": st.Running, "numContextRequests": 0, "numGenRequests": st.Running,
				"numPausedRequests": st.Preemptions - last.Preemptions,
				"numCtxTokens":      st.PrefillTokens - last.PrefillTokens,
			},
		})
	}
	api.WriteJSON(w, http.StatusOK, out)
}

func (s *Server) trtllmMetrics(w http.ResponseWriter, _ *http.Request) {
	var x exposition
	var held, total, hits, queries, done, running, waiting float64
	for _, st := range s.pump.Stats() {
		running += float64(st.Running)
		waiting += float64(st.Waiting)
		held += float64(st.HeldBlocks)
		total += float64(st.TotalBlocks)
		hits += float64(st.HitTokens)
		queries += float64(st.QueryTokens)
		done += float64(st.Finished)
	}
	labels := []string{"engine_type", "simulated", "model_name", s.opts.Models[0]}
	x.family("trtllm_request_success_total", "counter", "Successfully processed requests.")
	x.sample("trtllm_request_success_total", done, labels...)
	gauge := func(name, help string, v float64) { // of a server in several processes: each has its own
		x.family(name, "gauge", help)
		x.sample(name, v, append(labels, "pid", "1")...)
	}
	gauge("trtllm_num_requests_running", "Number of active requests", running)
	gauge("trtllm_num_requests_waiting", "Number of queued requests", waiting)
	gauge("trtllm_kv_cache_hit_rate", "KV cache hit rate", ratio(hits, queries))
	gauge("trtllm_kv_cache_utilization", "KV cache utilization", ratio(held, total))
	gauge("trtllm_kv_cache_max_blocks", "Maximum number of KV cache blocks", total)
	gauge("trtllm_kv_cache_used_blocks", "Number of used KV cache blocks", held)
	gauge("trtllm_kv_cache_tokens_per_block", "Number of tokens per KV cache block", float64(s.opts.Engine.BlockTokens))
	x.write(w)
}

// trtServerInfo is /server_info for generation-first.
func (s *Server) trtServerInfo() any {
	if s.opts.Connector != "trtllm" {
		return nil
	}
	return map[string]any{"ctx_info_endpoint": []string{"tcp://" + s.address()}}
}
