package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/newconns"
	"github.com/warmpath/warmpath/internal/probe"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// router is a running warmpath: all of its parts, tied together.
type router struct {
	url      string // of the traffic listener
	adminURL string // of the admin listener, "" when there is none

	fleet     *live.Fleet
	proxy     *proxy.Proxy
	transport *proxy.Transport
	prober    *probe.Prober
	lmcache   *lmCache // nil with another connector
	traffic   *http.Server
	admin     *http.Server
	workers   *http.Server // nil unless workers register at a listener of their own
	log       *slog.Logger
	meter     *metrics.Metrics
	watchers
	peers peers

	publishing sync.Mutex // held while a snapshot of endpoints goes to fleet and prober, so that both see one order
	cancel     context.CancelFunc
	wg         sync.WaitGroup
	failed     chan error // a listener that ended by itself
}

// start makes all parts of a router and runs them. What is wrong with the configuration or the listeners is a usageError.
func start(ctx context.Context, cfg *config.Config, b build, log *slog.Logger) (*router, error) {
	newPolicy, err := policy.New(cfg.Policy)
	if err != nil {
		return nil, usageError(err)
	}
	parser, err := cfg.Identity.Parser()
	if err != nil {
		return nil, usageError(err)
	}
	tenants, err := tenantsOf(cfg)
	if err != nil {
		return nil, usageError(err)
	}
	why, err := newWhy(cfg, log)
	if err != nil {
		return nil, usageError(err)
	}
	disaggregation, connector, err := newDisaggregation(cfg)
	if err != nil {
		return nil, usageError(err)
	}
	r := &router{log: log, peers: peers{log: log}, failed: make(chan error, 3), transport: proxy.NewTransport(cfg.Timeouts.Connect)}
	o, err := open(cfg, log)
	if err != nil {
		return nil, usageError(err)
	}
	client := &http.Client{Transport: r.transport}
	r.watchers, err = newWatchers(ctx, cfg, b, client, func(ev route.Event) { r.fleet.Observe(ev) }, log)
	if err != nil {
		o.close()
		return nil, usageError(err)
	}
	r.why = why
	r.lmcache = o.lmcache
	meter := metrics.New(metrics.Config{Version: b.Version, Commit: b.Revision, Compatible: cfg.Metrics.Compatible})
	r.meter = meter
	tally := admin.NewTally()
	r.fleet = live.New(route.New(bounded(cfg, route.Config{
		Policy: newPolicy, PolicyName: cfg.Policy.WithDefaults().Name, Aliases: cfg.AliasList(), Sessions: cfg.Sessions, Explain: why.on(),
		Silent: cfg.Health.SilentFor(), EjectAfter: cfg.Health.EjectAfter, EjectFor: cfg.Health.EjectFor, EjectMax: cfg.Health.EjectMax,
		BusyFor: cfg.Health.BusyFor, BusyMax: cfg.Health.BusyMax, Ramp: cfg.Health.Ramp,
		Counting: r.shadows.on() && r.shadows.CountsBlocks(), Awaiting: r.shadows.on(), Disaggregation: disaggregation, Queue: cfg.Queue.Of(cfg.Policy),
	})), time.Now, meter.Listener(), tally.Listener(), why.listener(), r.shadows.listener(), r.recording.listener(), r.events.Listener(), r.trt.Listener(), live.Logger(log, cfg.Log.Requests))
	meter.Watch(r.fleet)
	meter.WatchKVEvents(eventFigures{r.events})
	r.lmcache.watch(meter)
	r.prober = probe.New(cfg.Probe, client, r.fleet.Observe, log)
	r.proxy = proxy.New(proxy.Options{
		Config: r.lmcache.extend(proxyConfig(cfg, tenants, connector)), Fleet: r.fleet, Transport: r.transport, Tracer: r.tracer, Log: log, Parser: parser,
		Unreached: r.prober.Now, Decided: func(pool string, took time.Duration) { meter.ObserveDecision(pool, took); r.trt.Decided(took) }, Placed: r.events.Placed,
	})

	meter.WatchBodies(r.bodies)

	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	r.wg.Go(func() { r.prober.Run(running) })
	r.wg.Go(func() { r.proxy.Run(running) })
	r.wg.Go(func() { r.events.Run(running) })
	r.wg.Go(func() { r.lmcache.run(running) })
	r.watch(running, meter, &r.wg, log)
	discovery.Static("static", o.static, r.publish)
	for _, s := range o.sources {
		r.wg.Go(func() { s.Run(running, r.publish) })
	}
	r.serveTraffic(cfg, o.traffic)
	r.serveWorkers(cfg, o.workers)
	r.wg.Go(func() { r.trt.Run(running, r.publish) })
	if o.admins != nil {
		r.serveAdmin(cfg, o.admins, b, meter.Handler(), tally)
	}
	return r, nil
}

// publish hands a snapshot of one source to the fleet, and what the fleet then holds to the prober.
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
		if first, twice := seen[at]; twice {
			r.log.Warn("two endpoints are the same engine and share its traffic twice", "endpoint", s.Endpoint.Name, "also", first, "url", at.url)
		}
		seen[at] = s.Endpoint.Name
	}
	r.peers.check(all)
	r.events.Set(all) // before the first probe can say where a new endpoint publishes: what is said of one that is not there is forgotten
	r.prober.Set(all)
}

