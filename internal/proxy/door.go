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
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/catalog"
	"github.com/warmpath/warmpath/internal/proxy/handoff"
	"github.com/warmpath/warmpath/internal/proxy/quota"
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
	NetHTTP       bool               // net/http's client sends to engines in plain text too, and is given bodies that it can read; see TransportConfig
	NoUsage       bool               // leave streams alone whose client did not ask for usage: learn no cached tokens from them
	Belief        bool               // the policy wants to know what prompts consist of
	Shadow        bool               // policies that are asked and not obeyed do, or who records the traffic
	Token         *who.EndpointToken // lets clients bring back which endpoint served them; nil when off
	Names         *guard.Names       // host names under which clients come; nil when any may be
	Proxies       *forwarded.Proxies // whose word about their clients counts; nil when nobody's does
	Paths         *guard.Paths       // passed on beside the inference APIs
	Quota         *quota.Table       // how much they may ask; nil for no limits
	Tenants       *who.Tenants       // whose request it is; nil when all are one tenant's
	ByContent     bool               // recognise conversations without an id by what they say
	SessionHeader string             // header that tells vLLM the conversation, which labels its KV events, where the client sent none; "" for none
	FirstTurn     bool               // tell TensorRT-LLM in the disaggregated_params that it is sent whether a turn is its conversation's first
	Characters    bool               // count the characters of prompts, for who measures prompts by them
	Explain       bool               // tell endpoint and reason in the headers of every answer, not only when asked to

	Connector     handover.Connector // how prefillers hand KV cache over; nil goes by their kind of engine
	TRTLLM        handover.TRTLLMOptions
	Numbers       *handoff.Numbers                               // for request ids of split requests; nil draws them alone
	Receiver      func(fleet.Endpoint) (handover.Receiver, bool) // where decoders take KV cache that is pushed to them; nil when that is not configured
	Notices       handoff.Notices                                // of prefillers that have pushed KV cache; nil does not wait for them
	Bidirectional time.Duration                                  // how long a decoder is thought to hold what it said that it holds of a conversation (handover.Returner); 0 is never
	WrapErrors    bool                                           // errors of who decodes are told in one form, also those of requests that were not split (production-stack PR 890)
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
	inquiries *handoff.Inquiries
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
	// Before is the door that this one takes the place of, under another configuration; nil for the first one. What a door keeps from one
	// request to the next goes over; requests under way end where they are, so both are to run until then.
	Before  *Proxy
	Decided func(pool string, took time.Duration)
	// Placed hears that a chat or completion was passed on. ids says that its prompt is token ids, and body makes a copy of it; it may not be waited for.
	Placed func(d *route.Decision, ids bool, body func() []byte)
}

// New makes the door. Run must be called too: it enforces the time limits.
func New(o Options) *Proxy {
	p := &Proxy{
		cfg: o.Config.WithDefaults(), fleet: o.Fleet, transport: o.Transport, tracer: o.Tracer, log: o.Log, parser: o.Parser,
		decided: o.Decided, callers: maphash.MakeSeed(),
	}
	p.keep(o.Before)
	p.sender = send.New(send.Config{
		NetHTTP: p.cfg.NetHTTP, NoUsage: p.cfg.NoUsage, FirstTurn: p.cfg.FirstTurn, SessionHeader: p.cfg.SessionHeader, Token: p.cfg.Token, Tenants: p.cfg.Tenants,
		Connector: p.cfg.Connector, TRTLLM: p.cfg.TRTLLM, Receiver: p.cfg.Receiver,
	}, o.Transport, p.bodies, o.Placed, o.Log)
	p.catalog = catalog.New(o.Fleet, o.Transport)
	p.unreached = func(endpoint string) {
		p.sender.Gone(endpoint)
		if o.Unreached != nil {
			o.Unreached(endpoint)
		}
	}
	if p.decided == nil {
		p.decided = func(string, time.Duration) {}
	}
	if p.memory == nil && (p.cfg.Belief || p.cfg.ByContent || p.cfg.Shadow) {
		p.memory = prompt.NewMemory(prompt.DefaultMemory, rand.Uint64(), new(sync.Mutex))
	}
	p.flights.init()
	p.aborted, p.abort = context.WithCancel(context.Background())
	return p
}

// keep takes over what the door before has from one request to the next, or begins it.
func (p *Proxy) keep(before *Proxy) {
	if before == nil {
		p.bodies, p.inquiries = body.NewBudget(p.cfg.MemoryBytes), new(handoff.Inquiries)
		p.returns = handoff.NewReturns(p.cfg.Bidirectional)
		return
	}
	p.bodies, p.inquiries, p.callers, p.memory = before.bodies, before.inquiries, before.callers, before.memory
	p.bodies.SetLimit(p.cfg.MemoryBytes)
	if p.returns = before.returns; p.cfg.Bidirectional != before.cfg.Bidirectional {
		p.returns = handoff.NewReturns(p.cfg.Bidirectional)
	}
}

// BodyMemory says how much memory request bodies take.
func (p *Proxy) BodyMemory() body.Memory { return p.bodies.Memory() }
