package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/fleet"
)

// peerFamily is a metric under another router's name, computed from ours at each scrape.
type peerFamily struct {
	family
	make func(t *translation) []sample
}

// sample is one series of a peerFamily: its labels' values in the family's order.
type sample struct {
	labels []string
	value  float64
	hist   *dto.Histogram
}

// leftOut is a metric of another router without an equivalent here.
type leftOut struct{ names, why string }

// peer is another router whose metric names are served.
type peer struct {
	name     string
	families []peerFamily
	without  []leftOut
}

// The routers whose metric names can be served, for metrics.compatible.
const (
	vllmRouter  = "vllm-router"
	stackRouter = "production-stack"
	trtllm      = "trtllm"
	llmd        = "llmd"
)

// peers are the routers whose metric names can be served, with their metrics in the order of docs/metrics.md.
func peers() []peer {
	route, worker, server := []string{"route"}, []string{"worker"}, []string{"server"}
	both := []string{"server", "model"}
	up := func(e *translated) float64 { return oneIf(e.state == fleet.StateUp) }
	outstanding := func(e *translated) float64 { return e.outstanding }
	extreme := func(of func(a, b float64) float64) func(t *translation) []sample {
		return func(t *translation) []sample {
			var out []sample
			for _, s := range perServer(outstanding)(t) {
				if len(out) == 0 {
					out = []sample{{value: s.value}}
				}
				out[0].value = of(out[0].value, s.value)
			}
			return out
		}
	}
	ended := func(with func(code string) bool) func(t *translation) []sample {
		return func(t *translation) []sample {
			return t.sum("warmpath_requests_total", func(l labels) []string {
				if !with(l["code"]) {
					return nil
				}
				return orchestrated(l)
			})
		}
	}
	streams := func(asked string) func(t *translation) []sample {
		return func(t *translation) []sample {
			return t.sum("direct_streams", func(l labels) []string {
				if l["stream"] != asked {
					return nil
				}
				return []string{}
			})
		}
	}
	low, high := func(a, b float64) float64 { return min(a, b) }, func(a, b float64) float64 { return max(a, b) }
	byRoute := func(l labels) []string { return []string{l["route"]} }
	return []peer{
		{
			vllmRouter,
			[]peerFamily{
				{
					family{"vllm_router_requests_total", counter, route, "Client requests by path", nil},
					func(t *translation) []sample {
						return t.sum("warmpath_requests_total", func(l labels) []string {
							return []string{pathOf(l["api"])}
						})
					},
				},
				{
					family{"vllm_router_request_errors_total", counter, []string{
						"route", "error_type",
					}, "Client requests with a status of 400 or more; error_type is the status", nil},
					func(t *translation) []sample {
						return t.sum("warmpath_requests_total", func(l labels) []string {
							return failed(l, pathOf(l["api"]), l["code"])
						})
					},
				},
				{family{
					"vllm_router_request_duration_seconds", histogram, route,
					"Time from a client request's arrival to its end, by path", vllmRouterBuckets,
				}, func(t *translation) []sample {
					return t.sum("direct_route_seconds", byRoute)
				}},
				{
					family{"vllm_router_retries_total", counter, route, "Attempts after the first, by path", nil},
					func(t *translation) []sample { return t.sum("direct_retries", byRoute) },
				},
				{
					family{"vllm_router_policy_decisions_total", counter, []string{
						"policy", "worker",
					}, "Decisions by our name of the policy and the URL of the endpoint", nil},
					func(t *translation) []sample {
						return t.sum("direct_chosen", func(l labels) []string {
							if at := t.server(l); at != nil {
								return append([]string{l["policy"]}, at...)
							}
							return nil
						})
					},
				},
				{family{
					"vllm_router_pd_requests_total", counter, route,
					"Requests that were served in two legs, by path", nil,
				}, func(t *translation) []sample { return t.sum("direct_pairs", byRoute) }},
				{family{
					"vllm_router_pd_prefill_requests_total", counter, worker,
					"Prefill legs by the URL of the endpoint", nil,
				}, func(t *translation) []sample { return t.sum("direct_prefills", t.server) }},
				{family{
					"vllm_router_pd_decode_requests_total", counter, worker,
					"Decode legs by the URL of the endpoint", nil,
				}, func(t *translation) []sample { return t.sum("direct_decodes", t.server) }},
				{family{"vllm_router_max_load", gauge, nil, "The largest vllm_router_worker_load", nil}, extreme(high)},
				{family{"vllm_router_min_load", gauge, nil, "The smallest vllm_router_worker_load", nil}, extreme(low)},
				{family{
					"vllm_router_processed_requests_total", counter, worker,
					"Client requests by the URL of the endpoint", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_requests_total", func(l labels) []string { return t.server(l) })
				}},
				{
					family{"vllm_router_active_workers", gauge, nil, "Endpoints that are up", nil},
					func(t *translation) []sample {
						n := 0.0
						for i := range t.endpoints {
							n += up(&t.endpoints[i])
						}
						return []sample{{value: n}}
					},
				},
				{family{"vllm_router_worker_health", gauge, worker, "1 for an endpoint that is up", nil}, each(up)},
				{family{
					"vllm_router_cb_state", gauge, worker, "1 (open) for an endpoint that is ejected, else 0", nil,
				}, each(func(e *translated) float64 { return oneIf(e.state == fleet.StateEjected) })},
				{
					family{"vllm_router_worker_load", gauge, worker, "warmpath_endpoint_outstanding_requests", nil},
					perServer(outstanding),
				},
				{family{
					"vllm_router_running_requests", gauge, worker, "warmpath_endpoint_outstanding_requests", nil,
				}, perServer(outstanding)},
				{
					family{"vllm_router_cache_hits_total", counter, nil, "warmpath_session_hits_total", nil},
					total("warmpath_session_hits_total"),
				},
				{
					family{"vllm_router_cache_misses_total", counter, nil, "warmpath_session_misses_total", nil},
					total("warmpath_session_misses_total"),
				},
			},
			[]leftOut{
				{"`vllm_router_tree_size`, `vllm_router_load_balancing_events_total`, `vllm_router_agent_aware_*`, " +
					"`vllm_router_kv_completion_*`", "they describe the inside of its policies"},
				{
					"`vllm_router_pd_*errors_total`, `vllm_router_pd_request_duration_seconds`", "failures and times " +
						"are not kept by leg: see `warmpath_attempts_total` and `warmpath_request_seconds`",
				},
				{
					"`vllm_router_generate_duration_seconds`, `vllm_router_embeddings_*`",
					"`vllm_router_request_duration_seconds` and `vllm_router_requests_total` have them by `route`",
				},
				{"`vllm_router_retry_backoff_duration_seconds`", "nothing waits before a retry"},
				{
					"`vllm_router_retries_exhausted_total`, `vllm_router_cb_*_total`",
					"see `warmpath_retries_refused_total` and `warmpath_attempts_total`, which have other meanings",
				},
				{"`vllm_router_discovery_*`", "see `warmpath_endpoint_info`"},
				{"`vllm_tokenizer_*`", "the router tokenizes beside requests, and its time delays none"},
			},
		},
		{
			stackRouter,
			[]peerFamily{
				{family{
					"vllm:num_requests_running", gauge, server, "warmpath_endpoint_outstanding_requests by URL", nil,
				}, perServer(outstanding)},
				{family{
					"vllm:num_requests_waiting", gauge, server,
					"warmpath_endpoint_engine_waiting by URL; absent when not reported", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_endpoint_engine_waiting", t.server)
				}},
				{family{
					"vllm:gpu_prefix_cache_hits_total", gauge, server,
					"Cached prompt tokens, as engines report them in answers", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_cached_tokens_total", t.server)
				}},
				{family{
					"vllm:gpu_prefix_cache_queries_total", gauge, server,
					"Prompt tokens, as engines report them in answers", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_prompt_tokens_total", t.server)
				}},
				{family{
					"vllm:gpu_prefix_cache_hit_rate", gauge, server,
					"The one by the other, since the router started", nil,
				}, func(t *translation) []sample {
					return ratio(t.sum("warmpath_cached_tokens_total", t.server),
						t.sum("warmpath_prompt_tokens_total", t.server))
				}},
				{family{"vllm:healthy_pods_total", gauge, server, "1 for an endpoint that is up", nil}, each(up)},
				{family{
					"vllm:num_incoming_requests_total", counter, []string{"model"}, "Client requests by pool", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_requests_total", func(l labels) []string { return []string{l["pool"]} })
				}},
				{family{
					"vllm:input_tokens_total", counter, both, "warmpath_prompt_tokens_total by URL and pool", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_prompt_tokens_total", t.serverModel)
				}},
				{family{
					"vllm:output_tokens_total", counter, both, "warmpath_output_tokens_total by URL and pool", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_output_tokens_total", t.serverModel)
				}},
				{family{
					"vllm:request_errors_total", counter, []string{
						"server", "model", "error_type",
					}, "Client requests with a status of 400 or more; error_type is the status, " +
						"not an exception's class", nil,
				}, func(t *translation) []sample {
					return t.sum("warmpath_requests_total", func(l labels) []string {
						if at := t.server(l); at != nil {
							return failed(l, at[0], l["pool"], l["code"])
						}
						return nil
					})
				}},
				{family{
					"vllm:request_latency_seconds", histogram, []string{
						"server", "model", "status",
					}, "Time from a client request's arrival to its end by URL and pool; " +
						"status is success or error", stackBuckets,
				}, func(t *translation) []sample {
					return t.sum("direct_answered_seconds", func(l labels) []string {
						if at := t.serverModel(l); at != nil {
							return append(at, l["status"])
						}
						return nil
					})
				}},
			},
			[]leftOut{
				{
					"`vllm:current_qps`, `vllm:avg_latency`, `vllm:avg_itl`, `vllm:avg_decoding_length`",
					"means over a sliding window; use `rate` of the counters and histograms",
				},
				{
					"`vllm:num_prefill_requests`, `vllm:num_decoding_requests`",
					"the accounts are in tokens: `warmpath_endpoint_outstanding_prefill_tokens`",
				},
				{"`vllm:routing_decisions_total`", "the reasons differ: `warmpath_decisions_total`"},
				{"`vllm:num_requests_swapped`, `vllm:semantic_cache_*`, `vllm_pii_*`", "no equivalent"},
				{
					"`router_cpu_usage_percent`, `router_memory_usage_percent`, `router_disk_usage_percent`",
					"they are the machine's; see `process_cpu_seconds_total` and `process_resident_memory_bytes` for " +
						"the process",
				},
				{"`*_created`", "added by Python's client to counters and histograms; not used"},
			},
		},
		{
			trtllm,
			[]peerFamily{
				{
					family{"total_requests_total", counter, nil, "Chat and completion requests", nil},
					func(t *translation) []sample {
						return t.sum("warmpath_requests_total", func(l labels) []string { return orchestrated(l) })
					},
				},
				{
					family{"total_responses_total", counter, nil, "Of these, those with status 200", nil},
					func(t *translation) []sample {
						return t.sum("warmpath_requests_total", func(l labels) []string {
							if l["code"] != "200" {
								return nil
							}
							return orchestrated(l)
						})
					},
				},
				{
					family{"stream_requests_total", counter, nil, "Of these, those that asked for a stream", nil},
					streams("true"),
				},
				{
					family{"nonstream_requests_total", counter, nil, "Of these, those that did not", nil},
					streams("false"),
				},
				{
					family{"validation_exceptions_total", counter, nil, "Of these, those with status 400", nil},
					ended(func(code string) bool { return code == "400" }),
				},
				{
					family{"internal_errors_total", counter, nil, "Of these, those with status 500", nil},
					ended(func(code string) bool { return code == "500" }),
				},
				{family{
					"http_exceptions_total", counter, nil, "Of these, those with another status of 400 or more", nil,
				}, ended(func(code string) bool { return code != "400" && code != "500" && isFailure(code) })},
				{family{
					"gen_first_token_latency_seconds", histogram, nil,
					"Time from a request's arrival to the first data of its streamed answer", trtShortBuckets,
				}, total("direct_first_seconds")},
				{family{
					"gen_complete_latency_seconds", histogram, nil,
					"Time from a request's arrival to its end, with status 200", trtLongBuckets,
				}, total("direct_complete_seconds")},
				{family{
					"gen_per_token_latency_seconds", histogram, nil,
					"Mean time between tokens of a streamed answer, one observation a request", trtShortBuckets,
				}, total("direct_token_seconds")},
				{family{
					"queue_latency_seconds", histogram, nil, "Time to decide where a request goes", trtShortBuckets,
				}, total("direct_decision_seconds")},
			},
			[]leftOut{
				{
					"`ctx_*`, `mme_*`, `gen_*_requests_total`", "only if the router replaces trtllm-serve, " +
						"at `/prometheus/metrics` of the traffic listener, which has all of them",
				},
				{"running and waiting requests, cache hits", "the orchestrator has no such metrics"},
			},
		},
		llmdPeer(),
	}
}