// handler is who answers on the traffic listener.
func (r *router) handler() http.Handler {
	if r.trt == nil {
		return r.proxy
	}
	r.trt.Watch(r.fleet, r.proxy)
	return r.trt
}

func (r *router) serveTraffic(cfg *config.Config, l net.Listener) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	r.traffic = &http.Server{
		Handler: r.handler(), Protocols: protocols, MaxHeaderBytes: int(cfg.Limits.Header),
		ReadHeaderTimeout: cfg.Timeouts.ReadHeader, IdleTimeout: cfg.Timeouts.KeepAlive, // no write time-out: it would cut long generations
		ErrorLog:  slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ConnContext: h1.ConnContext,
	}
	newconns.Watch(r.traffic)
	scheme := "http"
	l = h1.Listener(l, cfg.Timeouts.Idle)
	serve := func() error { return r.traffic.Serve(l) }
	if cfg.TLS.Cert != "" {
		scheme = "https"
		serve = func() error { return r.traffic.ServeTLS(l, cfg.TLS.Cert, cfg.TLS.Key) }
	}
	r.url = scheme + "://" + l.Addr().String()
	r.serve("traffic", serve)
}

// serveWorkers serves the storage at which workers register on a listener of its own, if it has one, with TLS where they are told https.
func (r *router) serveWorkers(cfg *config.Config, l net.Listener) {
	if l == nil {
		return
	}
	r.workers = &http.Server{
		Handler: r.trt.Registry(), ReadHeaderTimeout: cfg.Timeouts.ReadHeader, ReadTimeout: cfg.Timeouts.ReadHeader + cfg.Timeouts.ReadBody,
		IdleTimeout: cfg.Timeouts.KeepAlive, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	serve := func() error { return r.workers.Serve(l) }
	if cfg.TLS.Cert != "" && strings.HasPrefix(cfg.TRTLLM.Cluster.URI, "https://") {
		serve = func() error { return r.workers.ServeTLS(l, cfg.TLS.Cert, cfg.TLS.Key) }
	}
	r.log.Info("workers register here", "address", l.Addr().String())
	r.serve("workers", serve)
}

func (r *router) serveAdmin(cfg *config.Config, l net.Listener, b build, metrics http.Handler, tally *admin.Tally) {
	declared := discovery.NewAdmin("admin", r.publish, r.taken)
	handler := admin.New(admin.Config{
		Fleet: r.fleet, Version: b.Version, Token: cfg.Admin.Token, Endpoints: declared, Source: "admin", Parse: parseDeclaration,
		Duplicate: discovery.ErrDuplicate, NotDeclared: discovery.ErrNotDeclared,
		Metrics: metrics, Settings: func() any { return cfg.Settings() }, Tally: tally, Log: r.log, Decisions: r.why.handler(), Shadow: r.shadows.handler(),
	})
	r.admin = &http.Server{
		Handler: handler, ReadHeaderTimeout: cfg.Timeouts.ReadHeader, IdleTimeout: cfg.Timeouts.KeepAlive,
		ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	r.adminURL = "http://" + l.Addr().String()
	r.serve("admin", func() error { return r.admin.Serve(l) })
}

// serve runs a server; should it end by itself, the router as a whole has failed.
func (r *router) serve(name string, run func() error) {
	r.wg.Go(func() {
		if err := run(); !errors.Is(err, http.ErrServerClosed) {
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

// parseDeclaration expands what the admin API was sent. Keys kept elsewhere are not read for a caller from the network.
func parseDeclaration(d admin.Declaration) ([]fleet.Endpoint, error) {
	return discovery.Endpoints([]discovery.EndpointConfig{{
		URL: d.URL, Name: d.Name, Kind: d.Kind, Role: d.Role, Weight: d.Weight, Models: d.Models, Ranks: d.Ranks, Slots: d.Slots,
	}}, discovery.None())
}

// waitReady waits until no endpoint is unknown any more, at most for the given time.
func (r *router) waitReady(ctx context.Context, atMost time.Duration) {
	deadline := time.Now().Add(atMost)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		unknown := false
		for _, s := range r.fleet.Status() {
			unknown = unknown || s.State == fleet.StateUnknown
		}
		if !unknown {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// stop drains: no new requests, what runs goes on until ctx ends, then it is cut.
func (r *router) stop(ctx context.Context) error {
	r.proxy.Drain()
	// The port stays open while requests run, so that load balancers see /readyz fail and new requests are refused with an answer.
	var err error
	for r.proxy.Open() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if open := r.proxy.Open(); open > 0 && ctx.Err() != nil {
		err = fmt.Errorf("the drain deadline is over, %d requests were cut", open)
		r.proxy.Abort()
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
	r.cancel()
	r.wg.Wait()
	r.lmcache.close()
	r.why.wait()
	r.recording.wait()
	r.transport.CloseIdleConnections()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return errors.Join(err, r.untrace(flush))
}
