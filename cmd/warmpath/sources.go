package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/discovery/etcd"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/route"
)

// handOverWait is how long endpoints of the configuration before stay while sources of the new one have not spoken.
const handOverWait = 5 * time.Second

// source is a source of endpoints, which goes on over reloads that leave it as it is.
type source struct {
	discovery.Runner
	name    string // under which it declares
	running *task  // nil before it begins
	spoken  chan struct{}
}

// sourcesOf are the sources of a generation: of the one before those that are the same, under the same name.
func sourcesOf(runners []discovery.Runner, before *generation) (all []*source) {
	for i, name := range sourceNames(runners) {
		s := &source{Runner: runners[i], name: name, spoken: make(chan struct{})}
		if before != nil {
			same := func(o *source) bool { return o.name == name && s.Same(o.Runner) }
			if at := slices.IndexFunc(before.sources, same); at >= 0 {
				s = before.sources[at]
			}
		}
		all = append(all, s)
	}
	return all
}

// begin has a source declare what it finds, unless it does. Those of before that do not go on have ended.
func (s *source) begin(r *router, before *generation) {
	if s.running != nil {
		return
	}
	if heir, ok := s.Runner.(discovery.Successor); ok && before != nil {
		for _, o := range before.sources {
			if o.name == s.name {
				heir.Succeed(o.Runner)
			}
		}
	}
	first := sync.OnceFunc(func() { close(s.spoken) })
	publish := func(d route.Declared) {
		d.Source = s.name
		r.publish(d)
		first()
	}
	s.running = begin(r.running, func(ctx context.Context) {
		r.reading(ctx, panics.Discovery, func(ctx context.Context) { s.Run(ctx, publish) })
	})
}

// publishSources declares g's endpoints, and withdraws those of before that have no source any more once each source of
// g has spoken: an engine that moves from one source to another does not leave.
func (r *router) publishSources(g, before *generation) {
	withdraw := func() {}
	if before == nil {
		discovery.Static(staticSource, g.static, r.publish)
	} else {
		before.following.end()
		before.following.wait(0)
		before.endSources(g.sources)
		withdraw = func() {
			r.move(false)
			r.publish(route.Declared{Source: staticSource, Endpoints: g.static})
			for _, s := range before.sources {
				if !slices.ContainsFunc(g.sources, func(o *source) bool { return o.name == s.name }) {
					r.publish(route.Declared{Source: s.name})
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
	for _, s := range g.sources {
		s.begin(r, before)
	}
	g.following = begin(r.running, func(ctx context.Context) {
		if awaitAll(ctx, g.sources); r.running.Err() == nil {
			withdraw()
		}
	})
}

// endSources ends a generation's sources but for those that go on, and returns when they have ended.
func (g *generation) endSources(on []*source) {
	over := slices.DeleteFunc(slices.Clone(g.sources), func(s *source) bool { return slices.Contains(on, s) })
	for _, s := range over {
		s.running.end()
	}
	for _, s := range over {
		s.running.wait(0)
	}
}

// move notes that endpoints begin, or have ended, to move from one source to another.
func (r *router) move(on bool) {
	r.publishing.Lock()
	r.moving = on
	r.publishing.Unlock()
}

// awaitAll waits until all sources have spoken, for handOverWait at most.
func awaitAll(ctx context.Context, sources []*source) {
	limit := time.NewTimer(handOverWait)
	defer limit.Stop()
	for _, s := range sources {
		select {
		case <-s.spoken:
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
		d, err := discovery.NewDNS(c, discovery.System(), keys, log)
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
