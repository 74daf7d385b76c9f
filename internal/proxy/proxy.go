// Package proxy is door 1: HTTP. It reads a request once, asks the fleet where it goes, passes its bytes on, and relays
// the answer piece by piece. It decides nothing; it sees to it that each reservation is ended exactly once, that nothing is
// retried once the client has seen a byte, and that an engine stops computing for a client that left.
package proxy

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/catalog"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/handoff"
	"github.com/warmpath/warmpath/internal/proxy/patience"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/internal/proxy/who"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// Config bounds what the door accepts and how long it waits. Zero means the default named at each field.
type Config struct {
	BodyBytes     int64              // largest request body that is read into memory; default 64 MiB
	MemoryBytes   int64              // bytes of all request bodies that are held at a time; default 1 GiB, at least twice BodyBytes
	Retries       int                // further attempts after the first, before the client has seen a byte; default 2, negative none
	Pinning       bool               // obey X-Warmpath-Pin and X-Warmpath-Exclude
	NoUsage       bool               // leave streams alone whose client did not ask for usage: learn no cached tokens from them
	Belief        bool               // the policy wants to know what prompts consist of
	Shadow        bool               // policies that are asked and not obeyed do, or who records the traffic
	Token         *who.EndpointToken // lets clients bring back which endpoint served them; nil when off
	Names         *guard.Names       // host names under which clients come; nil when any may be
	Paths         *guard.Paths       // passed on beside the inference APIs
	Tenants       *who.Tenants       // whose request it is; nil when all are one tenant's
	ByContent     bool               // recognise conversations without an id by what they say
	SessionHeader string             // header that tells vLLM the conversation, which labels its KV events, where the client sent none; "" for none
	FirstTurn     bool               // tell TensorRT-LLM in the disaggregated_params that it is sent whether a turn is its conversation's first
	Explain       bool               // tell endpoint and reason in the headers of every answer, not only when asked to

	Connector     handover.Connector // how prefillers hand KV cache over; nil goes by their kind of engine
	TRTLLM        handover.TRTLLMOptions
	Numbers       *handoff.Numbers                               // for request ids of split requests; nil draws them alone
	Receiver      func(fleet.Endpoint) (handover.Receiver, bool) // where decoders take KV cache that is pushed to them; nil when that is not configured
	Notices       handoff.Notices                                // of prefillers that have pushed KV cache; nil does not wait for them
	Bidirectional time.Duration                                  // how long a decoder is thought to hold what it said that it holds of a conversation (handover.Returner); 0 is never
	NoFallback    bool                                           // a request whose prompt cannot be computed elsewhere is an error, and not computed by its decoder

	FirstByte time.Duration // longest wait for the first data of a stream; default 5 m
	Answer    time.Duration // longest wait for the first byte of an answer that is not streamed, which engines send when all is computed; default 30 m
	Idle      time.Duration // longest silence within an answer; default 2 m
	Refusing  time.Duration // longest silence while the endpoint refuses new connections, its process is gone or going; default 5 s
	ReadBody  time.Duration // longest time a client may take to send a body; default 60 s
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.BodyBytes == 0 {
		c.BodyBytes = 64 << 20
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = max(1<<30, 2*c.BodyBytes)
	}
	if c.Retries == 0 {
		c.Retries = 2
	}
	c.Retries = max(c.Retries, 0)
	if c.Numbers == nil {
		c.Numbers = handoff.NewNumbers(-1, 0)
	}
	set(&c.FirstByte, 5*time.Minute)
	set(&c.Answer, 30*time.Minute)
	set(&c.Idle, 2*time.Minute)
	set(&c.Refusing, 5*time.Second)
	set(&c.ReadBody, time.Minute)
	return c
}

// Proxy is the traffic listener's handler.
type Proxy struct {
	cfg       Config
	fleet     *live.Fleet
	transport http.RoundTripper
	tracer    *tracing.Tracer // nil when off
	log       *slog.Logger
	parser    *prompt.Parser
	memory    *prompt.Memory                        // of bodies read before; nil when nobody wants to know what prompts consist of
	unreached func(endpoint string)                 // told when an endpoint could not be connected to or broke off, so that it is probed at once
	decided   func(pool string, took time.Duration) // told how long each decision took; pool is "" when there was none

	flights registry
	bodies  *body.Budget
	catalog *catalog.Catalog
	sender  *send.Sender

	callers   maphash.Seed // see callerOf
	inquiries handoff.Inquiries
	returns   *handoff.Returns // nil unless decoders hand KV cache back
	draining  atomic.Bool
	aborted   context.Context // ends with Abort
	abort     context.CancelFunc
}

// Options are what a Proxy works with. Fleet, Transport, Log and Parser are required.
type Options struct {
	Config    Config
	Fleet     *live.Fleet
	Transport http.RoundTripper
	Tracer    *tracing.Tracer
	Log       *slog.Logger
	Parser    *prompt.Parser
	Unreached func(endpoint string)
	Decided   func(pool string, took time.Duration)
	// Placed hears that a chat or completion was passed on. ids says that its prompt is token ids, and body makes a copy of it; it may not be waited for.
	Placed func(d *route.Decision, ids bool, body func() []byte)
}

