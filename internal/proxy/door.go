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
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/internal/proxy/transfers"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// Config bounds what the door accepts and how long it waits. Zero means the default named at each field.
type Config struct {
	BodyBytes int64 // largest request body; default 64 MiB
	// names and values of the fields of a request's head, and its target, in bytes; default 64 KiB
	HeaderBytes int64
	// all heads, bodies and replies of prefillers in memory at one time, in bytes; default 1 GiB, at least twice
	// BodyBytes
	MemoryBytes int64
	// further attempts after the first, before the client has seen a byte; default 2, negative none
	Retries    int
	Transfers  bool   // clients may send members and headers by which engines take part in KV transfers
	Details    bool   // all clients may learn endpoints and causes, not only operators, see insider
	AdminToken string // in X-Warmpath-Explain it marks an operator's request; "" for none
	StatusPage string // URL of the status page, for operators; "" without an admin listener
	Pinning    bool   // obey X-Warmpath-Pin and X-Warmpath-Exclude
	NetHTTP    bool   // use net/http's client for engines in plain text too; see TransportConfig
	// do not ask engines for usage in streams whose client did not: no cached tokens are learnt from them
	NoUsage bool
	// take what Claude Code says in front of its prompt out of it, see prompt.Prompt.DropAttribution
	DropAttribution bool
	NeedsContent    bool                    // the policy needs the content of prompts
	Shadow          bool                    // shadow policies or the recorder need it
	Token           *identity.EndpointToken // endpoint tokens for clients; nil when off
	Names           *guard.Names            // host names that clients may use; nil for any
	Proxies         *forwarded.Proxies      // trusted proxies, whose statements about their clients count; nil for none
	Paths           *guard.Paths            // paths passed on besides the inference APIs
	// of web pages that may read answers where engines allow it; nil leaves it to engines
	Origins   []string
	Quota     *quota.Table      // limits of tenants and clients; nil for none
	Tenants   *identity.Tenants // how requests name their tenant; nil when all belong to one
	ByContent bool              // recognise conversations without an id by their content
	// header that tells vLLM the conversation, which labels its KV events, unless the client sent one; "" for none
	SessionHeader string
	// tell TensorRT-LLM in disaggregated_params whether a turn is its conversation's first
	FirstTurn  bool
	Characters bool // count the characters of prompts, for rules that measure prompts by them
	Explain    bool // report endpoint and reason in the headers of every answer, not only on request

	Connector handover.Connector // how prefillers hand KV cache over; nil follows their kind of engine
	TRTLLM    handover.TRTLLMOptions
	// numbers for request ids of split requests; nil makes a source of its own
	Numbers *transfers.Numbers
	// where decoders receive pushed KV cache; nil when not configured
	Receiver func(fleet.Endpoint) (handover.Receiver, bool)
	Notices  transfers.Notices // notifications of pushed KV cache; nil waits for none
	// how long a decoder is assumed to hold the KV cache that it reported for a conversation (handover.Returner); 0 is
	// never
	Bidirectional time.Duration
	// report decoders' errors in one form, also for requests that were not split (production-stack PR 890)
	WrapErrors bool
	// a request whose prompt no prefiller can compute is an error; its decoder does not compute it
	NoFallback bool

	FirstByte time.Duration // longest wait for the first data of a stream; default 5 m
	// longest wait for the first byte of an answer that is not streamed, which engines send when it is complete;
	// default 30 m
	Answer time.Duration
	// longest silence within an answer, as of a parser that holds back the arguments of a tool call; default 10 m
	Idle time.Duration
	// longest silence while the endpoint refuses new connections: its process is ending or gone; default 5 s. While it
	// is down for another reason, twelve times as long
	Refusing time.Duration
	// longest time a client may take to send a prompt, and longest pause within a body for another path; default 60 s
	ReadBody time.Duration
	Upload   time.Duration // longest time that a body for another path may take as a whole; default 1 h
	Tunnel   time.Duration // longest silence of both ends of an upgraded connection; default 1 h
	// longest silence towards a client of an event stream before its answer begins: after it the client gets a header
	// of status 200 and a comment, then comments at this interval; 0 for none. The engine's own status and header are
	// lost then: its error becomes an event of the stream
	Comments time.Duration

	Models []ModelBounds // other bounds for some models; of several entries that have a model the first counts
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
	if c.HeaderBytes == 0 {
		c.HeaderBytes = 64 << 10
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = max(1<<30, 2*c.BodyBytes)
	}
	if c.Retries == 0 {
		c.Retries = 2
	}
	c.Retries = max(c.Retries, 0)
	if c.Numbers == nil {
		c.Numbers = transfers.NewNumbers(-1, 0)
	}
	set(&c.FirstByte, 5*time.Minute)
	set(&c.Answer, 30*time.Minute)
	set(&c.Idle, 10*time.Minute)
	set(&c.Refusing, 5*time.Second)
	set(&c.ReadBody, time.Minute)
	set(&c.Upload, time.Hour)
	set(&c.Tunnel, time.Hour)
	return c
}

