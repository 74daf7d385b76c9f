// Package trtserve is what trtllm-serve disaggregated serves beside its API, so that the router can stand in its place: /health, /version,
// /cluster_info, /perf_metrics, /prometheus/metrics, and the storage at which workers register themselves (tensorrt_llm/serve/
// openai_disagg_server.py, cluster_storage.py, disagg_auto_scaling.py and responses_utils.py of the summer of 2026). Everything else is
// passed on to the door.
package trtserve

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// Config says what is served.
type Config struct {
	Names   *guard.Names                   // under which callers come; what comes under others is passed on, to be refused
	Source  func(*http.Request) netip.Addr // address of a caller; nil uses the connection
	Paths   bool                           // the paths for people and monitors
	Version string                         // for /version

	ReadBody time.Duration // longest time a client may take to send a body; default 60 s

	AdminToken  string // bearer token for /perf_metrics; without one only callers on this machine may
	PerfMetrics int    // requests that /perf_metrics remembers; 0 keeps none

	Cluster       bool          // workers register, here or in etcd
	Etcd          string        // etcd://HOST:PORT where they do; "" for here
	ClusterName   string        // of those that are seen
	MinContext    int           // context workers without which /health says no; with Cluster
	MinGeneration int           // the same of generation workers
	Inactive      time.Duration // how long a registration without a time of its own is kept
	Registration  Registration  // who may register; without Etcd
}

// Fleet is what is asked of the fleet.
type Fleet interface {
	Status() []route.EndpointStatus
	Ready() (ok bool, why string)
}

// Server is the handler. Make it with New, tell it the fleet with Watch before it serves, and run Run.
type Server struct {
	cfg     Config
	next    http.Handler
	fleet   Fleet
	client  *http.Client
	log     *slog.Logger
	started time.Time

	storage  *storage
	registry http.Handler // of the storage; nil unless workers register here
	etcd     etcdKeys
	perf     *perf
	prom     *prom
	mux      *http.ServeMux
}

// New makes a server. client is used for the workers' own /perf_metrics.
func New(cfg Config, client *http.Client, log *slog.Logger) *Server {
	if cfg.ReadBody == 0 {
		cfg.ReadBody = time.Minute
	}
	if cfg.Source == nil {
		cfg.Source = guard.Source
	}
	s := &Server{cfg: cfg, client: client, log: log, started: time.Now(), mux: http.NewServeMux(), prom: newProm()}
	s.storage = newStorage(time.Now, cfg.Inactive)
	s.perf = newPerf(cfg.PerfMetrics, s.started)
	if cfg.Paths {
		s.mux.HandleFunc("GET /health", s.health)
		s.mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"version": cfg.Version})
		})
		s.mux.HandleFunc("GET /cluster_info", s.clusterInfo)
		s.mux.HandleFunc("GET /perf_metrics", s.perfMetrics)
		s.mux.Handle("GET /prometheus/metrics", s.prom.handler())
		s.mux.Handle("GET /prometheus/metrics/", s.prom.handler())
	}
	if cfg.Cluster && cfg.Etcd == "" {
		keys := http.NewServeMux()
		guarded := &gate{s: s, next: keys}
		s.storage.routes(keys, func(w http.ResponseWriter, r *http.Request, key, value string) bool {
			why := s.misplaced(r, key, value)
			if why != "" {
				guarded.refuse(w, r, why)
			}
			return why == ""
		})
		s.registry = guarded
	}
	return s
}

// Watch tells the fleet, and who serves all other paths.
func (s *Server) Watch(fleet Fleet, next http.Handler) {
	s.fleet, s.next = fleet, next
	s.mux.Handle("/", next)
}

// Listener hears what /perf_metrics and /prometheus/metrics tell of.
func (s *Server) Listener() live.Listener {
	if s == nil || !s.cfg.Paths {
		return live.Listener{}
	}
	return live.Listener{
		Served: func(v *live.Served) { s.prom.served(v); s.perf.served(v) },
		Entry: func(e *route.Entry) {
			if e.Ended != nil {
				s.prom.ended(e.Now, e.Ended)
			}
		},
		Retry: func(endpoint string, _ fleet.Outcome) { s.prom.retried(s.roleOf(endpoint)) },
	}
}

// Decided hears how long a decision took.
func (s *Server) Decided(took time.Duration) {
	if s != nil {
		s.prom.queue.Observe(took.Seconds())
	}
}

