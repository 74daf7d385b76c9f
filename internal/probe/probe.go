package probe

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Prober probes a set of endpoints, one goroutine for each engine address: the ranks or slots of one engine share its
// answers.
type Prober struct {
	cfg     Config
	client  *http.Client
	observe func(route.Event)
	busy    func(endpoint, url string) bool
	log     *slog.Logger

	mu      sync.Mutex      // guards what follows, and cancel of each target
	ctx     context.Context // nil before Run
	ended   bool            // Run is over: nothing is started any more
	targets map[address]*target
	byName  map[string]*target

	wg sync.WaitGroup
}

// address is what endpoints must share to be probed together.
type address struct {
	url, key string
	kind     fleet.Kind
}

// New makes a Prober. client's timeout should be zero: each question has its own. observe is called from several
// goroutines at once. busy says whether an endpoint has requests at an address: an engine that sleeps when idle is
// asked about its load only then, since asking keeps it awake; nil asks at any time. New panics on a Config that does
// not pass Validate.
func New(
	cfg Config, client *http.Client, observe func(route.Event), busy func(endpoint, url string) bool, log *slog.Logger,
) *Prober {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Prober{
		cfg: cfg.WithDefaults(), client: client, observe: observe, busy: busy, log: log,
		targets: map[address]*target{}, byName: map[string]*target{},
	}
}

// Set replaces the endpoints that are probed. Engines that stay are probed on without a pause; those that went, or
// whose name another address has now, are asked for as long as they have requests: one may have gone because its node
// is lost, and what waits there for a first byte is to go elsewhere. One that is asked with another key now is asked
// once. It does not wait.
func (p *Prober) Set(endpoints []fleet.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	groups, urls := map[address][]fleet.Endpoint{}, map[string]string{}
	for _, e := range endpoints {
		a := address{e.URL, e.APIKey, e.Kind}
		groups[a], urls[e.Name] = append(groups[a], e), e.URL
	}
	for a, t := range p.targets {
		if _, ok := groups[a]; ok {
			continue
		}
		if t.cancel == nil {
			delete(p.targets, a)
			continue
		}
		t.left.Store(true)
		t.disown(urls)
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	clear(p.byName)
	spread := time.Duration(len(groups)) * 5 * time.Millisecond
	for a, group := range groups {
		t := p.targets[a]
		if t == nil {
			t = newTarget(p, a, min(spread, p.cfg.Interval))
			p.targets[a] = t
		}
		if t.left.Swap(false) {
			t.set(nil) // what comes back is told all anew
		}
		t.set(group)
		p.start(t)
		for _, e := range group {
			p.byName[e.Name] = t
		}
	}
}

// start runs a target's goroutine if the prober runs and the target does not yet. mu is held.
func (p *Prober) start(t *target) {
	if p.ctx == nil || p.ended || t.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	t.cancel = cancel
	p.wg.Go(func() {
		defer cancel()
		t.run(ctx)
	})
}

// Run probes until ctx ends, and returns when all goroutines have. It is called once.
func (p *Prober) Run(ctx context.Context) {
	p.mu.Lock()
	p.ctx = ctx
	for _, t := range p.targets {
		p.start(t)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.wg.Wait()
}

// forget ends the probing of an engine that has left, unless it has come back.
func (p *Prober) forget(t *target) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.left.Load() {
		return false
	}
	delete(p.targets, t.addr)
	return true
}

// Now asks an endpoint's engine whether it is alive without waiting for its turn, for instance after a failed request.
// It does not wait; calls in quick succession cause one question.
func (p *Prober) Now(name string) {
	p.mu.Lock()
	t := p.byName[name]
	p.mu.Unlock()
	if t == nil {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Relist asks an endpoint's engine for its models without waiting for their turn, or all engines for "": one that was
// believed to have a model does not, or no engine has the model that a client wants. An engine is asked for this at
// most once an Interval. Relist does not wait; told does, until those that are asked now have answered or ctx ends.
func (p *Prober) Relist(name string) (told func(ctx context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var asked []<-chan struct{}
	for _, t := range p.targets {
		if name != "" && t != p.byName[name] {
			continue
		}
		t.relist.Store(true) // before list: a round that closes its channel has seen this
		if now := t.list(); now != nil {
			asked = append(asked, now)
		}
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	return func(ctx context.Context) {
		for _, done := range asked {
			select {
			case <-done:
			case <-ctx.Done():
				return
			}
		}
	}
}

// list is closed when the engine has been asked for its models; nil if that was less than an Interval ago, or if it
// does not answer.
func (t *target) list() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listing == nil && t.answers && time.Since(t.listed) >= t.p.cfg.Interval {
		t.listing = make(chan struct{})
	}
	return t.listing
}

// takeListing is what is to be closed after the next round; nil for nothing.
func (t *target) takeListing() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.listing
	t.listing = nil
	return taken
}

// disown takes away the endpoints that another target has, at the same address. urls are the addresses of names.
func (t *target) disown(urls map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endpoints = slices.DeleteFunc(slices.Clone(t.endpoints), func(e fleet.Endpoint) bool {
		return urls[e.Name] == t.addr.url
	})
}

// set replaces the endpoints at the target's address. Those that are new are told all that is known.
func (t *target) set(group []fleet.Endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := slices.EqualFunc(t.endpoints, group, func(a, b fleet.Endpoint) bool {
		return a.Name == b.Name && a.Part == b.Part
	})
	first := t.endpoints == nil
	t.endpoints = group
	if same {
		return
	}
	t.changed = true
	if !first { // a new target's first turn comes by itself
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}
