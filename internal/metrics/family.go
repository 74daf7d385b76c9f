package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// The kinds of family, as docs/metrics.md names them.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// family describes one metric. The table of families makes both the registry and docs/metrics.md, so neither can say
// what the other does not.
type family struct {
	Name    string
	Kind    string
	Labels  []string
	Help    string    // ends without a full stop, as Prometheus has it
	Buckets []float64 // in the unit of the name; histograms only
}

// Bucket bounds in seconds. Native histograms stand beside them for scrapers that can read those; the classic bounds
// are chosen so that quantiles over the interesting range are off by at most a third.
var (
	firstByteBuckets = []float64{
		.001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 60,
	}
	tokenBuckets    = []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .02, .03, .04, .05, .075, .1, .15, .2, .3, .5, 1, 2, 5}
	requestBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}
	errorBuckets    = []float64{0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
	shareBuckets    = []float64{0, .002, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1}
	decisionBuckets = []float64{1e-6, 2e-6, 3e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 1e-2, 1e-1}
)

// families lists every metric of ours in the order of docs/metrics.md.
func families() []family {
	poolEndpoint := []string{"pool", "endpoint"}
	endpoint := []string{"endpoint"}
	return append([]family{
		{"warmpath_requests_total", counter, []string{"pool", "endpoint", "api", "code"}, "Client requests, counted at their end; endpoint is the last one tried", nil},
		{"warmpath_attempts_total", counter, []string{"endpoint", "outcome"}, "Attempts at endpoints by how they ended; a retried request has several", nil},
		{"warmpath_retries_total", counter, []string{"endpoint", "outcome"}, "Attempts that failed before their first byte and were made again elsewhere, by the endpoint that failed and how", nil},
		{"warmpath_retries_refused_total", counter, nil, "Attempts that failed before their first byte and were not made again because the retry budget was used up (limits.retry_share)", nil},
		{"warmpath_ejections_spared_total", counter, nil, "Failed requests that would have ejected their endpoint if not as much of its pool had been ejected as may be (health.eject_share)", nil},
		{"warmpath_panic_decisions_total", counter, nil, "Decisions that ignored ejections for failed requests because too little of the pool was left (health.panic_share)", nil},
		{"warmpath_client_gone_total", counter, nil, "Client requests whose client left before their end", nil},
		{"warmpath_ttft_seconds", histogram, poolEndpoint, "Time from a client request's arrival to the first data (not the header) of its answer", firstByteBuckets},
		{"warmpath_itl_seconds", histogram, poolEndpoint, "Mean time between tokens of a streamed answer, one observation a request", tokenBuckets},
		{"warmpath_request_seconds", histogram, poolEndpoint, "Time from a client request's arrival to its end", requestBuckets},
		{"warmpath_decision_seconds", histogram, []string{"pool"}, "Time to decide where a request goes, the wait for the router's lock included", decisionBuckets},
		{"warmpath_decisions_total", counter, []string{"pool", "policy", "reason"}, "Decisions by the reason that the policy gave", nil},
		{"warmpath_splits_total", counter, []string{"pool", "why", "legs"}, "Turns of models with roles (prefill, decode) by why they were served in 2 legs or in 1", nil},
		{"warmpath_prompt_tokens_total", counter, poolEndpoint, "Prompt tokens as reported by engines, cached ones included", nil},
		{"warmpath_cached_tokens_total", counter, poolEndpoint, "Prompt tokens that engines reported as found in their cache", nil},
		{"warmpath_predicted_cached_tokens_total", counter, poolEndpoint, "Prompt tokens that the router expected to be in the engine's cache, of the requests whose prompt tokens were reported", nil},
		{"warmpath_output_tokens_total", counter, poolEndpoint, "Answer tokens as reported by engines", nil},
		{"warmpath_cached_tokens_prediction_error_tokens", histogram, []string{"pool", "direction"}, "Distance between the cached tokens predicted and those the engine reported, of each answer that reports them; direction is over or under", errorBuckets},
		{"warmpath_cached_tokens_prediction_error_ratio", histogram, []string{"pool"}, "The same distance as a share of the prompt's tokens", shareBuckets},
		{"warmpath_ttft_prediction_error_seconds", histogram, []string{"pool", "direction"}, "Distance between the time to first token predicted and the one observed from the decision on, of streamed answers; direction is late or early", firstByteBuckets},
		{"warmpath_regret_seconds", histogram, []string{"pool"}, "How much later the first token of a streamed answer came than it was predicted at the best of the other candidates, 0 when it came sooner; empty when explain.keep is 0", firstByteBuckets},
		{"warmpath_queue_seconds", histogram, []string{"pool"}, "How long requests waited in the router's own queue until the endpoint was sent them, of those that did and were", firstByteBuckets},
		{"warmpath_cache_losses_total", counter, endpoint, "Times that requests showed that the endpoint had lost its cache, as a restart does", nil},
		{"warmpath_explain_lines_total", counter, []string{"result"}, "Decisions written to explain.file, and dropped because it did not keep up; absent when there is no file", nil},
		{"warmpath_record_lines_total", counter, []string{"result"}, "Requests written to record.file, and dropped because it did not keep up, could not be written, or too much was under way; absent when there is no file", nil},
		{"warmpath_access_log_lines_total", counter, []string{"result"}, "Requests written to the access log, and dropped because it did not keep up or could not be written; absent when there is none", nil},
		{"warmpath_log_lines_total", counter, []string{"result"}, "Log lines written to standard error, and dropped because it did not keep up", nil},
		{"warmpath_endpoint_info", gauge, []string{"endpoint", "kind", "source"}, "1 for each declared endpoint: the kind of engine and the discovery source that declares it", nil},
		{"warmpath_endpoint_state", gauge, []string{"endpoint", "state"}, "1 for the state that the endpoint is in, 0 for the others", nil},
		{"warmpath_endpoint_draining", gauge, endpoint, "1 while the endpoint takes no new requests because it is being drained", nil},
		{"warmpath_endpoint_weight", gauge, endpoint, "Configured weight of the endpoint", nil},
		{"warmpath_endpoint_ramp_ratio", gauge, endpoint, "Share of its weight that an endpoint has while it is taken in gently, 0 to 1", nil},
		{"warmpath_endpoint_outstanding_requests", gauge, endpoint, "Requests that the router has at the endpoint now", nil},
		{"warmpath_endpoint_queued_requests", gauge, endpoint, "Of these, requests in the router's own queue, which the endpoint has not been sent yet", nil},
		{"warmpath_endpoint_outstanding_prefill_tokens", gauge, endpoint, "Prompt tokens still to compute at the endpoint: uncached, first byte not yet seen", nil},
		{"warmpath_endpoint_outstanding_decode_tokens", gauge, endpoint, "Answer tokens expected of the endpoint's outstanding requests", nil},
		{"warmpath_endpoint_transfer_requests", gauge, endpoint, "Requests whose KV cache the endpoint, which computed it, still holds for another one, or waits for from another one", nil},
		{"warmpath_endpoint_transfer_tokens", gauge, endpoint, "Prompt tokens of these that are to be moved", nil},
		{"warmpath_endpoint_transfer_seconds", gauge, endpoint, "Time until an endpoint that is asked to decode has KV cache from elsewhere and its first token, with nothing to move, as learnt; absent before the first transfer", nil},
		{"warmpath_endpoint_transfer_tokens_per_second", gauge, endpoint, "Prompt tokens of KV cache that come to the endpoint in a second, as learnt; absent before the first transfer", nil},
		{"warmpath_endpoint_engine_running", gauge, endpoint, "Requests being computed, by the engine's latest load report; absent when not reported", nil},
		{"warmpath_endpoint_engine_waiting", gauge, endpoint, "Requests in the engine's own queue, by its latest load report; absent when not reported", nil},
		{"warmpath_endpoint_kv_usage_ratio", gauge, endpoint, "Share of the KV cache in use, by the engine's latest load report, 0 to 1; absent when not reported", nil},
		{"warmpath_endpoint_kv_capacity_tokens", gauge, endpoint, "Tokens that fit the KV cache, as the engine reports; absent when not reported", nil},
		{"warmpath_sessions", gauge, nil, "Conversations remembered", nil},
		{"warmpath_session_hits_total", counter, nil, "Turns whose conversation was remembered", nil},
		{"warmpath_session_misses_total", counter, nil, "Turns whose conversation was not remembered", nil},
		{"warmpath_session_evictions_total", counter, nil, "Conversations forgotten because the table was full or they were idle", nil},
		{"warmpath_responses", gauge, nil, "Response ids remembered with the endpoint that holds them", nil},
		{"warmpath_leases", gauge, nil, "Reservations on endpoints' books not yet released", nil},
		{"warmpath_double_finished_total", counter, nil, "Reservations released twice: a mistake in the router, always 0", nil},
		{"warmpath_body_held_bytes", gauge, nil, "Memory of the request bodies that the router holds: those that arrive, wait, or are sent, until the answer begins", nil},
		{"warmpath_body_limit_bytes", gauge, nil, "How much that may be, limits.memory", nil},
		{"warmpath_bodies_refused_total", counter, nil, "Requests answered 503 because limits.memory had no room for their bodies", nil},
		{"warmpath_state_saved_timestamp_seconds", gauge, nil, "When state.file was written last, in seconds since 1970; 0 before this process has", nil},
		{"warmpath_state_bytes", gauge, nil, "Size of state.file when it was last written, or read at the start", nil},
		{"warmpath_state_failures_total", counter, nil, "Times that state.file could not be written; the log says why", nil},
		{"warmpath_state_restored", gauge, nil, "1 when the router began with what state.file held, else 0", nil},
		{"warmpath_config_reloads_total", counter, []string{"result"}, "Times that the configuration was read again: applied, or rejected because it had faults and the running one stays", nil},
		{"warmpath_config_info", gauge, []string{"hash"}, "Seconds since 1970 at which the running configuration was taken; hash is the same for the same settings", nil},
		{"warmpath_queue_refused_total", counter, nil, "Requests answered 429 because as many waited in the router's queue as may (limits.waiting, tenants.each.waiting)", nil},
		{"warmpath_limited_total", counter, []string{"limit", "tenant"}, "Requests answered 429 because a limit was reached: requests (open at once), requests_per_minute, tokens_per_minute, and those of a client address with client_ before them. Without a tenant it is otherwise the limit of all together. At most 300 are told apart", nil},
		{"warmpath_tenant_open_requests", gauge, []string{"tenant"}, "Open requests that limits count, of all together (no tenant) and of tenants under tenants.limits", nil},
		{"warmpath_tenant_remaining", gauge, []string{"tenant", "of"}, "What is left of the requests or tokens of a minute; below 0 is owed", nil},
		{"warmpath_tenant_used_total", counter, []string{"tenant", "of"}, "Requests and tokens that limits have charged, of all together (no tenant) and of tenants under tenants.limits", nil},
		{"warmpath_build_info", gauge, []string{"version", "commit", "goversion"}, "Always 1; the labels say what is running", nil},
	}, append(append(append(kvFamilies(), lmcacheFamily()), shadowFamilies()...), replicasFamilies()...)...)
}

