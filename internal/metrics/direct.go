package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// direct has the counts that other routers' metrics need and ours lack: histograms with their bounds, and counts by
// other labels. It counts only for the routers in Config.Compatible. Its own names are not served.
type direct struct {
	registry *prometheus.Registry

	// vllm-router
	routes             *prometheus.HistogramVec // seconds of a request
	retried, pairs     *prometheus.CounterVec   // attempts after the first, requests in two legs; by route
	chosen             *prometheus.CounterVec   // decisions by policy and endpoint
	prefills, decoders *prometheus.CounterVec   // legs by endpoint

	// production-stack
	answered *prometheus.HistogramVec // seconds of a request

	// trtllm
	streams                          *prometheus.CounterVec
	first, complete, perToken, queue prometheus.Histogram

	llmd *llmdCounts // nil without
}

// Bounds of buckets, as in the originals: vllm-router's src/metrics.rs, production-stack's metrics_service,
// TensorRT-LLM's serve/perf_metrics.py.
var (
	vllmRouterBuckets = []float64{
		.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240,
	}
	stackBuckets    = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	trtShortBuckets = []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	trtLongBuckets = []float64{
		.1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
	}
)

// newDirect makes the counts that the named routers need.
func newDirect(peers []string) *direct {
	d := &direct{registry: prometheus.NewRegistry()}
	counter := func(name string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, labels)
		d.registry.MustRegister(c)
		return c
	}
	histogram := func(name string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Buckets: bounds}, labels)
		d.registry.MustRegister(h)
		return h
	}
	one := func(name string, bounds []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Buckets: bounds})
		d.registry.MustRegister(h)
		return h
	}
	if slices.Contains(peers, vllmRouter) {
		d.routes = histogram("direct_route_seconds", vllmRouterBuckets, "route")
		d.retried, d.pairs = counter("direct_retries", "route"), counter("direct_pairs", "route")
		d.chosen = counter("direct_chosen", "policy", "endpoint")
		d.prefills, d.decoders = counter("direct_prefills", "endpoint"), counter("direct_decodes", "endpoint")
	}
	if slices.Contains(peers, stackRouter) {
		d.answered = histogram("direct_answered_seconds", stackBuckets, "endpoint", "pool", "status")
	}
	if slices.Contains(peers, trtllm) {
		d.streams = counter("direct_streams", "stream")
		d.first, d.perToken = one("direct_first_seconds", trtShortBuckets), one("direct_token_seconds", trtShortBuckets)
		d.complete, d.queue = one("direct_complete_seconds", trtLongBuckets),
			one("direct_decision_seconds", trtShortBuckets)
	}
	if slices.Contains(peers, llmd) {
		of := func(name string, bounds []float64, more ...string) *prometheus.HistogramVec {
			return histogram("direct_llmd_"+name, bounds, append([]string{"pool"}, more...)...)
		}
		d.llmd = &llmdCounts{
			seconds: of("seconds", llmdSeconds), ttft: of("ttft", llmdTTFT, "stream"), tpot: of("tpot", llmdTPOT),
			ntpot: of("ntpot", llmdNTPOT), prompt: of("prompt", llmdPrompt),
			answer: of("answer", llmdAnswer), cached: of("cached", llmdPrompt), request: of("request", llmdRequest),
			response: of("response", llmdResponse), decision: one("direct_llmd_decision", llmdDecision),
		}
	}
	return d
}

// decided counts a decision.
func (d *direct) decided(x *route.Decision) {
	if d.chosen == nil {
		return
	}
	d.chosen.WithLabelValues(x.Policy, x.Endpoint.Name).Inc()
	switch x.Leg {
	case fleet.LegPrefill:
		d.prefills.WithLabelValues(x.Endpoint.Name).Inc()
	case fleet.LegDecode:
		d.decoders.WithLabelValues(x.Endpoint.Name).Inc()
	case fleet.LegUnsplit:
	}
}

// took counts the duration of a decision.
func (d *direct) took(t time.Duration) {
	if d.queue != nil {
		d.queue.Observe(t.Seconds())
	}
	if d.llmd != nil {
		d.llmd.decision.Observe(t.Seconds())
	}
}

// served counts a client request. pool is its label.
func (d *direct) served(s *live.Served, pool string) {
	seconds := s.Ended.Sub(s.Started).Seconds()
	if d.routes != nil {
		path := pathOf(s.API)
		d.routes.WithLabelValues(path).Observe(seconds)
		d.retried.WithLabelValues(path).Add(float64(max(0, s.Attempts-1)))
		if s.Prefill.Lease != 0 {
			d.pairs.WithLabelValues(path).Inc()
		}
	}
	if d.answered != nil && s.Decision.Endpoint.Name != "" {
		status := "success"
		if s.Status >= 400 || s.Outcome != fleet.OK {
			status = "error"
		}
		d.answered.WithLabelValues(s.Decision.Endpoint.Name, pool, status).Observe(seconds)
	}
	if d.llmd != nil {
		d.llmd.served(s, pool)
	}
	if d.streams == nil || s.API != "chat" && s.API != "completions" {
		return
	}
	d.streams.WithLabelValues(strconv.FormatBool(s.Stream)).Inc()
	if s.Status != 200 {
		return
	}
	d.complete.Observe(seconds)
	if first, ok := s.FirstToken(); ok {
		d.first.Observe(first.Seconds())
	}
	if between := betweenTokens(s); between > 0 {
		d.perToken.Observe(between.Seconds())
	}
}

// forget deletes the series with a label.
func (d *direct) forget(label, value string) {
	at := prometheus.Labels{label: value}
	for _, v := range []*prometheus.CounterVec{d.chosen, d.prefills, d.decoders} {
		if v != nil && label == "endpoint" {
			v.DeletePartialMatch(at)
		}
	}
	if d.answered != nil {
		d.answered.DeletePartialMatch(at)
	}
	if d.llmd != nil && label == "pool" {
		for _, v := range d.llmd.all() {
			v.DeletePartialMatch(at)
		}
	}
}

// families are the current counts.
func (d *direct) families() []*dto.MetricFamily {
	out, _ := d.registry.Gather()
	return out
}
