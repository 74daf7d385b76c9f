// Package trtserve serves the paths of trtllm-serve disaggregated besides its API, so that the router can replace it:
// /health, /version, /cluster_info, /perf_metrics, /prometheus/metrics, and the storage at which workers register
// (tensorrt_llm/serve/ openai_disagg_server.py, cluster_storage.py, disagg_auto_scaling.py and responses_utils.py of
// the summer of 2026). All other paths go to the next handler.
package trtserve

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// Config says what is served.
type Config struct {
	// Host names of the router; requests with others go to the next handler, which refuses them
	Names   *guard.Names
	Source  func(*http.Request) netip.Addr // address of a caller; nil: that of the connection
	Paths   bool                           // serve the paths for people and monitoring
	Version string                         // for /version

	ReadBody time.Duration // longest time a client may take to send a body; default 60 s

	// bearer token for /perf_metrics and the workers in /cluster_info; without one only callers on this machine get
	// them
	AdminToken  string
	PerfMetrics int // requests kept for /perf_metrics; 0 for none

	Cluster       bool          // workers register here or in etcd
	Etcd          string        // etcd://HOST:PORT; "" if they register here
	ClusterName   string        // only workers of this cluster are used
	MinContext    int           // fewest context workers for /health to be 200; with Cluster
	MinGeneration int           // the same for generation workers
	Inactive      time.Duration // lifetime of a registration without a TTL
	Registration  Registration  // who may register; without Etcd
}

// Fleet is the state of the endpoints.
type Fleet interface {
	Status() []route.EndpointStatus
	Ready() (ok bool, why string)
}

// Server is the handler. Make it with New, call Watch before it serves, and run Run.
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

// New makes a server. client fetches the workers' /perf_metrics.
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

// Watch sets the fleet and the handler of all other paths.
func (s *Server) Watch(fleet Fleet, next http.Handler) {
	s.fleet, s.next = fleet, next
	s.mux.Handle("/", next)
}

// Listener collects the data of /perf_metrics and /prometheus/metrics.
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

// Decided records how long a decision took.
func (s *Server) Decided(took time.Duration) {
	if s != nil {
		s.prom.queue.Observe(took.Seconds())
	}
}

// ServeHTTP answers its own paths and passes on the rest.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path := strings.TrimSuffix(r.URL.Path, "/"); !s.own(r.URL.Path) && s.own(path) {
		r.URL.Path = path
	}
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

// limit bounds how long a client may take to send a body. This holds for bodies that no handler reads too: net/http
// reads them to the end.
func (s *Server) limit(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.ReadBody))
	}
}

// own reports whether a path is one of this package's. A mux would clean other paths.
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

// ready reports whether enough workers of each role are up.
func (s *Server) ready() bool {
	context, generation := s.up()
	if s.cfg.Cluster {
		return len(context) >= s.cfg.MinContext && len(generation) >= s.cfg.MinGeneration
	}
	ok, _ := s.fleet.Ready()
	return ok && len(generation) > 0
}

// up lists the endpoints of each role that accept requests, as host:port.
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

// clusterInfo has the orchestrator's format since June 2026. Only operators are told who the workers are.
func (s *Server) clusterInfo(w http.ResponseWriter, r *http.Request) {
	info, operator := map[string]any{"is_ready": s.ready()}, s.admin(r)
	if operator {
		context, generation := s.up()
		info["server_lists"] = map[string]any{"context": context, "generation": generation}
	}
	keys := map[string]any{}
	for _, role := range []fleet.Role{fleet.RolePrefill, fleet.RoleDecode} {
		if n := s.blockTokens(role); n > 0 {
			keys[map[fleet.Role]string{
				fleet.RolePrefill: "context", fleet.RoleDecode: "generation",
			}[role]] = map[string]any{"tokens_per_block": n}
		}
	}
	info["routing_key_configs"] = keys
	if s.cfg.Cluster {
		if operator {
			info["current_workers"] = s.workers()
		}
		info["minimal_instances"] = map[string]int{
			"context_servers": s.cfg.MinContext, "generation_servers": s.cfg.MinGeneration,
		}
	}
	writeJSON(w, http.StatusOK, info)
}

// blockTokens is the block size that all endpoints of a role report, 0 if they differ or report none.
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

// roleOf returns the metric prefix of an endpoint.
func (s *Server) roleOf(endpoint string) string {
	for _, e := range s.fleet.Status() {
		if e.Endpoint.Name == endpoint && e.Endpoint.Role == fleet.RolePrefill {
			return contextRole
		}
	}
	return generationRole
}

// Run publishes the workers that register and aligns their clocks, until ctx ends. Call Watch first.
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