// familyOf finds a family by name. A name that is not in the table is a mistake of ours.
func familyOf(name string) family {
	for _, f := range families() {
		if f.Name == name {
			return f
		}
	}
	panic("metrics: no family " + name)
}

// vectors are the families that count events; the gauges are read at scrape time instead (see statusCollector).
type vectors struct {
	requests, attempts, retries, decisions *prometheus.CounterVec
	splits                                 *prometheus.CounterVec
	prompt, cached, predicted, output      *prometheus.CounterVec
	ttft, itl, request, decision           *prometheus.HistogramVec
	cachedError, cachedShare, ttftError    *prometheus.HistogramVec
	regret, queued                         *prometheus.HistogramVec
	cacheLosses                            *prometheus.CounterVec
	clientGone                             prometheus.Counter
	reloads                                *prometheus.CounterVec
}

func newVectors() vectors {
	gone := familyOf("warmpath_client_gone_total")
	return vectors{
		requests:    newCounter("warmpath_requests_total"),
		attempts:    newCounter("warmpath_attempts_total"),
		retries:     newCounter("warmpath_retries_total"),
		decisions:   newCounter("warmpath_decisions_total"),
		splits:      newCounter("warmpath_splits_total"),
		prompt:      newCounter("warmpath_prompt_tokens_total"),
		cached:      newCounter("warmpath_cached_tokens_total"),
		predicted:   newCounter("warmpath_predicted_cached_tokens_total"),
		output:      newCounter("warmpath_output_tokens_total"),
		ttft:        newHistogram("warmpath_ttft_seconds"),
		itl:         newHistogram("warmpath_itl_seconds"),
		request:     newHistogram("warmpath_request_seconds"),
		decision:    newHistogram("warmpath_decision_seconds"),
		cachedError: newHistogram("warmpath_cached_tokens_prediction_error_tokens"),
		cachedShare: newHistogram("warmpath_cached_tokens_prediction_error_ratio"),
		ttftError:   newHistogram("warmpath_ttft_prediction_error_seconds"),
		regret:      newHistogram("warmpath_regret_seconds"),
		queued:      newHistogram("warmpath_queue_seconds"),
		cacheLosses: newCounter("warmpath_cache_losses_total"),
		reloads:     newCounter("warmpath_config_reloads_total"),
		clientGone:  prometheus.NewCounter(prometheus.CounterOpts{Name: gone.Name, Help: gone.Help}),
	}
}

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{
		v.requests, v.attempts, v.retries, v.decisions, v.splits, v.prompt, v.cached, v.predicted, v.output,
		v.ttft, v.itl, v.request, v.decision, v.clientGone, v.reloads,
		v.cachedError, v.cachedShare, v.ttftError, v.regret, v.queued, v.cacheLosses,
	}
}