// labels are the labels of one of our series.
type labels map[string]string

// pathOf is the path of an API as other routers name it.
func pathOf(api string) string {
	switch api {
	case "chat":
		return "/v1/chat/completions"
	case "completions", "embeddings", "responses", "messages":
		return "/v1/" + api
	case "count_tokens":
		return "/v1/messages/count_tokens"
	case "generate":
		return "/generate"
	case "ollama_chat":
		return "/api/chat"
	case "ollama_generate":
		return "/api/generate"
	}
	return other
}

// failed returns the label values if the request ended with an error, else nil.
func failed(l labels, values ...string) []string {
	if isFailure(l["code"]) {
		return append([]string{}, values...)
	}
	return nil
}

func isFailure(code string) bool { return len(code) == 3 && (code[0] == '4' || code[0] == '5') }

// orchestrated returns label values for requests that TensorRT-LLM's orchestrator serves, else nil.
func orchestrated(l labels) []string {
	if l["api"] == "chat" || l["api"] == "completions" {
		return []string{}
	}
	return nil
}

// translation computes other routers' metrics.
type translation struct {
	own       map[string]*dto.MetricFamily
	endpoints []translated
	urls      map[string]string // by endpoint
}

type translated struct {
	url         string
	state       fleet.State
	outstanding float64
}

