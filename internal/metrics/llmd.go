package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
)

// Bounds of buckets of llm-d's endpoint picker (llm-d-router, pkg/epp/metrics, 2026) and of the one before it
// (gateway-api-inference-extension, pkg/epp/metrics/metrics.go).
var (
	llmdSeconds = []float64{
		.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 180, 240, 300,
		360, 480, 600, 900, 1200, 1800, 2700, 3600,
	}
	llmdTTFT = []float64{
		.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120,
	}
	llmdTPOT     = []float64{.0005, .00205, .005, .01, .02, .04, .06, .08, .1, .125, .15, .2, .3, .4, .5, .6, .8, 1, 2}
	llmdNTPOT    = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}
	llmdPrompt   = append(append([]float64{}, llmdResponse...), 131072, 262144, 524288, 1048576)
	llmdAnswer   = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
	llmdRequest  = prometheus.ExponentialBuckets(64, 2, 25)
	llmdResponse = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32778, 65536}
	llmdDecision = []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1}
)

// llmdCounts are the histograms that llm-d's metrics need and ours lack, by pool.
type llmdCounts struct {
	seconds, ttft, tpot, ntpot, prompt, answer, cached, request, response *prometheus.HistogramVec

	decision prometheus.Histogram
}

// served counts a client request.
func (c *llmdCounts) served(s *live.Served, pool string) {
	seconds := s.Ended.Sub(s.Started).Seconds()
	c.seconds.WithLabelValues(pool).Observe(seconds)
	c.request.WithLabelValues(pool).Observe(float64(s.BytesIn))
	if s.Outcome != fleet.OK || s.Status != 200 {
		return
	}
	c.response.WithLabelValues(pool).Observe(float64(s.BytesOut))
	positive := func(h *prometheus.HistogramVec, n int) {
		if n > 0 {
			h.WithLabelValues(pool).Observe(float64(n))
		}
	}
	positive(c.prompt, s.Usage.PromptTokens)
	positive(c.answer, s.Usage.OutputTokens)
	positive(c.cached, s.Usage.CachedTokens)
	if s.Usage.OutputTokens > 0 {
		c.ntpot.WithLabelValues(pool).Observe(seconds / float64(s.Usage.OutputTokens))
	}
	first := seconds
	if s.Stream && !s.FirstByte.IsZero() {
		first = s.FirstByte.Sub(s.Started).Seconds()
		if s.Usage.OutputTokens > 1 {
			c.tpot.WithLabelValues(pool).Observe((seconds - first) / float64(s.Usage.OutputTokens-1))
		}
	}
	c.ttft.WithLabelValues(pool, strconv.FormatBool(s.Stream)).Observe(first)
}

// all are the histograms by pool.
func (c *llmdCounts) all() []*prometheus.HistogramVec {
	return []*prometheus.HistogramVec{
		c.seconds, c.ttft, c.tpot, c.ntpot, c.prompt, c.answer, c.cached, c.request, c.response,
	}
}

// llmdPool is the name under which pool metrics are served: llm-d's is that of the InferencePool.
const llmdPool = "warmpath"

