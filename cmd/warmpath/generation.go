package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/discovery/etcd"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/probe"
	"github.com/warmpath/warmpath/internal/proxy"
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
	sources   []discovery.Runner
	following *task
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
	g.engineTLS = versions(cfg.EngineTLS.Files())
	toEngines, toHosts, err := cfg.EngineTLS.Load()
	if err != nil {
		return nil, err
	}
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
	if g.static, g.sources, err = openSources(cfg, g.client, r.log); err != nil {
		return nil, err
	}
	if connect && same(func(c *config.Config) any { return c.Probe }) {
		g.prober, g.probing = before.prober, before.probing
	} else {
		g.prober = probe.New(cfg.Probe, g.client, r.observe, r.hasRequests, r.log)
	}
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
	r.generation = g
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
		Placed:  g.events.Placed, Started: r.started,
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

// handOverWait is how long endpoints of the configuration before stay while sources of the new one have not spoken.
const handOverWait = 5 * time.Second

// publishSources declares g's endpoints, and withdraws those of before that have no source any more once each source of
// g has spoken: an engine that moves from one source to another does not leave.
func (r *router) publishSources(g, before *generation) {
	names := sourceNames(g.sources)
	withdraw := func() {}
	if before == nil {
		discovery.Static(staticSource, g.static, r.publish)
	} else {
		before.following.end()
		before.following.wait(0)
		withdraw = func() {
			r.move(false)
			r.publish(route.Declared{Source: staticSource, Endpoints: g.static})
			for _, name := range sourceNames(before.sources) {
				if !slices.Contains(names, name) {
					r.publish(route.Declared{Source: name})
				}
			}
		}
		if len(g.sources) > 0 {
			r.move(true)
			r.publish(route.Declared{Source: staticSource, Endpoints: withLeavers(g.static, before.static)})
		} else {
			withdraw()
			withdraw = func() {}
		}
	}
	g.following = begin(r.running, func(ctx context.Context) {
		var all []*task
		spoken := make(chan struct{}, len(g.sources))
		for i, s := range g.sources {
			first := sync.OnceFunc(func() { spoken <- struct{}{} })
			publish := func(d route.Declared) {
				d.Source = names[i]
				r.publish(d)
				first()
			}
			all = append(all, begin(ctx, func(ctx context.Context) {
				r.reading(ctx, panics.Discovery, func(ctx context.Context) { s.Run(ctx, publish) })
			}))
		}
		if awaitAll(ctx, spoken); r.running.Err() == nil {
			withdraw()
		}
		for _, t := range all {
			t.wait(0)
		}
	})
}

// move notes that endpoints begin, or have ended, to move from one source to another.
func (r *router) move(on bool) {
	r.publishing.Lock()
	r.moving = on
	r.publishing.Unlock()
}

// awaitAll waits until a channel has been filled, for handOverWait at most.
func awaitAll(ctx context.Context, filled <-chan struct{}) {
	limit := time.NewTimer(handOverWait)
	defer limit.Stop()
	for range cap(filled) {
		select {
		case <-filled:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// withLeavers are the endpoints of a configuration, and those of the one before that it does not have.
func withLeavers(now, before []fleet.Endpoint) []fleet.Endpoint {
	out := slices.Clone(now)
	for _, e := range before {
		if !slices.ContainsFunc(now, func(n fleet.Endpoint) bool { return n.Name == e.Name || n.URL == e.URL }) {
			out = append(out, e)
		}
	}
	return out
}

// staticSource is the name of the source of endpoints in the configuration itself.
const staticSource = "static"

// sourceNames are the names under which sources declare, each its own: two may look for the same in two ways, such as
// one DNS name for its addresses of either family.
func sourceNames(sources []discovery.Runner) []string {
	var names []string
	for _, s := range sources {
		name := s.Source()
		for n := 2; slices.Contains(names, name); n++ {
			name = s.Source() + "#" + strconv.Itoa(n)
		}
		names = append(names, name)
	}
	return names
}

// retired releases what only requests of a replaced generation still used.
func (r *router) retired(g *generation) {
	now := r.current()
	if now.transport != g.transport {
		g.transport.CloseIdleConnections()
	}
	if now.collector != g.collector {
		g.flush(r.log)
	}
}

// current is the running generation.
func (r *router) current() *generation {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	return r.generation
}

// openSources makes the sources of endpoints in the configuration: static endpoints, and discovery.
func openSources(
	cfg *config.Config, client *http.Client, log *slog.Logger,
) (static []fleet.Endpoint, sources []discovery.Runner, err error) {
	var keys discovery.Keys
	if static, err = discovery.Endpoints(cfg.Endpoints, keys); err != nil {
		return nil, nil, err
	}
	if cfg.Discovery.File != "" {
		f, err := discovery.NewFile(cfg.Discovery.File, keys, log)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, f)
	}
	for _, c := range cfg.Discovery.DNS {
		d, err := discovery.NewDNS(c, net.DefaultResolver, keys, log)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, d)
	}
	for i, c := range cfg.Discovery.Kubernetes {
		k, err := kubernetes(c, keys, log)
		if err != nil {
			return nil, nil, fmt.Errorf("discovery.kubernetes[%d]: %w", i, err)
		}
		sources = append(sources, k)
	}
	for i, c := range cfg.Discovery.HTTP {
		h, err := discovery.NewHTTP(c, client, keys, log)
		if err != nil {
			return nil, nil, fmt.Errorf("discovery.http[%d]: %w", i, err)
		}
		sources = append(sources, h)
	}
	for i, c := range cfg.Discovery.Etcd {
		s, err := etcd.New(c, keys, log)
		if err != nil {
			return nil, nil, fmt.Errorf("discovery.etcd[%d]: %w", i, err)
		}
		sources = append(sources, s)
	}
	return static, sources, nil
}
