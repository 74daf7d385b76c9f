package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/newconns"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/internal/saturation"
	"github.com/warmpath/warmpath/internal/shortage"
	"github.com/warmpath/warmpath/internal/state"
	"github.com/warmpath/warmpath/route"
)

// router is a running warmpath: all of its parts, wired together.
type router struct {
	url      string // of the traffic listener
	adminURL string // of the admin listener, "" when there is none
	build    build
	log      *slog.Logger

	fleet    *live.Fleet
	replicas *replicas     // nil without other routers
	keeper   *state.Keeper // nil without state.file
	saving   *task         // writes the state file; nil without state.file
	doors    doors
	meter    *metrics.Metrics
	tally    *admin.Tally
	streams  *admin.Streams
	full     saturation.Table
	limits   *quota.Table
	lmcache  *lmCache                          // nil with another connector
	proxies  atomic.Pointer[forwarded.Proxies] // trusted proxies
	token    atomic.Pointer[string]            // that callers of lessor need now, "" for none
	traffic  *http.Server
	admin    *http.Server
	workers  *http.Server // nil without a listener of their own for registering workers
	lessor   *lessor      // for programs that send requests themselves, nil without
	picker   *picker      // for Envoy, nil without
	held     net.Listener // the traffic listener, if another process also has it open
	peers    peers

	// held while a snapshot of endpoints goes to fleet and prober, so that both get the same order; guards generation,
	// used and moving
	publishing sync.Mutex
	*generation
	used    []*generation // those that may have requests, the running one last
	moving  bool          // endpoints may have left one source for another, and be declared by both: see publishSources
	reloads reloads

	started chan struct{}   // closed when the fleet is known, see waitReady
	running context.Context // ends all parts
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	failed  chan error // a listener that ended by itself
}

// startOn makes all parts of a router and runs them, on inherited sockets where there are some. Faults of the
// configuration or the listeners are a usageError.
func startOn(ctx context.Context, cfg *config.Config, b build, held sockets, log *slog.Logger) (*router, error) {
	r := &router{
		build: b, log: log, peers: peers{log: log}, failed: make(chan error, 4), started: make(chan struct{}),
		tally: admin.NewTally(), streams: admin.NewStreams(), limits: quota.New(time.Now(), quota.Config{}),
	}
	o, err := open(cfg, held, log)
	if err != nil {
		return nil, usageError(err)
	}
	if o.admins != nil {
		r.adminURL = urlOf(schemeOf(cfg.Admin.TLS), o.admins)
	}
	g, err := (*generation)(nil), r.join(cfg, o.replicas)
	if err == nil {
		g, err = r.newGeneration(ctx, cfg, nil)
	}
	if err != nil {
		o.close()
		return nil, usageError(err)
	}
	r.lmcache = o.lmcache
	r.meter = metrics.New(metrics.Config{Version: b.Version, Commit: b.Revision, Compatible: cfg.Metrics.Compatible})
	r.fleet = live.New(route.New(g.route), time.Now, r.listeners(g)...)
	r.meter.Watch(r.fleet)
	r.lmcache.watch(r.meter)
	r.running, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.doors.ctx = r.running
	r.wg.Go(func() { r.lmcache.run(r.running) })
	r.remember(cfg)
	r.take(g)
	r.wg.Go(func() { r.full.Run(r.running, r.fleet) })
	r.meter.WatchPools(r.full.Pools)
	r.meter.WatchCertificates(r.certificateEnds)
	r.meter.WatchBodies(r.doors.bodies)
	r.meter.WatchLimits(limitFigures(r.limits))
	r.replicas.serve(r)
	r.wg.Go(func() {
		defer close(r.started)
		r.waitReady(r.running, startWait)
	})
	r.reloads.began(r, cfg)
	r.held = held["traffic"]
	r.serveTraffic(cfg, o.traffic)
	r.serveWorkers(cfg, o.workers)
	r.servePicker(cfg, o.extproc)
	r.serveLeases(cfg, o.leases)
	r.wg.Go(func() {
		r.reading(r.running, panics.TRTServe, func(ctx context.Context) { g.trt.Run(ctx, r.publish) })
	})
	if o.admins != nil {
		r.serveAdmin(o.admins)
	}
	return r, nil
}

// observe passes an event to the fleet. Parts made before the fleet use it.
func (r *router) observe(ev route.Event) { r.fleet.Observe(ev) }

// hasRequests reports whether an endpoint has requests of this router at an address, see route.Router.HasRequests.
func (r *router) hasRequests(endpoint, url string) bool { return r.fleet.HasRequests(endpoint, url) }

