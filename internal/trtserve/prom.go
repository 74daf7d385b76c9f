package trtserve

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// The metric prefixes of the roles.
const (
	contextRole    = "ctx"
	generationRole = "gen"
)

// prom has the orchestrator's own metrics (metrics/collector.py, perf_metrics.py) under its names. It uses Python's
// client, which adds _total to counters.
type prom struct {
	registry                                                               *prometheus.Registry
	total, stream, nonstream, validation, exceptions, internals, responses prometheus.Counter
	queue                                                                  prometheus.Histogram
	roles                                                                  map[string]*promRole
}

type promRole struct {
	total, errors, retries, completed prometheus.Counter
	first, complete, perToken         prometheus.Histogram
}

// Bucket bounds in seconds, from perf_metrics.py.
var (
	shortBuckets = []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	longBuckets = []float64{.1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920}
)

func newProm() *prom {
	p := &prom{registry: prometheus.NewRegistry(), roles: map[string]*promRole{}}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name + "_total", Help: help})
		p.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, b []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: b})
		p.registry.MustRegister(h)
		return h
	}
	p.total = counter("total_requests", "Requests.")
	p.stream = counter("stream_requests", "Requests for a stream.")
	p.nonstream = counter("nonstream_requests", "Requests for an answer in one piece.")
	p.validation = counter("validation_exceptions", "Requests that were refused as invalid.")
	p.exceptions = counter("http_exceptions", "Requests that ended with an HTTP error.")
	p.internals = counter("internal_errors", "Requests that ended with an internal error.")
	p.responses = counter("total_responses", "Requests that were answered.")
	p.queue = histogram("queue_latency_seconds", "Time until a request is routed.", shortBuckets)
	for _, role := range []string{contextRole, generationRole} {
		p.roles[role] = &promRole{
			total:   counter(role+"_total_requests", "Requests to workers of the role."),
			errors:  counter(role+"_error_requests", "Requests to workers of the role that failed."),
			retries: counter(role+"_retry_requests", "Retries after a failure of a worker of the role."),
			completed: counter(role+"_completed_requests",
				"Requests to workers of the role that ended, including failures."),
			first:    histogram(role+"_first_token_latency_seconds", "Time to the first token.", shortBuckets),
			complete: histogram(role+"_complete_latency_seconds", "Time to the end of the answer.", longBuckets),
			perToken: histogram(role+"_per_token_latency_seconds", "Time for each token after the first.",
				shortBuckets),
		}
	}
	return p
}

func (p *prom) handler() http.Handler { return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}) }

// served counts a request to the API.
func (p *prom) served(v *live.Served) {
	if v.API != "chat" && v.API != "completions" {
		return
	}
	p.total.Inc()
	if v.Stream {
		p.stream.Inc()
	} else {
		p.nonstream.Inc()
	}
	switch {
	case v.Status == http.StatusBadRequest:
		p.validation.Inc()
	case v.Status == http.StatusInternalServerError:
		p.internals.Inc()
	case v.Status >= http.StatusBadRequest:
		p.exceptions.Inc()
	default:
		p.responses.Inc()
	}
}

// ended counts one leg. A request that is not split counts as generation, as in the original.
func (p *prom) ended(now time.Time, e *route.Ended) {
	if e.Class != fleet.Turn {
		return
	}
	r := p.roles[generationRole]
	if e.Decision.Leg == fleet.LegPrefill {
		r = p.roles[contextRole]
	}
	r.total.Inc()
	r.completed.Inc()
	switch e.Outcome {
	case fleet.OK:
	case fleet.ClientGone, fleet.Abandoned:
		return
	default:
		r.errors.Inc()
		return
	}
	r.complete.Observe(now.Sub(e.Routed).Seconds())
	if e.FirstByte.IsZero() {
		return
	}
	r.first.Observe(e.FirstByte.Sub(e.Routed).Seconds())
	if n := e.Usage.OutputTokens; n > 1 && e.Stream {
		r.perToken.Observe(now.Sub(e.FirstByte).Seconds() / float64(n-1))
	}
}

func (p *prom) retried(role string) { p.roles[role].retries.Inc() }