func newCounter(name string) *prometheus.CounterVec {
	f := familyOf(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.Labels)
}

// newHistogram makes a histogram that is both classic and native. The bound on native buckets keeps a hostile spread
// of values from growing a series; beyond it the resolution is halved.
func newHistogram(name string) *prometheus.HistogramVec {
	f := familyOf(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: f.Name, Help: f.Help, Buckets: f.Buckets,
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramZeroThreshold:   1e-7,
		NativeHistogramMaxBucketNumber: 100,
		NativeHistogramMaxExemplars:    -1,
	}, f.Labels)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func goVersion() string { return runtime.Version() }

// kvFamilies are absent for endpoints without KV events.
func kvFamilies() []family {
	endpoint := []string{"endpoint"}
	return []family{
		{"warmpath_kv_publishers", gauge, []string{"tied"}, "Topics and ranks of engines that dial in (kv_events.listen), by whether it is known whose they are; absent without", nil},
		{"warmpath_kv_untied_messages_total", counter, nil, "Messages of engines that dial in that were not taken in: their topic names no endpoint, or they are none; absent without kv_events.listen", nil},
		{"warmpath_kv_refused_connections_total", counter, nil, "Connections to kv_events.listen from outside kv_events.allow; absent without kv_events.listen", nil},
		{"warmpath_kv_state", gauge, []string{"endpoint", "state"}, "1 for how far the endpoint's KV events can be gone by, 0 for the others: exact, partial (what was stored before is not known), silent or wrong (the answers are gone by)", nil},
		{"warmpath_kv_blocks", gauge, endpoint, "Blocks in the endpoint's KV cache, by its events", nil},
		{"warmpath_kv_tied_blocks_total", counter, []string{"endpoint", "tied"}, "Blocks stored, by whether it is known whose conversation they are", nil},
		{"warmpath_kv_events_total", counter, []string{"endpoint", "event"}, "Blocks and events of the endpoint's streams: stored, removed, cleared; skipped (malformed, unknown, or of layers that hold no prefix), orphan (stored after a block that is not known), unknown (removed, not known), overfull (beyond kv_events.blocks)", nil},
		{"warmpath_kv_messages_total", counter, []string{"endpoint", "result"}, "Messages of the endpoint's streams: applied, duplicate, or missing for good", nil},
		{"warmpath_kv_gaps_total", counter, endpoint, "Times that messages were missing and were asked for again", nil},
		{"warmpath_kv_restarts_total", counter, endpoint, "Times that the events showed that the engine has started anew", nil},
		{"warmpath_kv_wrong_total", counter, endpoint, "Times that the events were given up for a while because answers disagreed with them", nil},
		{"warmpath_kv_tokens_unknown_total", counter, nil, "Requests whose tokens were wanted (kv_events.tokenize, kv_events.tokenizer, token ids in the body) and could not be had", nil},
	}
}