// publish passes a snapshot of one source to the fleet, and the resulting endpoints to the prober.
func (r *router) publish(d route.Declared) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	r.fleet.Observe(d)
	type place struct {
		url  string
		part fleet.Part
	}
	var all []fleet.Endpoint
	seen := map[place]string{}
	for _, s := range r.fleet.Status() {
		if s.Gone {
			continue
		}
		all = append(all, s.Endpoint)
		at := place{s.Endpoint.URL, s.Endpoint.Part}
		if first, twice := seen[at]; twice && !r.moving {
			r.log.Warn("two endpoints are the same engine, which gets two shares of the traffic",
				"endpoint", s.Endpoint.Name, "also", first, "url", at.url)
		}
		seen[at] = s.Endpoint.Name
	}
	r.peers.check(all)
	// before the first probe reports where a new endpoint publishes: reports on unknown endpoints are dropped
	r.events.Set(all)
	r.prober.Set(all)
}

// handler is the handler of the traffic listener.
func (r *router) handler() http.Handler {
	if r.trt == nil {
		return &r.doors
	}
	r.trt.Watch(r.fleet, &r.doors)
	return r.trt
}

// tlsConfig uses the current configuration's files for each handshake.
func (r *router) tlsConfig(of func(*generation) *tls.Config) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return of(r.current()), nil
	}}
	if now := of(r.current()); now != nil {
		c.Certificates = now.Certificates // ServeTLS wants one
	}
	return c
}

// certificateEnds is when each certificate that the router shows ends, by the setting that names its file.
func (r *router) certificateEnds() map[string]time.Time {
	ends := map[string]time.Time{}
	for _, c := range r.current().certificates {
		ends[c.Setting] = c.NotAfter
	}
	return ends
}

// source is the client's address of a request, as far as trusted proxies report it.
func (r *router) source(of *http.Request) netip.Addr {
	o := r.proxies.Load().Of(of)
	return o.Addr()
}

// clientsOn returns l with connections of clients as configured.
func clientsOn(l net.Listener, cfg *config.Config) net.Listener {
	stall := proxy.Stall(cfg.Timeouts.Idle)
	if cfg.LeanListener() {
		return h1.LeanListener(l, stall)
	}
	return h1.BoundListener(l, stall)
}

func (r *router) serveTraffic(cfg *config.Config, l net.Listener) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	r.traffic = r.server(cfg, r.handler())
	r.traffic.Protocols = protocols
	r.traffic.TLSConfig = r.tlsConfig(func(g *generation) *tls.Config { return g.trafficTLS })
	newconns.Watch(r.traffic)
	newconns.Bound(r.traffic, (&connections{limits: r.limits, trusted: r.proxies.Load, log: r.log}).connect)
	l = clientsOn(l, cfg)
	if cfg.ProxyProtocol {
		l = forwarded.Listener(l, r.proxies.Load, cfg.Timeouts.ReadHeader, r.log)
	}
	l = shortage.Listener(shortage.Traffic(l), "traffic", r.log)
	r.url = urlOf(schemeOf(cfg.TLS), l)
	r.serveHTTP("traffic", r.traffic, l, cfg.TLS)
}

// server is what the listeners for HTTP have in common. A call as a whole has no time limit: it would cut long
// generations.
func (r *router) server(cfg *config.Config, h http.Handler) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: cfg.Timeouts.ReadHeader, IdleTimeout: cfg.Timeouts.KeepAlive,
		MaxHeaderBytes: int(cfg.Limits.Header), ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	newconns.CloseAmbiguous(s)
	return s
}

// sideServer is a server for short calls with small heads.
func (r *router) sideServer(cfg *config.Config, h http.Handler) *http.Server {
	s := r.server(cfg, limited(h, cfg.Timeouts.Idle))
	s.ReadTimeout, s.MaxHeaderBytes = cfg.Timeouts.ReadHeader+cfg.Timeouts.ReadBody, sideHead
	return s
}

// serveHTTP serves on l, with TLS if there is a certificate.
func (r *router) serveHTTP(name string, s *http.Server, l net.Listener, files config.TLS) {
	serve := s.Serve
	if files.Cert != "" {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	} else {
		l = newconns.Plain(l, name, r.log)
	}
	r.serve(name, func() error { return serve(l) })
}

func schemeOf(files config.TLS) string {
	if files.Cert != "" {
		return "https"
	}
	return "http"
}