// New makes the door. Run must be called too: it enforces the time limits.
func New(o Options) *Proxy {
	p := &Proxy{
		cfg: o.Config.WithDefaults(), fleet: o.Fleet, transport: o.Transport, tracer: o.Tracer, log: o.Log, parser: o.Parser,
		unreached: o.Unreached, decided: o.Decided, callers: maphash.MakeSeed(),
	}
	p.bodies = body.NewBudget(p.cfg.MemoryBytes)
	p.sender = send.New(send.Config{
		NoUsage: p.cfg.NoUsage, FirstTurn: p.cfg.FirstTurn, SessionHeader: p.cfg.SessionHeader, Token: p.cfg.Token, Tenants: p.cfg.Tenants,
		Connector: p.cfg.Connector, TRTLLM: p.cfg.TRTLLM, Receiver: p.cfg.Receiver,
	}, o.Transport, p.bodies, o.Placed, o.Log)
	p.catalog = catalog.New(o.Fleet, o.Transport)
	p.returns = handoff.NewReturns(p.cfg.Bidirectional)
	if p.unreached == nil {
		p.unreached = func(string) {}
	}
	if p.decided == nil {
		p.decided = func(string, time.Duration) {}
	}
	if p.cfg.Belief || p.cfg.ByContent || p.cfg.Shadow {
		p.memory = prompt.NewMemory(prompt.DefaultMemory, rand.Uint64(), new(sync.Mutex))
	}
	p.flights.init()
	p.aborted, p.abort = context.WithCancel(context.Background())
	return p
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.selfMade(w, r) {
		return
	}
	c := newCall(p, w, r)
	p.flights.add(c)
	defer c.end()
	switch {
	case p.draining.Load():
		w.Header().Set("Connection", "close")
		c.refuse(fault.ErrDraining)
	case r.Method == http.MethodConnect:
		c.refuse(fault.ErrConnect)
	case !c.enters():
	case c.API == prompt.Other && isUpgrade(r):
		c.upgrade()
	case c.API == prompt.Other && p.list(c):
	default:
		c.serve()
	}
}

// selfMade answers the paths that are the router's own; it reports false for any other.
func (p *Proxy) selfMade(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
	default:
		return false
	}
	p.passOver(w, r)
	p.boundFlush(w, r)
	switch r.URL.Path {
	case "/healthz":
		writeText(w, http.StatusOK, "ok\n")
	case "/readyz":
		p.ready(w)
	default:
		writeText(w, http.StatusNotFound, "metrics are on the admin listener, see --admin\n")
	}
	return true
}

// ready answers 200 only while an endpoint can take a request.
func (p *Proxy) ready(w http.ResponseWriter) {
	ok, why := p.fleet.Ready()
	switch {
	case p.draining.Load():
		writeText(w, http.StatusServiceUnavailable, "shutting down\n")
	case !ok:
		writeText(w, http.StatusServiceUnavailable, why+"\n")
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

// Drain makes the door refuse new requests and report that it is not ready; what runs goes on.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Abort ends every open request, whatever it waits for: the drain deadline is over. It is final.
func (p *Proxy) Abort() {
	p.flights.each((*call).abort)
	p.abort()
}

// Open is the number of requests being served.
func (p *Proxy) Open() int { return p.flights.len() }

// Run enforces the time limits until ctx ends.
func (p *Proxy) Run(ctx context.Context) {
	tick := min(p.cfg.FirstByte, p.cfg.Answer, p.cfg.Idle, p.cfg.Refusing, p.cfg.ReadBody) / 8
	t := time.NewTicker(min(max(tick, 5*time.Millisecond), 250*time.Millisecond))
	defer t.Stop()
	gone := patience.NewGone()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if p.flights.len() == 0 {
			continue
		}
		now := time.Now()
		if now.Sub(looked) >= p.cfg.Refusing/8 {
			looked = now
			p.tellSigns(now)
			gone.Look(p.fleet)
		}
		p.flights.each(func(c *call) { c.check(now, gone) })
	}
}

// tellSigns tells the fleet when something last came of the streams under way, by endpoint. Of one whose client holds it up nobody knows what
// the engine has sent: the engine counts as alive, for Idle at most.
func (p *Proxy) tellSigns(now time.Time) {
	at := map[string]time.Time{}
	p.flights.each(func(c *call) {
		c.watch.Load().Sign(at, c.waitsForClient(now), now)
		c.aside.Load().Sign(at, false, now)
	})
	p.fleet.Observe(route.Signs{At: at})
}

// BodyMemory says how much memory request bodies take.
func (p *Proxy) BodyMemory() body.Memory { return p.bodies.Memory() }