// lmcacheFamily is absent without the connector lmcache.
func lmcacheFamily() family {
	return family{
		"warmpath_lmcache_notifications_total", counter,
		[]string{"result"},
		"Notifications of LMCache's prefillers: taken, unknown (of no request that waits), malformed; missing counts the requests whose notifications did not come in time, refused the connections of peers that do not speak the protocol, or beyond the bound. Absent without the connector lmcache", nil,
	}
}

// replicasFamilies are absent without other routers.
func replicasFamilies() []family {
	const absent = ". Absent without peers"
	return []family{
		{"warmpath_replicas", gauge, nil, "Other routers of the fleet that are heard" + absent, nil},
		{"warmpath_replicas_delay_seconds", gauge, nil, "How long the latest frame of another router took to come, the longest; as far as the clocks agree" + absent, nil},
		{"warmpath_replicas_frames_total", counter, []string{"result"}, "Frames sent to others and received from them; refused did not open or cannot be believed; gap counts the times that some were missing and all was asked for again" + absent, nil},
		{"warmpath_replicas_bytes_total", counter, []string{"direction"}, "Bytes of frames sent and received" + absent, nil},
		{"warmpath_replicas_kept_total", counter, []string{"result"}, "Conversations written to Redis, and those that were not since too many waited; failed counts attempts. They are kept for a restart of all routers" + absent, nil},
	}
}

