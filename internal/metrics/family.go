package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of family, as in docs/metrics.md.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// family describes one metric. The table of families makes both the registry and docs/metrics.md, so that they agree.
type family struct {
	Name    string
	Kind    string
	Labels  []string
	Help    string    // without a full stop at the end, as is usual for Prometheus
	Buckets []float64 // in the unit of the name; histograms only
}

// Bucket bounds in seconds. Scrapers that can read native histograms get these too. The classic bounds are chosen so
// that quantiles over the interesting range are off by at most a third.
var (
	firstByteBuckets = []float64{
		.001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 7.5,
		10, 15, 20, 30, 60,
	}
	tokenBuckets = []float64{
		.0005, .001, .002, .003, .005, .0075, .01, .015, .02, .03, .04, .05, .075, .1, .15, .2, .3, .5, 1, 2, 5,
	}
	requestBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}
	errorBuckets    = []float64{0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
	shareBuckets    = []float64{0, .002, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1}
	decisionBuckets = []float64{1e-6, 2e-6, 3e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 1e-2, 1e-1}
)

// families lists all our metrics in the order of docs/metrics.md.
func families() []family {
	poolEndpoint := []string{"pool", "endpoint"}
	endpoint := []string{"endpoint"}
	return append([]family{
		{
			"warmpath_requests_total", counter,
			[]string{"pool", "endpoint", "api", "code"},
			"Client requests, counted at their end; endpoint is the last one tried", nil,
		},
		{
			"warmpath_attempts_total", counter,
			[]string{"endpoint", "outcome"},
			"Attempts at endpoints by outcome; a retried request has several", nil,
		},
		{
			"warmpath_retries_total", counter,
			[]string{"endpoint", "outcome"},
			"Attempts that failed before their first byte and were retried elsewhere, by failed endpoint and outcome",
			nil,
		},
		{
			"warmpath_retries_refused_total", counter, nil, "Attempts that failed before their first byte and were " +
				"not retried because the retry budget was used up (limits.retry_share)", nil,
		},
		{
			"warmpath_ejections_spared_total", counter, nil, "Failed requests that did not eject their endpoint " +
				"because the largest share of its pool was already ejected (health.eject_share)", nil,
		},
		{
			"warmpath_panic_decisions_total", counter, nil, "Decisions that ignored ejections for failed requests " +
				"because too little of the pool was left (health.panic_share)", nil,
		},
		{"warmpath_client_gone_total", counter, nil, "Client requests whose client left before their end", nil},
		{
			"warmpath_unsalted_requests_total", counter, []string{"api"}, "Requests of tenants that an engine got " +
				"without a salt although tenants.cache_salt is on; tenants.salt_required refuses them", nil,
		},
		{
			"warmpath_ttft_seconds", histogram, poolEndpoint,
			"Time from a client request's arrival to the first data (not the header) of its streamed answer",
			firstByteBuckets,
		},
		{
			"warmpath_itl_seconds", histogram, poolEndpoint,
			"Mean time between tokens of a streamed answer, one observation a request", tokenBuckets,
		},
		{
			"warmpath_request_seconds", histogram, poolEndpoint, "Time from a client request's arrival to its end",
			requestBuckets,
		},
		{
			"warmpath_decision_seconds", histogram,
			[]string{"pool"},
			"Time of a routing decision, including the wait for the router's lock", decisionBuckets,
		},
		{
			"warmpath_decisions_total", counter,
			[]string{"pool", "policy", "reason"},
			"Decisions by the policy's reason", nil,
		},
		{
			"warmpath_splits_total", counter,
			[]string{"pool", "why", "legs"},
			"Turns of models with roles (prefill, decode) by the reason for serving them in 2 legs or in 1", nil,
		},
		{
			"warmpath_prompt_tokens_total", counter, poolEndpoint,
			"Prompt tokens as reported by engines, cached ones included", nil,
		},
		{
			"warmpath_cached_tokens_total", counter, poolEndpoint,
			"Prompt tokens that engines reported as found in their cache", nil,
		},
		{
			"warmpath_predicted_cached_tokens_total", counter, poolEndpoint, "Prompt tokens that the router expected " +
				"to be in the engine's cache, of the requests whose prompt tokens were reported", nil,
		},
		{"warmpath_output_tokens_total", counter, poolEndpoint, "Answer tokens as reported by engines", nil},
		{
			"warmpath_cached_tokens_prediction_error_tokens", histogram,
			[]string{"pool", "direction"},
			"Difference between predicted and reported cached tokens, for each answer that reports them; " +
				"direction is over or under", errorBuckets,
		},
		{
			"warmpath_cached_tokens_prediction_error_ratio", histogram,
			[]string{"pool"},
			"The same difference as a share of the prompt's tokens", shareBuckets,
		},
		{
			"warmpath_ttft_prediction_error_seconds", histogram,
			[]string{"pool", "direction"},
			"Difference between predicted and observed time to first token, from the decision on, " +
				"of streamed answers; direction is late or early", firstByteBuckets,
		},
		{
			"warmpath_regret_seconds", histogram,
			[]string{"pool"},
			"Observed time to first token of a streamed answer minus the prediction for the best other candidate, " +
				"at least 0; empty when explain.keep is 0", firstByteBuckets,
		},
		{
			"warmpath_queue_seconds", histogram,
			[]string{"pool"},
			"Time in the router's own queue of requests that were queued and then sent", firstByteBuckets,
		},
		{
			"warmpath_cache_losses_total", counter, endpoint,
			"Losses of the endpoint's cache: its process ended, its engine slept, or its KV events said so", nil,
		},
		{
			"warmpath_explain_lines_total", counter,
			[]string{"result"},
			"Decisions written to explain.file, and dropped because it did not keep up; absent when there is no file",
			nil,
		},
		{
			"warmpath_record_lines_total", counter,
			[]string{"result"},
			"Requests written to record.file, and dropped because it did not keep up, could not be written, " +
				"or too many were open; absent when there is no file", nil,
		},
		{
			"warmpath_access_log_lines_total", counter, []string{"result"}, "Requests written to the access log, " +
				"and dropped because it did not keep up or could not be written; absent when there is none", nil,
		},
		{
			"warmpath_log_lines_total", counter,
			[]string{"result"},
			"Log lines written to standard error, and dropped because it did not keep up", nil,
		},
		{
			"warmpath_endpoint_info", gauge,
			[]string{"endpoint", "kind", "source"},
			"1 for each declared endpoint: the kind of engine and the discovery source that declares it", nil,
		},
		{
			"warmpath_endpoint_state", gauge,
			[]string{"endpoint", "state"},
			"1 for the endpoint's state, 0 for the others", nil,
		},
		{"warmpath_endpoint_asleep", gauge, endpoint, "1 while the engine says that it sleeps or is paused", nil},
		{
			"warmpath_endpoint_draining", gauge, endpoint,
			"1 while the endpoint takes no new requests because it is being drained", nil,
		},
		{"warmpath_endpoint_weight", gauge, endpoint, "Configured weight of the endpoint", nil},
		{
			"warmpath_endpoint_ramp_ratio", gauge, endpoint,
			"Share of its weight that an endpoint has during its ramp (slow start), 0 to 1", nil,
		},
		{"warmpath_endpoint_outstanding_requests", gauge, endpoint, "The router's open requests at the endpoint", nil},
		{
			"warmpath_endpoint_queued_requests", gauge, endpoint,
			"Of these, requests in the router's own queue, not yet sent to the endpoint", nil,
		},
		{
			"warmpath_endpoint_outstanding_prefill_tokens", gauge, endpoint,
			"Prompt tokens still to compute at the endpoint: uncached, first byte not yet seen", nil,
		},
		{
			"warmpath_endpoint_outstanding_decode_tokens", gauge, endpoint,
			"Answer tokens expected of the endpoint's outstanding requests", nil,
		},
		{
			"warmpath_endpoint_transfer_requests", gauge, endpoint, "Pending KV cache transfers of the endpoint: " +
				"requests whose cache it holds for a decoder, or awaits from a prefiller", nil,
		},
		{"warmpath_endpoint_transfer_tokens", gauge, endpoint, "Prompt tokens to transfer for these", nil},
		{"warmpath_endpoint_transfer_seconds", gauge, endpoint, "Learnt fixed time of a KV cache transfer to the " +
			"endpoint up to its first token, without the time for its tokens; absent before the first transfer", nil},
		{
			"warmpath_endpoint_transfer_tokens_per_second", gauge, endpoint, "Learnt rate of KV cache transfers to " +
				"the endpoint in prompt tokens per second; absent before the first transfer", nil,
		},
		{
			"warmpath_endpoint_engine_running", gauge, endpoint,
			"Requests being computed, by the engine's latest load report; absent when not reported", nil,
		},
		{
			"warmpath_endpoint_engine_waiting", gauge, endpoint,
			"Requests in the engine's own queue, by its latest load report; absent when not reported", nil,
		},
		{
			"warmpath_endpoint_kv_usage_ratio", gauge, endpoint,
			"Share of the KV cache in use, by the engine's latest load report, 0 to 1; absent when not reported", nil,
		},
		{
			"warmpath_endpoint_kv_capacity_tokens", gauge, endpoint,
			"Tokens that fit the KV cache, as the engine reports; absent when not reported", nil,
		},
		{"warmpath_sessions", gauge, nil, "Conversations remembered", nil},
		{"warmpath_session_hits_total", counter, nil, "Turns whose conversation was remembered", nil},
		{"warmpath_session_misses_total", counter, nil, "Turns whose conversation was not remembered", nil},
		{
			"warmpath_session_evictions_total", counter, nil,
			"Conversations forgotten because the table was full or they were idle", nil,
		},
		{"warmpath_responses", gauge, nil, "Response ids remembered with the endpoint that holds them", nil},
		{"warmpath_leases", gauge, nil, "Open reservations of requests at endpoints", nil},
		{
			"warmpath_double_finished_total", counter, nil,
			"Reservations released twice: a bug in the router, always 0", nil,
		},
		{
			"warmpath_lease_calls", gauge, nil,
			"Leases of programs that send requests themselves (lease.listen): those that are open", nil,
		},
		{
			"warmpath_lease_expired_total", counter, nil,
			"Leases of such programs that expired: their programs did not end them within lease.expires", nil,
		},
		{
			"warmpath_body_held_bytes", gauge, nil,
			"Memory of request bodies, from their arrival until the answer begins, and what else limits.memory bounds",
			nil,
		},
		{"warmpath_body_limit_bytes", gauge, nil, "Largest allowed memory of request bodies, limits.memory", nil},
		{
			"warmpath_bodies_refused_total", counter, nil,
			"Requests answered 503, replies of prefillers and look-ups of tokens, for want of room in limits.memory",
			nil,
		},
		{
			"warmpath_state_saved_timestamp_seconds", gauge, nil,
			"Time of the last write of state.file in seconds since 1970; 0 before this process has written it", nil,
		},
		{"warmpath_state_bytes", gauge, nil, "Size of state.file when it was last written, or read at the start", nil},
		{"warmpath_state_failures_total", counter, nil, "Failed writes of state.file; the log has the reason", nil},
		{"warmpath_state_restored", gauge, nil, "1 if the router started with the content of state.file, else 0", nil},
		{
			"warmpath_certificate_end_timestamp_seconds", gauge, []string{"setting"}, "End of a certificate that the " +
				"router shows, in seconds since 1970, by the setting that names its file", nil,
		},
		{
			"warmpath_config_reloads_total", counter,
			[]string{"result"},
			"Reloads of the configuration: applied, or rejected because of faults", nil,
		},
		{
			"warmpath_config_info", gauge,
			[]string{"hash"},
			"Seconds since 1970 at which the running configuration was applied; equal settings have equal hashes", nil,
		},
		{
			"warmpath_refused_total", counter, []string{"code", "limit"}, "Requests that the router answered with an " +
				"error of its own instead of sending them to an engine, by the error's code and the setting that has " +
				"the limit (none if it is no limit). Includes requests whose wait was cut by a limit", nil,
		},
		{
			"warmpath_queue_refused_total", counter, nil,
			"Requests answered 429 because the router's queue was full (limits.waiting, tenants.each.waiting)", nil,
		},
		{
			"warmpath_sessions_held", gauge, nil,
			"Turns that wait before they are placed, so that the conversations under way keep their cache (admission)",
			nil,
		},
		{
			"warmpath_working_set_ratio", gauge, nil,
			"KV cache that the conversations under way need, those that are held included, over what all engines " +
				"have (admission). Above 1 more engines are needed. None while caches are no bottleneck", nil,
		},
		{
			"warmpath_pool_working_set_ratio", gauge, []string{"pool"}, "The same of a model or alias and the " +
				"endpoints that serve it, at most 200; an endpoint of several counts whole for each", nil,
		},
		{
			"warmpath_endpoint_working_set_ratio", gauge,
			[]string{"endpoint"},
			"The same of an endpoint, without those that are held: full at 1", nil,
		},
		{
			"warmpath_pool_prompts_ratio", gauge,
			[]string{"pool"},
			"Share of their time in which the engines of a model or alias compute prompts, a mean of about the last " +
				"minute and a half, over the endpoints that take requests; none while there is none. At most 200 pools",
			nil,
		},
		{
			"warmpath_pool_answers_ratio", gauge, []string{"pool"}, "The same of the places for requests that are " +
				"taken; none where no engine tells how many it has (vLLM does not)", nil,
		},
		{
			"warmpath_pool_kv_cache_ratio", gauge, []string{"pool"}, "The same of the KV cache that running requests " +
				"use, as engines report it, else of what this router has sent; none where unknown", nil,
		},
		{
			"warmpath_pool_wait_seconds", gauge,
			[]string{"pool"},
			"The same of how long a new prompt waits at the endpoint that would take it soonest", nil,
		},
		{
			"warmpath_limited_total", counter,
			[]string{"limit", "tenant"},
			"Requests answered 429, and connections refused, because a limit was reached: connections, requests " +
				"(open at one time), requests_per_minute, tokens_per_minute, with the prefix client_ for limits of a " +
				"client address. Without a tenant it is otherwise the limit of all together. At most 300 series", nil,
		},
		{"warmpath_client_connections", gauge, nil, "Open connections of clients to the traffic listener", nil},
		{
			"warmpath_tenant_open_requests", gauge,
			[]string{"tenant"},
			"Open requests counted for limits, of all together (no tenant) and of tenants in tenants.limits", nil,
		},
		{
			"warmpath_tenant_remaining", gauge,
			[]string{"tenant", "of"},
			"What is left of a minute, of requests or of tokens; below 0 is debt", nil,
		},
		{
			"warmpath_tenant_used_total", counter,
			[]string{"tenant", "of"},
			"What limits charged, requests or tokens, of all together (no tenant) and of tenants in tenants.limits",
			nil,
		},
		{
			"warmpath_objectives_total", counter,
			[]string{"pool", "objective", "result"},
			"Answered requests that named an objective (ttft: X-Warmpath-Ttft-Ms, tpot: X-Warmpath-Tpot-Ms) and " +
				"whether it was met or missed; tpot is the mean time between tokens of a stream", nil,
		},
		{
			"warmpath_panics_total", counter,
			[]string{"reader"},
			"Panics caught where messages of others are read, and in what sees to the process (gc, cpus, watchdog): " +
				"each is a fault in this program, logged with its stack, that costs one message, connection or round",
			nil,
		},
		{
			"warmpath_build_info", gauge,
			[]string{"version", "commit", "goversion"},
			"Always 1; the labels identify the program", nil,
		},
	}, slices.Concat(aliasFamilies(), kvFamilies(), []family{lmcacheFamily()}, shadowFamilies(), replicasFamilies())...)
}

