package enginetest

import (
	"net/http"
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
			"disaggregated_params": s.trtServerInfo(), "tokens_per_block": s.opts.Engine.BlockTokens, "kv_cache_hash_algo": "simulated",
			"max_batch_size": s.opts.Engine.Slots, "simulated": true,
		})
	})
	it := &iterations{s: s, last: make([]engine.Stats, s.opts.Ranks)}
	m.HandleFunc("GET /metrics", it.serve)
	if s.opts.KVEvents != "" {
		m.HandleFunc("POST /kv_cache_events", s.kvCacheEvents)
	}
	m.HandleFunc("GET /prometheus/metrics", s.trtllmMetrics)
	if s.opts.Connector == "" {
		m.HandleFunc("GET /perf_metrics", func(w http.ResponseWriter, _ *http.Request) { api.WriteJSON(w, http.StatusOK, []any{}) })
	}
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
			"numActiveRequests": st.Running + st.Waiting, "numQueuedRequests": st.Waiting, "numCompletedRequests": st.Finished - last.Finished,
			"maxNumActiveRequests": it.s.opts.Engine.Slots, "attentionDpRank": rank,
			"timestamp": time.Now().Format("01-02-2006 15:04:05.000000"),
			"kvCacheStats": map[string]any{
				"maxNumBlocks": st.TotalBlocks, "freeNumBlocks": st.TotalBlocks - st.HeldBlocks, "usedNumBlocks": st.HeldBlocks,
				"tokensPerBlock": it.s.opts.Engine.BlockTokens, "reusedBlocks": int(st.HitTokens-last.HitTokens) / it.s.opts.Engine.BlockTokens,
				"cacheHitRate": ratio(float64(st.HitTokens-last.HitTokens), float64(st.QueryTokens-last.QueryTokens)),
			},
			"inflightBatchingStats": map[string]any{
				"numScheduledRequests": st.Running, "numContextRequests": 0, "numGenRequests": st.Running,
				"numPausedRequests": st.Preemptions - last.Preemptions, "numCtxTokens": st.PrefillTokens - last.PrefillTokens,
			},
		})
	}
	api.WriteJSON(w, http.StatusOK, out)
}

func (s *Server) trtllmMetrics(w http.ResponseWriter, _ *http.Request) {
	var x exposition
	var held, total, hits, queries, done float64
	for _, st := range s.pump.Stats() {
		held += float64(st.HeldBlocks)
		total += float64(st.TotalBlocks)
		hits += float64(st.HitTokens)
		queries += float64(st.QueryTokens)
		done += float64(st.Finished)
	}
	labels := []string{"engine_type", "simulated", "model_name", s.opts.Models[0]}
	x.family("trtllm_request_success_total", "counter", "Successfully processed requests.")
	x.sample("trtllm_request_success_total", done, labels...)
	x.family("trtllm_kv_cache_hit_rate", "gauge", "KV cache hit rate.")
	x.sample("trtllm_kv_cache_hit_rate", ratio(hits, queries), labels...)
	x.family("trtllm_kv_cache_utilization", "gauge", "KV cache utilization.")
	x.sample("trtllm_kv_cache_utilization", ratio(held, total), labels...)
	x.write(w)
}

// trtServerInfo is /server_info for generation-first.
func (s *Server) trtServerInfo() any {
	if s.opts.Connector != "trtllm" {
		return nil
	}
	return map[string]any{"ctx_info_endpoint": []string{"tcp://" + s.address()}}
}