// ServeHTTP answers what is its own and passes on the rest.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.cfg.Names.Check(r) != nil:
		s.next.ServeHTTP(w, r)
	case s.registry != nil && !s.cfg.Registration.Own && isStorage(r.URL.Path):
		s.limit(w, r)
		s.registry.ServeHTTP(w, r)
	case s.own(r.URL.Path):
		s.limit(w, r)
		s.mux.ServeHTTP(w, r)
	default:
		s.next.ServeHTTP(w, r)
	}
}

// limit bounds how long the body of a request may take, read or not: net/http reads what is left of it before it answers.
func (s *Server) limit(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.ReadBody))
	}
}

// own reports whether a path is one of this package's: a mux would clean the others.
func (s *Server) own(path string) bool {
	switch path {
	case "/health", "/version", "/cluster_info", "/perf_metrics", "/prometheus/metrics", "/prometheus/metrics/":
		return s.cfg.Paths
	}
	return false
}

// health is 200 or 503, without a body.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	status := http.StatusOK
	if !s.ready() {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
}

// ready reports whether there is somebody for each leg, as many as the cluster is to have at least.
func (s *Server) ready() bool {
	context, generation := s.up()
	if s.cfg.Cluster {
		return len(context) >= s.cfg.MinContext && len(generation) >= s.cfg.MinGeneration
	}
	ok, _ := s.fleet.Ready()
	return ok && len(generation) > 0
}

// up lists the endpoints of each side that can take requests, as host:port.
func (s *Server) up() (context, generation []string) {
	context, generation = []string{}, []string{}
	for _, e := range s.fleet.Status() {
		if e.State != fleet.StateUp && e.State != fleet.StateBusy || e.Gone || e.Draining {
			continue
		}
		at := e.Endpoint.URL
		if u, err := url.Parse(at); err == nil {
			at = u.Host
		}
		if e.Endpoint.Role != fleet.RoleDecode {
			context = append(context, at)
		}
		if e.Endpoint.Role != fleet.RolePrefill {
			generation = append(generation, at)
		}
	}
	return context, generation
}

// clusterInfo is the orchestrator's since June 2026.
func (s *Server) clusterInfo(w http.ResponseWriter, _ *http.Request) {
	context, generation := s.up()
	info := map[string]any{
		"is_ready":     s.ready(),
		"server_lists": map[string]any{"context": context, "generation": generation},
	}
	keys := map[string]any{}
	for _, role := range []fleet.Role{fleet.RolePrefill, fleet.RoleDecode} {
		if n := s.blockTokens(role); n > 0 {
			keys[map[fleet.Role]string{fleet.RolePrefill: "context", fleet.RoleDecode: "generation"}[role]] = map[string]any{"tokens_per_block": n}
		}
	}
	info["routing_key_configs"] = keys
	if s.cfg.Cluster {
		info["current_workers"] = s.workers()
		info["minimal_instances"] = map[string]int{"context_servers": s.cfg.MinContext, "generation_servers": s.cfg.MinGeneration}
	}
	writeJSON(w, http.StatusOK, info)
}

// blockTokens is the size of a block that all of a role report, 0 when they differ or say nothing.
func (s *Server) blockTokens(role fleet.Role) int {
	size := 0
	for _, e := range s.fleet.Status() {
		n := e.Report.BlockTokens
		switch {
		case e.Endpoint.Role != role && e.Endpoint.Role != fleet.RoleBoth || n == 0:
		case size != 0 && n != size:
			return 0
		default:
			size = n
		}
	}
	return size
}

// roleOf is the prefix of an endpoint's metrics.
func (s *Server) roleOf(endpoint string) string {
	for _, e := range s.fleet.Status() {
		if e.Endpoint.Name == endpoint && e.Endpoint.Role == fleet.RolePrefill {
			return contextRole
		}
	}
	return generationRole
}

// Run follows the workers that register, and aligns their clocks, until ctx ends. Watch comes first.
func (s *Server) Run(ctx context.Context, publish func(route.Declared)) {
	if s == nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.cfg.PerfMetrics > 0 && s.cfg.Paths {
		wg.Go(func() { s.align(ctx) })
	}
	switch {
	case !s.cfg.Cluster:
	case s.cfg.Etcd != "":
		s.followEtcd(ctx, publish)
	default:
		s.follow(ctx, publish)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"detail":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