// llmdPeer are the names of llm-d's endpoint picker, and those that it had before, which it serves too.
func llmdPeer() peer {
	model := []string{"model_name", "target_model_name"}
	var all []peerFamily
	add := func(
		now, before, kind string, labels []string, help string, bounds []float64, of func(*translation) []sample,
	) {
		all = append(all, peerFamily{family{now, kind, labels, help, bounds}, of})
		if before != "" {
			all = append(all, peerFamily{family{before, kind, labels, "The same under its earlier name", bounds}, of})
		}
	}
	byModel := func(name string, more ...string) func(*translation) []sample {
		return func(t *translation) []sample {
			return t.sum(name, func(l labels) []string {
				out := []string{l["pool"], l["pool"]}
				for _, label := range more {
					out = append(out, l[label])
				}
				return out
			})
		}
	}
	// mean of a gauge that there is for each endpoint that reports it
	mean := func(name string) func(*translation) []sample {
		return func(t *translation) []sample {
			sum, n := 0.0, 0
			for _, m := range t.own[name].GetMetric() {
				sum, n = sum+m.GetGauge().GetValue(), n+1
			}
			if n == 0 {
				return nil
			}
			return []sample{{labels: []string{llmdPool}, value: sum / float64(n)}}
		}
	}
	pool := []string{"name"}
	add("llm_d_epp_request_total", "inference_objective_request_total", counter, model, "Client requests by pool",
		nil, byModel("warmpath_requests_total"))
	add("llm_d_epp_request_error_total", "inference_objective_request_error_total", counter,
		append(append([]string{}, model...), "error_code"),
		"Client requests with a status of 400 or more; error_code is the status", nil, func(t *translation) []sample {
			return t.sum("warmpath_requests_total", func(l labels) []string {
				return failed(l, l["pool"], l["pool"], l["code"])
			})
		})
	add("llm_d_epp_request_duration_seconds", "inference_objective_request_duration_seconds", histogram, model,
		"Time from a client request's arrival to its end", llmdSeconds, byModel("direct_llmd_seconds"))
	add("llm_d_epp_request_ttft_seconds", "", histogram, append(append([]string{}, model...), "streaming"),
		"Time to the first data of an answer; without a stream to its end",
		llmdTTFT, byModel("direct_llmd_ttft", "stream"))
	add("llm_d_epp_request_streaming_tpot_seconds", "", histogram, model,
		"Mean time between tokens of a streamed answer, one observation a request",
		llmdTPOT, byModel("direct_llmd_tpot"))
	add("llm_d_epp_request_ntpot_seconds", "inference_objective_normalized_time_per_output_token_seconds", histogram,
		model, "Time of a request divided by the tokens of its answer", llmdNTPOT, byModel("direct_llmd_ntpot"))
	add("llm_d_epp_request_input_tokens", "inference_objective_input_tokens", histogram, model,
		"Prompt tokens, as engines report them", llmdPrompt, byModel("direct_llmd_prompt"))
	add("llm_d_epp_request_output_tokens", "inference_objective_output_tokens", histogram, model,
		"Answer tokens, as engines report them", llmdAnswer, byModel("direct_llmd_answer"))
	add("llm_d_epp_request_cached_tokens", "", histogram, model, "Cached prompt tokens, as engines report them",
		llmdPrompt, byModel("direct_llmd_cached"))
	add("llm_d_epp_request_size_bytes", "inference_objective_request_sizes", histogram, model,
		"Bytes of request bodies", llmdRequest, byModel("direct_llmd_request"))
	add("llm_d_epp_response_size_bytes", "inference_objective_response_sizes", histogram, model,
		"Bytes of answers with status 200", llmdResponse, byModel("direct_llmd_response"))
	add("llm_d_epp_ready_endpoints", "inference_pool_ready_pods", gauge, pool, "Endpoints that are up",
		nil, func(t *translation) []sample {
			n := 0.0
			for i := range t.endpoints {
				n += oneIf(t.endpoints[i].state == fleet.StateUp)
			}
			return []sample{{labels: []string{llmdPool}, value: n}}
		})
	add("llm_d_epp_average_kv_cache_utilization", "inference_pool_average_kv_cache_utilization", gauge, pool,
		"Mean of warmpath_endpoint_kv_usage_ratio", nil, mean("warmpath_endpoint_kv_usage_ratio"))
	add("llm_d_epp_average_queue_size", "inference_pool_average_queue_size", gauge, pool,
		"Mean of warmpath_endpoint_engine_waiting", nil, mean("warmpath_endpoint_engine_waiting"))
	add("llm_d_epp_average_running_requests", "", gauge, pool, "Mean of warmpath_endpoint_engine_running",
		nil, mean("warmpath_endpoint_engine_running"))
	add("llm_d_epp_scheduler_e2e_duration_seconds", "inference_extension_scheduler_e2e_duration_seconds", histogram,
		nil, "Time to decide where a request goes", llmdDecision, total("direct_llmd_decision"))
	return peer{llmd, all, []leftOut{
		{
			"`fairness_id`, `priority`",
			"our requests are not counted by tenant and priority; both model labels are the pool",
		},
		{
			"`llm_d_epp_request_running`, `llm_d_epp_inflight_requests`",
			"see `warmpath_endpoint_outstanding_requests`, which is by endpoint",
		},
		{
			"`llm_d_epp_flow_control_*`",
			"the queue is another: `warmpath_queue_seconds`, `warmpath_endpoint_queued_requests`",
		},
		{
			"`llm_d_epp_plugin_duration_seconds`, `llm_d_epp_scheduler_attempts_total`, `llm_d_epp_datalayer_*`, " +
				"`llm_d_epp_model_rewrite_*`", "they describe its inside",
		},
		{
			"`llm_d_epp_kv_cache_*`, `inference_extension_prefix_indexer_*`",
			"see `warmpath_kv_*` and `warmpath_predicted_cached_tokens_total`",
		},
	}}
}