// server is the label of a series by its endpoint; nil if it has none or the endpoint is gone.
func (t *translation) server(l labels) []string {
	if url := t.urls[l["endpoint"]]; url != "" {
		return []string{url}
	}
	return nil
}

func (t *translation) serverModel(l labels) []string {
	if at := t.server(l); at != nil {
		return append(at, l["pool"])
	}
	return nil
}

// sum adds up one of our families by the label values that by returns, without the series for which it returns nil.
func (t *translation) sum(name string, by func(labels) []string) []sample {
	at := map[string]*sample{}
	for _, m := range t.own[name].GetMetric() {
		l := labels{}
		for _, p := range m.GetLabel() {
			l[p.GetName()] = p.GetValue()
		}
		values := by(l)
		if values == nil {
			continue
		}
		key := strings.Join(values, "\xff")
		if at[key] == nil {
			at[key] = &sample{labels: values}
		}
		at[key].add(m)
	}
	out := make([]sample, 0, len(at))
	for _, key := range slices.Sorted(maps.Keys(at)) {
		out = append(out, *at[key])
	}
	return out
}

// add adds a series of ours, whose histograms all have the same bounds.
func (s *sample) add(m *dto.Metric) {
	s.value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	h := m.GetHistogram()
	if h == nil {
		return
	}
	if s.hist == nil {
		s.hist = &dto.Histogram{SampleCount: new(uint64), SampleSum: new(float64)}
		for _, b := range h.GetBucket() {
			bound := b.GetUpperBound()
			s.hist.Bucket = append(s.hist.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: new(uint64)})
		}
	}
	*s.hist.SampleCount += h.GetSampleCount()
	*s.hist.SampleSum += h.GetSampleSum()
	for i, b := range h.GetBucket() {
		*s.hist.Bucket[i].CumulativeCount += b.GetCumulativeCount()
	}
}

