package proxy

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/client"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/paths"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	paths.Unslash(r.URL, p.cfg.Paths, p.isOwn)
	if p.selfMade(w, r) {
		return
	}
	c := newCall(p, w, r)
	p.flights.add(&c.place, c)
	defer c.end()
	err := c.countHead()
	if err == nil {
		err = c.awaitStart()
	}
	switch {
	case p.draining.Load():
		w.Header().Set("Connection", "close")
		c.refuse(fault.ErrDraining)
	case err != nil:
		c.refuse(err)
	case r.Method == http.MethodConnect:
		c.refuse(fault.ErrConnect)
	case !c.enters():
	case c.root:
		c.answerRoot()
	case c.API == prompt.Other && isUpgrade(r):
		c.upgrade()
	case c.API == prompt.Other && (p.methods(c) || p.list(c) || p.deletes(c)):
	default:
		c.serve()
	}
}

const ownMethods = "GET, HEAD, OPTIONS" // of the router's own paths

// isOwn reports whether the router itself answers at a path.
func (p *Proxy) isOwn(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/metrics":
		return true
	case generating:
		return !p.cfg.Paths.Has(http.MethodGet, generating)
	}
	return false
}

// generating is the path at which SGLang shows its health by a generation, for anybody and charged to nobody: the
// router answers in its place, unless it is among the paths to pass on.
const generating = "/health_generate"

// selfMade answers the router's own paths; it returns false for any other.
func (p *Proxy) selfMade(w http.ResponseWriter, r *http.Request) bool {
	if !p.isOwn(r.URL.Path) {
		return false
	}
	client.PassOver(w, r, p.cfg.ReadBody)
	client.BoundFlush(w, r, Stall(p.cfg.Idle))
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch path := r.URL.Path; {
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", ownMethods)
		w.WriteHeader(http.StatusNoContent)
	case !reads:
		w.Header().Set("Allow", ownMethods)
		writeText(w, http.StatusMethodNotAllowed, path+" takes GET, not "+r.Method+"\n")
	case path == "/healthz":
		writeText(w, http.StatusOK, "ok\n")
	case path == "/readyz", path == generating:
		p.Ready(w, r)
	default:
		writeText(w, http.StatusNotFound, "metrics are on the admin listener, see --admin\n")
	}
	return true
}

// hasStarted reports whether the fleet is known well enough to decide.
func (p *Proxy) hasStarted() bool {
	select {
	case <-p.started:
		return true
	default:
		return false
	}
}

// awaitStart waits until then: what is not known yet cannot be told from what is not there.
func (c *call) awaitStart() error {
	if c.p.hasStarted() {
		return nil
	}
	ctx, release := c.patient()
	defer release()
	select {
	case <-c.p.started:
		return nil
	case <-ctx.Done():
	}
	if c.ctx.Err() != nil {
		return errLeft
	}
	return timeouts.ErrShutdown
}

// Ready answers 200 only while an endpoint can take a request, and tells insiders what is amiss.
func (p *Proxy) Ready(w http.ResponseWriter, r *http.Request) {
	ok, why := p.fleet.Ready()
	if !p.insider(r) {
		why = ""
	}
	switch {
	case p.draining.Load():
		writeText(w, http.StatusServiceUnavailable, "shutting down\n")
	case !p.hasStarted():
		writeText(w, http.StatusServiceUnavailable, cmp.Or(why, "starting")+"\n")
	case !ok:
		writeText(w, http.StatusServiceUnavailable, cmp.Or(why, "not ready")+"\n")
	case why != "":
		writeText(w, http.StatusOK, "ready, but "+why+"\n")
	default:
		writeText(w, http.StatusOK, "ready\n")
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// Drain makes the door refuse new requests and report that it is not ready. Open requests continue.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Abort ends every open request: the drain deadline has passed. It is final.
func (p *Proxy) Abort() {
	p.flights.each(inFlight.stopRetries) // first, since the end of one dispatches those queued behind it
	p.flights.each(inFlight.abort)
	p.abort()
}

// Open is the number of requests being served.
func (p *Proxy) Open() int { return p.flights.len() }

// Run enforces the time limits until ctx ends.
func (p *Proxy) Run(ctx context.Context) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.sender.TellClosed(ctx, p.closings)
	}()
	defer func() { <-closed }()
	tick := min(p.bounds.tick, p.cfg.ReadBody) / 8
	every := min(max(tick, 5*time.Millisecond), 250*time.Millisecond)
	t := time.NewTicker(every)
	defer t.Stop()
	gone := timeouts.NewUnreachable()
	var looked time.Time
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		since := now.Sub(last)
		if last = now; p.flights.len() == 0 {
			continue
		}
		if since > every+time.Second {
			p.flights.each(func(c inFlight) { c.skip(since) })
		}
		if now.Sub(looked) >= p.bounds.tick/8 {
			looked = now
			p.tellSigns(now)
			gone.Update(now, p.fleet)
		}
		// what is queued first: when what is under way at an engine ends, the next one is sent there
		p.flights.each(func(c inFlight) { c.check(now, gone, true) })
		p.flights.each(func(c inFlight) { c.check(now, gone, false) })
	}
}

// tellSigns reports to the fleet when each endpoint last sent data of a running stream. While a client holds up its
// stream, the router does not read from the engine: the engine counts as alive, for Idle at most.
func (p *Proxy) tellSigns(now time.Time) {
	var signs route.StreamsAlive
	p.flights.each(func(c inFlight) { c.signs(&signs, now) })
	p.fleet.Observe(signs)
}