// serveWorkers serves the registration of workers on a listener of its own, if configured, with TLS if the URI is
// https.
func (r *router) serveWorkers(cfg *config.Config, l net.Listener) {
	if l == nil {
		return
	}
	r.workers = r.sideServer(cfg, r.trt.Registry())
	r.workers.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	l = shortage.Few(shortage.Listener(l, "workers", r.log))
	serve := func() error { return r.workers.Serve(l) }
	if cfg.TLS.Cert != "" && strings.HasPrefix(cfg.TRTLLM.Cluster.URI, "https://") {
		serve = func() error { return r.workers.ServeTLS(l, cfg.TLS.Cert, cfg.TLS.Key) }
	}
	r.log.Info("workers register here", "address", l.Addr().String())
	r.serve("workers", serve)
}

const (
	sideHead     = 16 << 10         // the largest head of a request to a listener beside the traffic's
	longestWatch = 10 * time.Minute // for a profile to be made and read
)

// limited bounds how long a caller may take to read its answer. Event streams set their own limits, and go on while
// their caller sends nothing; profiles take as long as they are told to.
func limited(next http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, most := http.NewResponseController(w), limit
		switch {
		case r.URL.Path == "/admin/stream" && r.ContentLength == 0:
			_ = c.SetReadDeadline(time.Time{})
		case strings.HasPrefix(r.URL.Path, "/debug/pprof/") && r.ContentLength == 0:
			_ = c.SetReadDeadline(time.Time{})
			most = longestWatch
		}
		_ = c.SetWriteDeadline(time.Now().Add(most))
		next.ServeHTTP(w, r)
	})
}

// reading runs what reads from others until it returns, and after a panic begins it anew.
func (r *router) reading(ctx context.Context, who panics.Reader, run func(context.Context)) {
	panics.Keep(ctx, r.log, who, time.Second, func() {
		one, cancel := context.WithCancel(ctx)
		defer cancel() // also what it has started
		run(one)
	})
}

// serve runs a server; if it ends by itself, the router has failed.
func (r *router) serve(name string, run func() error) {
	r.wg.Go(func() {
		if err := run(); !errors.Is(err, http.ErrServerClosed) && !r.doors.leaving.Load() {
			r.failed <- fmt.Errorf("the %s listener failed: %w", name, err)
		}
	})
}

func (r *router) taken(name string) bool {
	for _, s := range r.fleet.Status() {
		if s.Endpoint.Name == name && !s.Gone {
			return true
		}
	}
	return false
}

// startWait bounds how long requests wait for a router that starts. An engine that answers no probe counts as down
// before, after probe.timeout.
const startWait = 5 * time.Second

// waitReady waits until the fleet is known, for at most the given time: each source of endpoints has named some, each
// endpoint was probed, and other routers have told what they know.
func (r *router) waitReady(ctx context.Context, atMost time.Duration) {
	deadline := time.Now().Add(atMost)
	for time.Now().Before(deadline) && ctx.Err() == nil && !r.known() {
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *router) known() bool {
	all := r.fleet.Status()
	if slices.ContainsFunc(all, func(s route.EndpointStatus) bool { return s.State == fleet.StateUnknown }) {
		return false
	}
	return (len(all) > 0 || len(r.current().sources) == 0) && !r.replicas.learns()
}

// lingers is the shortest time for which a router that leaves its socket to the next one serves open connections.
const lingers = time.Second

// stop drains: it takes no new requests, and cuts open ones when ctx ends.
func (r *router) stop(ctx context.Context) error {
	var until time.Time
	r.picker.drain()
	r.lessor.drain()
	if r.held == nil {
		r.doors.Drain()
	} else { // the next router accepts new connections; this one serves open ones and asks clients to close them
		r.doors.leaving.Store(true)
		_ = r.held.Close()
		until = time.Now().Add(lingers)
	}
	// The port stays open while requests run, so that load balancers see /readyz fail, and new requests get an answer.
	var err error
	for (r.doors.Open() > 0 || time.Now().Before(until)) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if open := r.doors.Open(); open > 0 && ctx.Err() != nil {
		err = fmt.Errorf("the drain deadline has passed, %d requests were cut", open)
		r.doors.Abort()
	}
	if r.traffic.Shutdown(ctx) != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		_ = r.traffic.Shutdown(grace)
		cancel()
		_ = r.traffic.Close()
	}
	for _, s := range []*http.Server{r.admin, r.workers} {
		if s != nil {
			_ = s.Close()
		}
	}
	r.picker.close()
	r.lessor.close()
	begin(ctx, func(context.Context) { r.reloads.end() }).wait(stateWait) // it would begin parts anew
	r.cancel()
	r.wg.Wait()
	r.doors.wg.Wait()
	g := r.current()
	g.probing.wait(0)
	g.following.wait(0)
	g.endSources(nil)
	g.watchers.wait()
	r.saving.wait(stateWait)
	r.lmcache.close()
	g.transport.CloseIdleConnections()
	g.flush(r.log)
	return err
}