// readsMembers reports whether the router has to see what bodies say, beside where to send them: it keeps clients out
// of KV transfers, or tenants apart.
func (c *Config) readsMembers() bool { return !c.Transfers || c.Tenants != nil }

// Stall is how long a client may take nothing of its answer: as long as an engine may be silent, and at most two
// minutes, since an open answer costs the router and the engine a place.
func Stall(idle time.Duration) time.Duration { return min(idle, 2*time.Minute) }

// Proxy is the traffic listener's handler.
type Proxy struct {
	cfg       Config
	bounds    boundsOfModels
	fleet     *live.Fleet
	transport http.RoundTripper
	tracer    *tracing.Tracer // nil when off
	log       *slog.Logger
	parser    *prompt.Parser
	memory    *prompt.Memory // of bodies read before; nil when no prompt content is needed
	// called when an endpoint could not be connected to or broke off, so that it is probed at once
	unreached func(endpoint string)
	relist    func(endpoint string) func(context.Context) // see Options
	// called with the duration of each decision; pool is "" when there was none
	decided func(pool string, took time.Duration)

	ends    *ends
	reports *reports
	flights registry
	bodies  *body.Budget
	catalog *catalog.Catalog
	sender  *send.Sender

	closings *send.Closings // ends of sessions that engines are to be told
	moved    *moved

	callers   maphash.Seed // see identity.CallerOf
	via       *send.Via
	origins   *origins
	foreign   *names // of pages that were refused
	inquiries *transfers.Inquiries
	returns   *transfers.Returns // nil unless decoders hand KV cache back
	started   <-chan struct{}    // see Options
	draining  atomic.Bool
	aborted   context.Context // ends with Abort
	abort     context.CancelFunc
}

// Options are the parts that a Proxy needs. Fleet, Transport, Log and Parser are required.
type Options struct {
	Config    Config
	Fleet     *live.Fleet
	Transport http.RoundTripper
	Tracer    *tracing.Tracer
	Log       *slog.Logger
	Parser    *prompt.Parser
	Unreached func(endpoint string)
	// Relist is called when an endpoint turned out not to have a model, or with "" when no endpoint has it, so that the
	// engines are asked again for their models. It must not block, and bounds how often they are. wait waits for those
	// that are asked now, until ctx ends.
	Relist func(endpoint string) (wait func(ctx context.Context))
	// Before is the door that this one replaces after a reload; nil for the first one. State that outlives requests
	// moves to the new door. Open requests end at the old one, so both run until then.
	Before  *Proxy
	Decided func(pool string, took time.Duration)
	// Started is closed when the fleet is known well enough to decide: until then requests wait, and the door says that
	// it is not ready. nil is at once.
	Started <-chan struct{}
	// Placed is called when a chat or completion was sent. ids says that its prompt is token ids, and keep makes a copy
	// of its body, which must be released; nil if that has more bytes, or if there is no room. It must not block.
	Placed func(d *route.Decision, ids bool, keep func(most int) *body.Kept)
}