// total adds up one of our families.
func total(name string) func(*translation) []sample {
	return func(t *translation) []sample { return t.sum(name, func(labels) []string { return []string{} }) }
}

// each is a gauge by URL that is 1 if it is 1 for any endpoint of that URL.
func each(of func(*translated) float64) func(*translation) []sample {
	return byURL(of, func(a, b float64) float64 { return max(a, b) })
}

// perServer is a gauge by URL, added up over the endpoints of that URL.
func perServer(of func(*translated) float64) func(*translation) []sample {
	return byURL(of, func(a, b float64) float64 { return a + b })
}

func byURL(of func(*translated) float64, with func(a, b float64) float64) func(*translation) []sample {
	return func(t *translation) []sample {
		at := map[string]float64{}
		for i := range t.endpoints {
			e := &t.endpoints[i]
			at[e.url] = with(at[e.url], of(e))
		}
		var out []sample
		for _, url := range slices.Sorted(maps.Keys(at)) {
			out = append(out, sample{labels: []string{url}, value: at[url]})
		}
		return out
	}
}

// ratio divides series by those with the same labels.
func ratio(part, whole []sample) (out []sample) {
	of := map[string]float64{}
	for _, s := range whole {
		of[strings.Join(s.labels, "\xff")] = s.value
	}
	for _, s := range part {
		if n := of[strings.Join(s.labels, "\xff")]; n > 0 {
			out = append(out, sample{labels: s.labels, value: s.value / n})
		}
	}
	return out
}