// familyOf finds a family by name. It panics for a name that is not in the table.
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
	refused, objectives, unsalted          *prometheus.CounterVec
	splits                                 *prometheus.CounterVec
	prompt, cached, predicted, output      *prometheus.CounterVec
	ttft, itl, request, decision           *prometheus.HistogramVec
	cachedError, cachedShare, ttftError    *prometheus.HistogramVec
	regret, queued                         *prometheus.HistogramVec
	clientGone                             prometheus.Counter
	reloads                                *prometheus.CounterVec
}

func newVectors() vectors {
	gone := familyOf("warmpath_client_gone_total")
	return vectors{
		requests:    newCounter("warmpath_requests_total"),
		refused:     newCounter("warmpath_refused_total"),
		unsalted:    newCounter("warmpath_unsalted_requests_total"),
		objectives:  newCounter("warmpath_objectives_total"),
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
		reloads:     newCounter("warmpath_config_reloads_total"),
		clientGone:  prometheus.NewCounter(prometheus.CounterOpts{Name: gone.Name, Help: gone.Help}),
	}
}

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{
		v.requests, v.refused, v.unsalted, v.objectives, v.attempts, v.retries, v.decisions, v.splits, v.prompt,
		v.cached, v.predicted, v.output, v.ttft, v.itl, v.request, v.decision, v.clientGone, v.reloads,
		v.cachedError, v.cachedShare, v.ttftError, v.regret, v.queued,
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

// kvFamilies are absent for endpoints without KV events.
func kvFamilies() []family {
	endpoint := []string{"endpoint"}
	return []family{
		{
			"warmpath_kv_publishers", gauge, []string{"tied"}, "Topics and ranks of engines that connect to " +
				"kv_events.listen, by whether their endpoint is known; absent without kv_events.listen", nil,
		},
		{
			"warmpath_kv_foreign_publishers", gauge, nil, "Topics at kv_events.listen that name an endpoint and come " +
				"from another address than its own; their messages are dropped. Absent without kv_events.listen", nil,
		},
		{
			"warmpath_kv_untied_messages_total", counter, nil,
			"Messages at kv_events.listen that were dropped: their topic names no endpoint, " +
				"or one with another address, or they are malformed; absent without kv_events.listen", nil,
		},
		{
			"warmpath_kv_refused_connections_total", counter, nil,
			"Connections to kv_events.listen that were refused: from outside kv_events.allow, more than 64 of one " +
				"address or 1024 in all, or with messages beyond the bounds; absent without kv_events.listen", nil,
		},
		{
			"warmpath_kv_state", gauge,
			[]string{"endpoint", "state"},
			"1 for the state of the endpoint's KV events, 0 for the others: exact, partial (blocks stored earlier " +
				"are unknown), silent or wrong (predictions use answers instead)", nil,
		},
		{"warmpath_kv_blocks", gauge, endpoint, "Blocks in the endpoint's KV cache according to its events", nil},
		{
			"warmpath_kv_tied_blocks_total", counter,
			[]string{"endpoint", "tied"},
			"Blocks stored, by whether their conversation is known", nil,
		},
		{
			"warmpath_kv_events_total", counter,
			[]string{"endpoint", "event"},
			"Blocks and events of the endpoint's streams: stored, removed, cleared; skipped (malformed, " +
				"unknown, or of layers without prefix cache), orphan (stored after an unknown block), " +
				"unknown (removal of an unknown block), overfull (beyond kv_events.blocks)", nil,
		},
		{
			"warmpath_kv_messages_total", counter,
			[]string{"endpoint", "result"},
			"Messages of the endpoint's streams: applied, duplicate, or missing (lost on their way, and not replayed)",
			nil,
		},
		{"warmpath_kv_gaps_total", counter, endpoint, "Gaps in the messages, after which a replay was requested", nil},
		{"warmpath_kv_restarts_total", counter, endpoint, "Engine restarts shown by the events", nil},
		{
			"warmpath_kv_wrong_total", counter, endpoint,
			"Times that the events were ignored for a while because answers contradicted them", nil,
		},
		{
			"warmpath_kv_tokens_unknown_total", counter, nil, "Requests whose tokens could not be looked up " +
				"(kv_events.tokenize, kv_events.tokenizer, token ids in the body)", nil,
		},
	}
}

// lmcacheFamily is absent without the connector lmcache.
func lmcacheFamily() family {
	return family{
		"warmpath_lmcache_notifications_total", counter,
		[]string{"result"},
		"Notifications of LMCache's prefillers: taken, unknown (no request waits for them), malformed; " +
			"missing counts requests whose notifications did not come in time, refused counts connections beyond the " +
			"bound or with another protocol. Absent without the connector lmcache", nil,
	}
}

// replicasFamilies are absent without other routers.
func replicasFamilies() []family {
	const absent = ". Absent without peers"
	return []family{
		{"warmpath_replicas", gauge, nil, "Other routers of the fleet that are connected" + absent, nil},
		{
			"warmpath_replicas_expected", gauge, nil, "Routers of the fleet that there should be, this one among " +
				"them. While fewer are heard, tenants have as large a part of their limits" + absent, nil,
		},
		{
			"warmpath_replicas_delay_seconds", gauge, nil,
			"Longest delay of another router's latest frame, by the routers' clocks" + absent, nil,
		},
		{
			"warmpath_replicas_frames_total", counter,
			[]string{"result"},
			"Frames sent to other routers and received from them; refused could not be decrypted or are implausible; " +
				"gap counts losses after which the full state was requested" + absent, nil,
		},
		{
			"warmpath_replicas_bytes_total", counter,
			[]string{"direction"},
			"Bytes of frames sent and received" + absent, nil,
		},
		{
			"warmpath_replicas_kept_total", counter,
			[]string{"result"},
			"Conversations written to Redis, and dropped since too many waited; failed counts attempts. " +
				"They are kept for a restart of all routers" + absent, nil,
		},
	}
}

// shadowFamilies are absent when no shadow is configured.
func shadowFamilies() []family {
	policy := []string{"policy"}
	return []family{
		{
			"warmpath_shadow_decisions_total", counter,
			[]string{"policy", "choice"},
			"Decisions evaluated by a shadow policy; choice is same or differs", nil,
		},
		{
			"warmpath_shadow_differs_total", counter,
			[]string{"policy", "reason"},
			"Choices of a shadow that differ from the acting policy's, by the shadow's reason", nil,
		},
		{
			"warmpath_shadow_cost_seconds_total", counter, []string{"policy", "direction"}, "Estimated time that " +
				"differing choices would have saved (direction saved) or cost in addition (direction lost)", nil,
		},
		{
			"warmpath_shadow_turns_total", counter, policy,
			"Turns in a shadow's model of the fleet; policy acting has the acting policy's decisions in the same model",
			nil,
		},
		{"warmpath_shadow_ttft_seconds_total", counter, policy, "Total predicted time to first token of these", nil},
		{"warmpath_shadow_prompt_tokens_total", counter, policy, "Prompt tokens of these", nil},
		{
			"warmpath_shadow_cached_tokens_total", counter, policy,
			"Prompt tokens of these that are predicted to be cached", nil,
		},
		{
			"warmpath_shadow_skipped_total", counter,
			[]string{"why"},
			"Decisions not evaluated by shadows: why is budget or queue", nil,
		},
		{"warmpath_shadow_judging_seconds_total", counter, nil, "Time spent on evaluating shadows", nil},
	}
}