// New makes the door. Run must be called too: it enforces the time limits.
func New(o Options) *Proxy {
	p := &Proxy{
		cfg: o.Config.WithDefaults(), fleet: o.Fleet, transport: o.Transport, tracer: o.Tracer, log: o.Log,
		parser: o.Parser, decided: o.Decided, relist: o.Relist, callers: maphash.MakeSeed(), started: o.Started,
	}
	if p.started == nil {
		at := make(chan struct{})
		close(at)
		p.started = at
	}
	if p.relist == nil {
		p.relist = func(string) func(context.Context) { return func(context.Context) {} }
	}
	p.bounds = newBounds(&p.cfg)
	p.keep(o.Before)
	p.sender = send.New(send.Config{
		NetHTTP: p.cfg.NetHTTP, NoUsage: p.cfg.NoUsage, DropAttribution: p.cfg.DropAttribution,
		FirstTurn: p.cfg.FirstTurn, SessionHeader: p.cfg.SessionHeader, Token: p.cfg.Token, Tenants: p.cfg.Tenants,
		Transfers: p.cfg.Transfers, Connector: p.cfg.Connector, TRTLLM: p.cfg.TRTLLM, Receiver: p.cfg.Receiver,
		Via: p.via, Resumes: p.cfg.Tenants == nil && p.cfg.Paths.Has(http.MethodGet, send.StreamPath),
	}, brief{o.Transport}, p.bodies, o.Placed, o.Log)
	if o.Before != nil {
		p.sender.Keep(o.Before.sender)
	}
	p.catalog = catalog.New(o.Fleet, o.Transport, p.log)
	probe := o.Unreached // o must not be kept: it has the door before, which would keep that before it
	p.unreached = func(endpoint string) {
		if p.sender.Gone(endpoint); probe != nil {
			probe(endpoint)
		}
	}
	if p.decided == nil {
		p.decided = func(string, time.Duration) {}
	}
	if p.memory == nil && (p.cfg.NeedsContent || p.cfg.ByContent || p.cfg.Shadow) {
		p.memory = prompt.NewMemory(prompt.DefaultMemory, rand.Uint64(), new(sync.Mutex))
	}
	p.flights.init()
	p.aborted, p.abort = context.WithCancel(context.Background())
	return p
}

// keep takes over the state that outlives requests from the previous door, or creates it.
func (p *Proxy) keep(before *Proxy) {
	if before == nil {
		p.bodies, p.inquiries = body.NewBudget(p.cfg.MemoryBytes), new(transfers.Inquiries)
		p.foreign, p.origins, p.via = new(names), new(origins), send.NewVia()
		p.closings, p.moved, p.ends, p.reports = send.NewClosings(), new(moved), new(ends), new(reports)
		p.returns = transfers.NewReturns(p.cfg.Bidirectional)
		return
	}
	p.bodies, p.inquiries, p.callers, p.memory = before.bodies, before.inquiries, before.callers, before.memory
	p.foreign, p.origins, p.closings, p.via = before.foreign, before.origins, before.closings, before.via
	p.moved, p.ends, p.reports = before.moved, before.ends, before.reports
	p.bodies.SetLimit(p.cfg.MemoryBytes)
	if p.returns = before.returns; p.cfg.Bidirectional != before.cfg.Bidirectional {
		p.returns = transfers.NewReturns(p.cfg.Bidirectional)
	}
}

// Budget is the bound on the memory of requests. It stays the same after a reload.
func (p *Proxy) Budget() *body.Budget { return p.bodies }

// BodyMemory is the memory that requests take: their bodies and heads.
func (p *Proxy) BodyMemory() body.Memory { return p.bodies.Memory() }