// translate adds our metrics under other routers' names.
func translate(own, direct []*dto.MetricFamily, s *snapshot, wanted []string) []*dto.MetricFamily {
	t := &translation{own: map[string]*dto.MetricFamily{}, urls: map[string]string{}}
	for _, f := range slices.Concat(own, direct) {
		t.own[f.GetName()] = f
	}
	for i := range s.status {
		e := &s.status[i]
		if e.Gone {
			continue
		}
		t.urls[e.Endpoint.Name] = e.Endpoint.URL
		t.endpoints = append(t.endpoints, translated{e.Endpoint.URL, e.State, float64(e.Load.Requests)})
	}
	for _, p := range peers() {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		for i := range p.families {
			if f := p.families[i].gather(t); len(f.GetMetric()) > 0 {
				own = append(own, f)
			}
		}
	}
	slices.SortFunc(own, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return own
}

// gather makes the current family.
func (p *peerFamily) gather(t *translation) *dto.MetricFamily {
	kind := map[string]dto.MetricType{
		counter: dto.MetricType_COUNTER, gauge: dto.MetricType_GAUGE, histogram: dto.MetricType_HISTOGRAM,
	}[p.Kind]
	out := &dto.MetricFamily{Name: &p.Name, Help: &p.Help, Type: &kind}
	for _, s := range p.make(t) {
		m := &dto.Metric{}
		for i := range s.labels {
			m.Label = append(m.Label, &dto.LabelPair{Name: &p.Labels[i], Value: &s.labels[i]})
		}
		switch p.Kind {
		case counter:
			m.Counter = &dto.Counter{Value: &s.value}
		case gauge:
			m.Gauge = &dto.Gauge{Value: &s.value}
		default:
			m.Histogram = s.hist
		}
		out.Metric = append(out.Metric, m)
	}
	return out
}
