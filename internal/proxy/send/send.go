package send

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/who"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/prompt/jsonscan"
	"github.com/warmpath/warmpath/route"
)

// Config is what an endpoint is told besides what the client said.
type Config struct {
	NetHTTP       bool   // net/http's client sends to engines in plain text too
	NoUsage       bool   // leave streams alone whose client did not ask for usage
	FirstTurn     bool   // tell TensorRT-LLM whether a turn is its conversation's first
	SessionHeader string // header that tells vLLM the conversation; "" for none
	Token         *who.EndpointToken
	Tenants       *who.Tenants
	Connector     handover.Connector // nil follows the kind of engine
	TRTLLM        handover.TRTLLMOptions
	Receiver      func(fleet.Endpoint) (handover.Receiver, bool)
}

// Sender sends requests to endpoints, and remembers which of them refuse to be asked or told.
type Sender struct {
	cfg       Config
	transport http.RoundTripper
	bodies    *body.Budget
	placed    func(d *route.Decision, ids bool, body func() []byte) // nil when nobody wants to know
	log       *slog.Logger
	asks      askBook
}

// New makes one whose changed copies of bodies are counted in bodies. placed may be nil.
func New(cfg Config, transport http.RoundTripper, bodies *body.Budget, placed func(d *route.Decision, ids bool, body func() []byte), log *slog.Logger) *Sender {
	return &Sender{cfg: cfg, transport: transport, bodies: bodies, placed: placed, log: log}
}

// Outgoing is what one endpoint is sent of a request.
type Outgoing struct {
	s    *Sender
	c    *Incoming
	d    *route.Decision
	ctx  context.Context
	span *tracing.Attempt

	sent *body.Payload // the body as this endpoint gets it, when it differs from the call's
	lent io.Closer     // the body that the transport was given last

	Message *handover.Message // what one leg of a request is sent beside; nil for a whole one
	reads   bool              // the answer is completed from a prefiller's, and so must not be compressed

	asked   bool // the engine is asked for usage, the client did not
	refused bool // the engine does not want to be asked

	told      fleet.IDForm // the form in which the engine is told the conversation; IDUntold when it is not
	refusedID fleet.IDForm // the form that it has refused of this request; IDUntold for none
}

// To begins what is sent to the endpoint of a decision. ctx ends with the attempt.
func (s *Sender) To(c *Incoming, d *route.Decision, ctx context.Context, span *tracing.Attempt) Outgoing {
	return Outgoing{s: s, c: c, d: d, ctx: ctx, span: span}
}

// Carry has the endpoint sent one leg of a request.
func (a *Outgoing) Carry(message *handover.Message) { a.Message = message }

// carried reports whether the carrier exchanges it. The router computes prompts elsewhere by itself: nobody but it knows of them.
func (a *Outgoing) carried() bool { return a.c.Carrier != nil && a.d.Leg != fleet.LegPrefill }

// exchange sends it and returns when the header of the answer has come.
func (a *Outgoing) exchange(out *http.Request) (*http.Response, error) {
	if a.carried() {
		return a.c.Carrier.Carry(out, a.d.Endpoint)
	}
	return a.s.transport.RoundTrip(out)
}

// AsLeg reports whether it is one leg of a request.
func (a *Outgoing) AsLeg() bool { return a.Message != nil }

// WithoutUsage has the endpoint not asked for usage.
func (a *Outgoing) WithoutUsage() { a.refused = true }

// ReadsAnswer says that the answer is completed on its way, so that it must not be compressed.
func (a *Outgoing) ReadsAnswer() { a.reads = true }

// AsksUsage reports whether the endpoint was asked for usage and the client did not.
func (a *Outgoing) AsksUsage() bool { return a.asked }

// AnswersAsking notes that the endpoint answered a client that asked for usage, in a chunk of its own.
func (a *Outgoing) AnswersAsking() {
	a.s.asks.note(a.d.Endpoint.Name, func(n *askNote) { n.answers = true })
}

// LetGo lets go of the body as this endpoint got it. The transport keeps it until it has written it.
func (a *Outgoing) LetGo() {
	a.sent.Release()
	a.sent = nil
}

// Connector is the protocol that a prefiller of that kind speaks, nil when there is none.
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

// Handoff is what a connector is told of the request.
func (s *Sender) Handoff(c *Incoming) handover.Handoff {
	return handover.Handoff{
		API: c.API.String(), ID: c.ID, Stream: c.Prompt.Stream, MaxTokens: c.Prompt.MaxTokens, Answers: c.Prompt.N,
		Field: func(name string) []byte {
			at := c.Prompt.Field(name)
			if at == (jsonscan.Span{}) {
				return nil
			}
			return c.Body.Bytes[at.Start:at.End]
		},
		Names: func() []string { return rawjson.Names(c.Body.Bytes) }, Receiver: s.cfg.Receiver,
	}
}
