// Package metrics is what Prometheus sees of the router: it listens to the fleet, counts, and serves a registry of its
// own. Labels are bounded (pools by Config.MaxPools, endpoints by what is declared now), and the series of an endpoint
// that is no longer declared are deleted, so memory stays flat while endpoints come and go.
package metrics

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

const (
	defaultMaxPools = 200
	maxAPIs         = 32 // words the doors have for their paths; a bound, not a list
	none            = "none"
	other           = "other"
)

// Source is what gauges are read from at the moment of a scrape; live.Fleet is one.
type Source interface {
	Status() []route.EndpointStatus
	Models() []route.ModelStatus
	Stats() route.Stats
}

// Config says what the registry is told once.
type Config struct {
	Version  string // of this program, for warmpath_build_info
	Commit   string // of its source
	MaxPools int    // distinct values of the label pool; further pools are called "other". 0 means 200

	Compatible []string // routers under whose names metrics are there too: vllm-router, production-stack, trtllm
}

// Metrics counts what it hears. Make one with New, give Listener to the fleet, then Watch the fleet.
type Metrics struct {
	registry *prometheus.Registry
	peers    []string // Config.Compatible
	v        vectors
	source   atomic.Pointer[Source]

	gather   sync.Mutex // held during a whole scrape: one sweep, one snapshot, one gathering
	snapshot snapshot   // what Collect reads; guarded by gather

	mu          sync.RWMutex // guards all below
	pools       bounded
	apis        bounded
	served      map[servedKey]*servedSeries
	endpoints   map[string]*endpointSeries
	decisions   map[decisionKey]prometheus.Counter
	splits      map[decisionKey]prometheus.Counter // the reason is a route.SplitWhy
	durations   map[string]prometheus.Observer     // of decisions, by label pool
	predictions map[string]*predictSeries          // by label pool
	missing     map[string]struct{}                // endpoints that the last sweep did not find in the source
	sweepAt     int                                // endpoints remembered at which Served sweeps by itself
}

// New makes a registry with all families in it.
func New(c Config) *Metrics {
	if c.MaxPools <= 0 {
		c.MaxPools = defaultMaxPools
	}
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		peers:       c.Compatible,
		v:           newVectors(),
		pools:       newBounded(c.MaxPools),
		apis:        newBounded(maxAPIs),
		served:      map[servedKey]*servedSeries{},
		endpoints:   map[string]*endpointSeries{},
		decisions:   map[decisionKey]prometheus.Counter{},
		splits:      map[decisionKey]prometheus.Counter{},
		durations:   map[string]prometheus.Observer{},
		predictions: map[string]*predictSeries{},
		missing:     map[string]struct{}{},
		sweepAt:     minSweep,
	}
	for _, v := range m.v.all() {
		m.registry.MustRegister(v)
	}
	m.registry.MustRegister(
		newStatusCollector(m),
		buildInfo(c),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Watch names the fleet whose state the gauges show. Before it is called they are absent.
func (m *Metrics) Watch(s Source) { m.source.Store(&s) }

// Listener is what the fleet calls.
func (m *Metrics) Listener() live.Listener {
	return live.Listener{Entry: m.entry, Served: m.observe, Retry: m.retry}
}

// ObserveDecision records how long one call of Fleet.Route took, the wait for the fleet's lock included. pool is
// Decision.Pool, "" when there was no decision.
func (m *Metrics) ObserveDecision(pool string, d time.Duration) {
	m.duration(pool).Observe(d.Seconds())
}

// Gather sweeps what is no longer declared, then collects all families.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	m.gather.Lock()
	defer m.gather.Unlock()
	m.snapshot = m.look()
	if m.snapshot.known {
		m.sweep(m.snapshot)
	}
	own, err := m.registry.Gather()
	if len(m.peers) > 0 {
		own = translate(own, &m.snapshot, m.peers)
	}
	return own, err
}

// Handler serves the registry in whichever exposition format the scraper prefers.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 8,
		Timeout:             30 * time.Second,
	})
}

func buildInfo(c Config) prometheus.Collector {
	f := familyOf("warmpath_build_info")
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: f.Name, Help: f.Help,
		ConstLabels: prometheus.Labels{"version": orUnknown(c.Version), "commit": orUnknown(c.Commit), "goversion": goVersion()},
	})
	g.Set(1)
	return g
}

var (
	_ prometheus.Gatherer  = (*Metrics)(nil)
	_ prometheus.Collector = (*statusCollector)(nil)
)