// shadowFamilies are absent when no shadow is configured.
func shadowFamilies() []family {
	policy := []string{"policy"}
	return []family{
		{"warmpath_shadow_decisions_total", counter, []string{"policy", "choice"}, "Decisions that a shadow policy was asked about in the acting policy's place; choice is same or differs", nil},
		{"warmpath_shadow_differs_total", counter, []string{"policy", "reason"}, "Choices of a shadow that differ from the acting policy's, by the reason that the shadow gave", nil},
		{"warmpath_shadow_cost_seconds_total", counter, []string{"policy", "direction"}, "What the choices that differ would have cost less, direction saved, or more, direction lost, by the router's own estimate", nil},
		{"warmpath_shadow_turns_total", counter, policy, "Turns placed in the world of a shadow; policy acting is what the acting policy decided, in the same model", nil},
		{"warmpath_shadow_ttft_seconds_total", counter, policy, "Predicted time to first token of these, in all", nil},
		{"warmpath_shadow_prompt_tokens_total", counter, policy, "Prompt tokens of these", nil},
		{"warmpath_shadow_cached_tokens_total", counter, policy, "Prompt tokens of these that are predicted to be cached", nil},
		{"warmpath_shadow_skipped_total", counter, []string{"why"}, "Decisions that no shadow was asked about: why is budget or queue", nil},
		{"warmpath_shadow_judging_seconds_total", counter, nil, "Time spent on asking shadows", nil},
	}
}
