package main

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"reflect"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/kvevents"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/probe"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// generation is everything made from one configuration, except the listeners. A reload makes another one, which takes
// over parts with the same settings.
type generation struct {
	cfg      *config.Config
	route    route.Config
	policies bool // they differ from the previous generation's
	door     proxy.Config
	parser   *prompt.Parser

	trafficTLS, adminTLS *tls.Config // of the listeners, nil without TLS
	leaseToken           string      // of the listener for leases, "" for none
	certificates         []config.Certificate
	engineTLS            map[string]version // the files of engine_tls, as they were read

	transport *proxy.Transport
	client    *http.Client
	prober    *probe.Prober
	probing   *task
	watchers
	static    []fleet.Endpoint
	sources   []*source
	following *task // waits until the sources have spoken
}

// task is a goroutine that runs until it is ended.
type task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// begin runs f until ctx or the task ends.
func begin(ctx context.Context, f func(context.Context)) *task {
	ctx, cancel := context.WithCancel(ctx)
	t := &task{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		f(ctx)
	}()
	return t
}

// end asks the task to end; a nil task has ended.
func (t *task) end() {
	if t != nil {
		t.cancel()
	}
}

// wait waits until it has ended, for at most the given time, so that a hanging disk does not keep the router from
// ending. 0 is no limit.
func (t *task) wait(atMost time.Duration) {
	if t == nil {
		return
	}
	if atMost == 0 {
		<-t.done
		return
	}
	select {
	case <-t.done:
	case <-time.After(atMost):
	}
}

// newGeneration makes the parts of cfg, or none if one fails, and starts nothing. before is the running generation, nil
// at the start.
func (r *router) newGeneration(ctx context.Context, cfg *config.Config, before *generation) (g *generation, err error) {
	g = &generation{cfg: cfg, policies: true}
	same := func(settings func(*config.Config) any) bool {
		return before != nil && reflect.DeepEqual(settings(cfg), settings(before.cfg))
	}
	newPolicy, err := policy.New(cfg.Policy)
	if err != nil {
		return nil, err
	}
	if g.parser, err = cfg.Identity.Parser(); err != nil {
		return nil, err
	}
	if g.trafficTLS, err = cfg.TLS.Load("tls"); err != nil {
		return nil, err
	}
	if g.adminTLS, err = cfg.Admin.TLS.Load("admin.tls"); err != nil {
		return nil, err
	}
	if cfg.Lease.On() {
		if g.leaseToken, err = cfg.Lease.Secret(); err != nil {
			return nil, err
		}
	}
	g.certificates = cfg.Certificates()
	var keys *identity.Tenants
	if before != nil {
		keys = before.door.Tenants
	}
	tenants, err := tenantsOf(cfg, keys)
	if err != nil {
		return nil, err
	}
	disaggregation, connector, err := newDisaggregation(cfg)
	if err != nil {
		return nil, err
	}
	models, err := modelRules(cfg)
	if err != nil {
		return nil, err
	}
	g.door = proxyConfig(cfg, tenants, r.limits, connector)
	g.door.StatusPage = r.adminURL
	g.policies = !same(func(c *config.Config) any { return append(placings(c), c.Policy, c.Disaggregation) })
	if err = g.toEngines(r, before, same); err != nil {
		return nil, err
	}
	static, runners, err := openSources(cfg, g.client, r.log)
	if err != nil {
		return nil, err
	}
	g.static, g.sources = static, sourcesOf(runners, before)
	if err = g.watchers.make(ctx, r, g, before, same); err != nil {
		return nil, err
	}
	g.route = bounded(cfg, route.Config{
		Policy: newPolicy, Models: models, Aliases: cfg.AliasList(), Sessions: cfg.Sessions, Explain: g.why.on(),
		Silent: cfg.Health.SilentFor(), EjectAfter: cfg.Health.EjectAfter, EjectFor: cfg.Health.EjectFor,
		EjectMax: cfg.Health.EjectMax, BusyFor: cfg.Health.BusyFor, BusyMax: cfg.Health.BusyMax, Ramp: cfg.Health.Ramp,
		Needs: g.shadows.needs(), Disaggregation: disaggregation, Queue: queueOf(cfg), Admission: admits(cfg),
		Replicas: cfg.Peers.On(), Shortlist: g.shadows.most(),
	})
	return g, g.route.Validate()
}

