package send

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/route"
)

// Config says what an endpoint is told in addition to the client's request.
type Config struct {
	NetHTTP         bool   // net/http's client is used for engines in plain text too
	NoUsage         bool   // do not ask for usage in streams whose client did not
	DropAttribution bool   // see prompt.Prompt.DropAttribution
	FirstTurn       bool   // tell TensorRT-LLM whether a turn is its conversation's first
	SessionHeader   string // header that tells vLLM the conversation; "" for none
	Token           *identity.EndpointToken
	Tenants         *identity.Tenants
	Transfers       bool               // pass on what clients say of hand-overs, in endpoints' bodies and headers
	Connector       handover.Connector // nil follows the kind of engine
	TRTLLM          handover.TRTLLMOptions
	Receiver        func(fleet.Endpoint) (handover.Receiver, bool)
	Via             *Via
	Resumes         bool // clients may come back for an answer that they left, see resumable
}

// Sender sends requests to endpoints, and remembers which of them rejected its additions.
type Sender struct {
	cfg       Config
	transport http.RoundTripper
	bodies    *body.Budget
	placed    func(d *route.Decision, ids bool, keep func(most int) *body.Kept) // nil for none
	log       *slog.Logger
	asks      *askMemory
	withheld  atomic.Int64 // the minute in which it was last logged, see noteWithheld
}

// New makes a Sender. Changed copies of bodies are counted in bodies. placed is called after a request was sent; it may
// be nil.
func New(
	cfg Config,
	transport http.RoundTripper,
	bodies *body.Budget,
	placed func(d *route.Decision, ids bool, keep func(most int) *body.Kept),
	log *slog.Logger,
) *Sender {
	cfg.SessionHeader = http.CanonicalHeaderKey(cfg.SessionHeader)
	return &Sender{cfg: cfg, transport: transport, bodies: bodies, placed: placed, log: log, asks: new(askMemory)}
}

// Keep has the Sender know what another one knows of endpoints. Nothing may have been sent yet.
func (s *Sender) Keep(before *Sender) { s.asks = before.asks }

// Outgoing is a request for one endpoint.
type Outgoing struct {
	s    *Sender
	c    *Incoming
	d    *route.Decision
	ctx  context.Context
	span *tracing.Attempt

	sent *body.Payload // the body for this endpoint, if it differs from the call's
	lent io.Closer     // the body last given to the transport

	Keyed   bool              // it was sent with the endpoint's API key, none of the client's
	Message *handover.Message // the additions for one leg; nil for a request that is not split

	fromZero bool // its rank was counted from 0, see rank

	unsalted bool // see Unsalted

	asksUsage    bool // the engine is asked for usage and the client did not ask
	usageRefused bool // the engine has rejected being asked

	sentForm  fleet.IDForm // the form of the conversation id sent; IDUnknown for none
	refusedID fleet.IDForm // the form that the engine has rejected for this request; IDUnknown for none
}

// To begins the request to the endpoint of a decision. ctx ends with the attempt.
func (s *Sender) To(c *Incoming, d *route.Decision, ctx context.Context, span *tracing.Attempt) Outgoing {
	return Outgoing{s: s, c: c, d: d, ctx: ctx, span: span}
}

// carried reports whether the transport exchanges it. Prefill legs are always sent by the router.
func (a *Outgoing) carried() bool { return a.c.Transport != nil && a.d.Leg != fleet.LegPrefill }

// exchange sends it and returns when the header of the answer has come, with the status that the answer stands for.
func (a *Outgoing) exchange(out *http.Request) (*http.Response, error) {
	if a.carried() {
		return a.c.Transport.Carry(out, a.d.Endpoint)
	}
	res, err := a.s.transport.RoundTrip(out)
	if err == nil && res.StatusCode == http.StatusBadRequest {
		res.StatusCode, res.Status = engine.OwnStatus(res.StatusCode, Short(res)), ""
	}
	return res, err
}

// Short is the body of an answer that is no longer than those in which engines speak of themselves; nil for a longer
// one. The bytes read are put back.
func Short(res *http.Response) []byte {
	if res.ContentLength < 0 || res.ContentLength > engine.OwnBytes {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(res.Body, engine.OwnBytes))
	res.Body = &readBack{ReadCloser: res.Body, head: head, err: err}
	return head
}

// WithoutUsage stops asking for usage.
func (a *Outgoing) WithoutUsage() { a.usageRefused = true }

// AsksUsage reports whether the router asks for usage and the client did not.
func (a *Outgoing) AsksUsage() bool { return a.asksUsage }

// AnswersAsking notes that the endpoint answered a client that asked for usage with a chunk of its own.
func (a *Outgoing) AnswersAsking() {
	a.s.asks.note(a.d.Endpoint.Name, func(n *askNote) { n.answers = true })
}

// ReleaseCopy releases this endpoint's version of the body. The transport keeps it until it has written it.
func (a *Outgoing) ReleaseCopy() {
	a.sent.Release()
	a.sent = nil
}

// Connector is the protocol of a prefiller of that kind; nil when there is none.
func (s *Sender) Connector(k fleet.Kind) handover.Connector {
	conn := s.cfg.Connector
	if conn == nil {
		conn = handover.ByKind(k)
	}
	if t, ok := conn.(handover.TRTLLM); ok {
		return t.With(s.cfg.TRTLLM)
	}
	return conn
}

// HandoverRequest is what a connector needs to know of the request.
func (s *Sender) HandoverRequest(c *Incoming) handover.Request {
	return handover.Request{
		API: c.API.String(), ID: cmp.Or(c.EngineID, c.ID), Stream: c.Prompt.Stream, MaxTokens: c.Prompt.MaxTokens,
		Answers: c.Prompt.N,
		Field:   c.member, Names: func() []string { return rawjson.Names(c.Body.Bytes) }, Receiver: s.cfg.Receiver,
	}
}
