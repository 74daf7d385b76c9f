// Package metrics has the router's Prometheus metrics.
//
// It owns the registry, the families with their help, and the counters that it increments as a listener to the fleet.
//
// It promises bounded labels (pools by Config.MaxPools, endpoints by those declared), and deletes the series of
// endpoints that are no longer declared, so that memory stays flat.
//
// It never affects a decision.
package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

const (
	defaultMaxPools = 200
	maxAPIs         = 32 // bound on the doors' names of paths
	none            = "none"
	other           = "other"
	unknown         = "unknown"
)

// Source is what gauges are read from at the time of a scrape, such as live.Fleet.
type Source interface {
	Status() []route.EndpointStatus
	Models() []fleet.ModelStatus
	Stats() route.Stats
}

// Config has the registry's constants.
type Config struct {
	Version  string // of this program, for warmpath_build_info
	Commit   string // of its source
	MaxPools int    // distinct values of the label pool; further pools are called "other". 0 means 200

	Compatible []string // routers whose metric names are served too: vllm-router, production-stack, trtllm, llmd
}

// Metrics counts events. Make one with New, give Listener to the fleet, then Watch the fleet.
type Metrics struct {
	registry *prometheus.Registry
	table    map[string]described // of all families
	peers    []string             // Config.Compatible
	v        vectors
	direct   *direct // additional counts for Config.Compatible
	aliases  *aliases
	source   atomic.Pointer[Source]

	gather   sync.Mutex // held during a whole scrape: one sweep, one snapshot, one gathering
	snapshot snapshot   // what Collect reads; guarded by gather

	mu          sync.RWMutex // guards all below
	pools       labelValues
	apis        labelValues
	served      map[servedKey]*servedSeries
	endpoints   map[string]*endpointSeries
	decisions   map[decisionKey]prometheus.Counter
	splits      map[decisionKey]prometheus.Counter // the reason is a fleet.SplitWhy
	durations   map[string]prometheus.Observer     // of decisions, by label pool
	predictions map[string]*predictSeries          // by label pool
	missing     map[string]struct{}                // endpoints that the last sweep did not find in the source
	sweepAt     int                                // endpoints remembered at which Served sweeps by itself

	optional sync.Mutex          // guards watched
	watched  map[string]*figures // of sources that a reload can replace, by the name of their first family
}

// SetCompatible names the other routers whose metric names are served too.
func (m *Metrics) SetCompatible(names []string) {
	m.gather.Lock()
	defer m.gather.Unlock()
	m.peers = names
}

// New makes a registry with all families.
func New(c Config) *Metrics {
	if c.MaxPools <= 0 {
		c.MaxPools = defaultMaxPools
	}
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		table:       describe(families()),
		peers:       c.Compatible,
		v:           newVectors(),
		direct:      newDirect(c.Compatible),
		aliases:     newAliases(),
		pools:       newLabelValues(c.MaxPools),
		apis:        newLabelValues(maxAPIs),
		served:      map[servedKey]*servedSeries{},
		endpoints:   map[string]*endpointSeries{},
		decisions:   map[decisionKey]prometheus.Counter{},
		splits:      map[decisionKey]prometheus.Counter{},
		durations:   map[string]prometheus.Observer{},
		predictions: map[string]*predictSeries{},
		missing:     map[string]struct{}{},
		watched:     map[string]*figures{},
		sweepAt:     minSweep,
	}
	for _, v := range append(m.v.all(), m.aliases.all()...) {
		m.registry.MustRegister(v)
	}
	m.registry.MustRegister(
		buildInfo(c),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.watch(m.sendStatus)
	m.watchPanics()
	return m
}

// Watch sets the fleet whose state the gauges show. Before it is called they are absent.
func (m *Metrics) Watch(s Source) { m.source.Store(&s) }

// Listener returns the listener for the fleet.
func (m *Metrics) Listener() live.Listener {
	return live.Listener{Entry: m.entry, Served: m.observe, Retry: m.retry}
}

// ObserveDecision records the duration of one call of Fleet.Route, including the wait for the fleet's lock. pool is
// Decision.Pool, "" without a decision.
func (m *Metrics) ObserveDecision(pool string, d time.Duration) {
	m.duration(pool).Observe(d.Seconds())
	m.direct.took(d)
}

// Gather removes series of endpoints that are no longer declared, then collects all families.
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

// Handler serves the registry in the exposition format that the scraper prefers.
func (m *Metrics) Handler() http.Handler {
	handler := func(g prometheus.Gatherer) http.Handler {
		return promhttp.HandlerFor(g, promhttp.HandlerOpts{
			EnableOpenMetrics: true, MaxRequestsInFlight: 8, Timeout: 30 * time.Second,
		})
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

// gatherOpen is Gather for scrapers that read OpenMetrics. There a counter's family has the name without _total, so
// that one that shares it with a gauge (go_memstats_alloc_bytes) would be declared twice; it is left out.
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
		ConstLabels: prometheus.Labels{
			"version": cmp.Or(c.Version, unknown), "commit": cmp.Or(c.Commit, unknown), "goversion": runtime.Version(),
		},
	})
	g.Set(1)
	return g
}

var (
	_ prometheus.Gatherer  = (*Metrics)(nil)
	_ prometheus.Collector = (*figures)(nil)
)
