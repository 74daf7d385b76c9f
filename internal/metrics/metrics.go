// Package metrics is what Prometheus sees of the router: it listens to the fleet, counts, and serves a registry of its
// own. Labels are bounded (pools by Config.MaxPools, endpoints by what is declared now), and the series of an endpoint
// that is no longer declared are deleted, so memory stays flat while endpoints come and go.
package metrics

import (
	"net/http"
	"slices"
	"strings"
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
	direct   *direct // what the peers' names need besides
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

	optional sync.Mutex                        // guards what follows
	watched  map[string][]prometheus.Collector // of sources that a reload can replace, by name
}

// replace registers collectors of a source, in the place of those of the source of that name before; none only takes those away.
func (m *Metrics) replace(name string, with ...prometheus.Collector) {
	m.optional.Lock()
	defer m.optional.Unlock()
	for _, c := range m.watched[name] {
		m.registry.Unregister(c)
	}
	m.registry.MustRegister(with...)
	m.watched[name] = with
}

// SetCompatible names the other routers under whose names metrics are there too.
func (m *Metrics) SetCompatible(names []string) {
	m.gather.Lock()
	defer m.gather.Unlock()
	m.peers = names
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
		direct:      newDirect(c.Compatible),
		pools:       newBounded(c.MaxPools),
		apis:        newBounded(maxAPIs),
		served:      map[servedKey]*servedSeries{},
		endpoints:   map[string]*endpointSeries{},
		decisions:   map[decisionKey]prometheus.Counter{},
		splits:      map[decisionKey]prometheus.Counter{},
		durations:   map[string]prometheus.Observer{},
		predictions: map[string]*predictSeries{},
		missing:     map[string]struct{}{},
		watched:     map[string][]prometheus.Collector{},
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
	m.direct.took(d)
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
		own = translate(own, m.direct.families(), &m.snapshot, m.peers)
	}
	return own, err
}

// Handler serves the registry in whichever exposition format the scraper prefers.
func (m *Metrics) Handler() http.Handler {
	handler := func(g prometheus.Gatherer) http.Handler {
		return promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 8, Timeout: 30 * time.Second})
	}
	plain, open := handler(m), handler(prometheus.GathererFunc(m.gatherOpen))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "openmetrics") {
			open.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

// gatherOpen is Gather for scrapers that read OpenMetrics. There a counter's family has the name without _total, so that one beside a gauge
// of that name (go_memstats_alloc_bytes) would be declared twice; it is left out.
func (m *Metrics) gatherOpen() ([]*dto.MetricFamily, error) {
	all, err := m.Gather()
	names := make(map[string]bool, len(all))
	for _, f := range all {
		names[f.GetName()] = true
	}
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		name, total := strings.CutSuffix(f.GetName(), "_total")
		return total && f.GetType() == dto.MetricType_COUNTER && names[name]
	}), err
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