// toEngines makes what connects to engines, or takes it over from the previous generation.
func (g *generation) toEngines(r *router, before *generation, same func(func(*config.Config) any) bool) error {
	cfg := g.cfg
	g.engineTLS = versions(cfg.EngineTLS.Files())
	toEngines, toHosts, err := cfg.EngineTLS.Load()
	if err != nil {
		return err
	}
	connect := same(func(c *config.Config) any { return []any{c.Timeouts.Connect, c.EngineTLS} }) &&
		maps.Equal(g.engineTLS, before.engineTLS)
	if connect {
		g.transport = before.transport
	} else {
		g.transport = proxy.NewTransport(proxy.TransportConfig{
			Connect: cfg.Timeouts.Connect, NetHTTP: cfg.NetHTTP(), TLS: toEngines, Hosts: toHosts, Log: r.log,
		})
	}
	g.client = httpclient.New(g.transport)
	if connect && same(func(c *config.Config) any { return c.Probe }) {
		g.prober, g.probing = before.prober, before.probing
	} else {
		g.prober = probe.New(cfg.Probe, g.client, r.observe, r.hasRequests, r.log)
	}
	return nil
}

// listeners are all listeners to the fleet's events.
func (r *router) listeners(g *generation) []live.Listener {
	return []live.Listener{
		r.meter.Listener(), r.tally.Listener(), g.why.listener(), g.shadows.listener(), g.recording.listener(),
		g.access.listener(), g.events.Listener(),
		g.trt.Listener(), r.replicas.listener(), live.Logger(r.log, g.cfg.Log.Requests),
	}
}

// take makes a generation the running one. It cannot fail.
func (r *router) take(g *generation) {
	before := r.generation
	if before != nil {
		r.fleet.Observe(route.Configured{Config: g.route, Policies: g.policies})
		r.fleet.SetListeners(r.listeners(g)...)
		r.replicas.configured(g.cfg)
		r.meter.SetCompatible(g.cfg.Metrics.Compatible)
	}
	r.publishing.Lock()
	r.generation, r.used = g, append(r.used, g)
	r.publishing.Unlock()
	r.proxies.Store(g.door.Proxies)
	r.token.Store(&g.leaseToken)
	if g.probing == nil {
		g.probing = begin(r.running, g.prober.Run)
	}
	g.watch(r.running, r)
	r.limits.Set(time.Now(), quotaConfig(g.cfg))
	r.doors.open(proxy.New(proxy.Options{
		Config: r.lmcache.extend(g.door), Fleet: r.fleet, Transport: g.transport, Tracer: g.tracer, Log: r.log,
		Parser: g.parser, Before: r.doors.current(), Unreached: g.prober.Now, Relist: g.prober.Relist,
		Decided: func(pool string, took time.Duration) { r.meter.ObserveDecision(pool, took); g.trt.Decided(took) },
		Placed: func(d *route.Decision, ids bool, keep func(most int) *body.Kept) {
			g.events.Placed(d, ids, func(most int) kvevents.Body {
				if kept := keep(most); kept != nil {
					return kept
				}
				return nil
			})
		},
		Started: r.started,
	}), func() { r.retired(g) })
	r.publishSources(g, before)
	if before == nil {
		return
	}
	if before.prober != g.prober {
		before.probing.end()
	}
	before.watchers.end(&g.watchers)
}

// retired releases what only requests of a replaced generation still used.
func (r *router) retired(g *generation) {
	r.publishing.Lock()
	var rest []*generation
	transport, collector := false, false
	for _, o := range r.used { // with slices.DeleteFunc the linker keeps half a megabyte of OpenTelemetry's metrics
		if o != g {
			rest = append(rest, o)
			transport, collector = transport || o.transport == g.transport, collector || o.collector == g.collector
		}
	}
	r.used = rest
	r.publishing.Unlock()
	if !transport {
		g.transport.CloseIdleConnections()
	}
	if !collector {
		g.flush(r.log)
	}
}

// current is the running generation.
func (r *router) current() *generation {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	return r.generation
}
