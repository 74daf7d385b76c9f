package proxy

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

// senderConfig is what an endpoint is told besides what the client said.
type senderConfig struct {
	NoUsage       bool   // leave streams alone whose client did not ask for usage
	FirstTurn     bool   // tell TensorRT-LLM whether a turn is its conversation's first
	SessionHeader string // header that tells vLLM the conversation; "" for none
	Token         *who.EndpointToken
	Tenants       *who.Tenants
	Connector     handover.Connector // nil goes by the kind of engine
	TRTLLM        handover.TRTLLMOptions
	Receiver      func(fleet.Endpoint) (handover.Receiver, bool)
}

// sender sends requests to endpoints, and remembers which of them refuse to be asked or told.
type sender struct {
	cfg       senderConfig
	transport http.RoundTripper
	bodies    *body.Budget
	placed    func(d *route.Decision, ids bool, body func() []byte) // nil when nobody wants to know
	log       *slog.Logger
	asks      askBook
}

// newSender makes one whose changed copies of bodies are counted in bodies. placed may be nil.
func newSender(cfg senderConfig, transport http.RoundTripper, bodies *body.Budget, placed func(d *route.Decision, ids bool, body func() []byte), log *slog.Logger) *sender {
	return &sender{cfg: cfg, transport: transport, bodies: bodies, placed: placed, log: log}
}

// outgoing is what one endpoint is sent of a request.
type outgoing struct {
	s    *sender
	c    *incoming
	d    *route.Decision
	ctx  context.Context
	span *tracing.Attempt

	sent *body.Payload // the body as this endpoint gets it, when it differs from the call's
	lent io.Closer     // the body that the transport was given last

	message *handover.Message // what one leg of a request is sent beside; nil for a whole one
	reads   bool              // the answer is completed from a prefiller's, and so must not be compressed

	asked   bool // the engine is asked for usage, the client did not
	refused bool // the engine does not want to be asked

	told    bool // the engine is told the conversation in conversation_params
	untells bool // it does not know conversation_params
}

// to begins what is sent to the endpoint of a decision. ctx ends with the attempt.
func (s *sender) to(c *incoming, d *route.Decision, ctx context.Context, span *tracing.Attempt) outgoing {
	return outgoing{s: s, c: c, d: d, ctx: ctx, span: span}
}

// carry has the endpoint sent one leg of a request.
func (a *outgoing) carry(message *handover.Message) { a.message = message }

// asLeg reports whether it is one leg of a request.
func (a *outgoing) asLeg() bool { return a.message != nil }

// withoutUsage has the endpoint not asked for usage.
func (a *outgoing) withoutUsage() { a.refused = true }

// readsAnswer says that the answer is completed on its way, so that it must not be compressed.
func (a *outgoing) readsAnswer() { a.reads = true }

// asksUsage reports whether the endpoint was asked for usage and the client did not.
func (a *outgoing) asksUsage() bool { return a.asked }

// answersAsking notes that the endpoint answered a client that asked for usage, in a chunk of its own.
func (a *outgoing) answersAsking() {
	a.s.asks.note(a.d.Endpoint.Name, func(n *askNote) { n.answers = true })
}

// letGo lets go of the body as this endpoint got it. The transport keeps it until it has written it.
func (a *outgoing) letGo() {
	a.sent.Release()
	a.sent = nil
}

// connector is the protocol that a prefiller of that kind speaks, nil when there is none.
func (s *sender) connector(k fleet.Kind) handover.Connector {
	conn := s.cfg.Connector
	if conn == nil {
		conn = handover.ByKind(k)
	}
	if t, ok := conn.(handover.TRTLLM); ok {
		return t.With(s.cfg.TRTLLM)
	}
	return conn
}

// handoff is what a connector is told of the request.
func (s *sender) handoff(c *incoming) handover.Handoff {
	return handover.Handoff{
		API: c.api.String(), ID: c.id, Stream: c.prompt.Stream, MaxTokens: c.prompt.MaxTokens, Answers: c.prompt.N,
		Field: func(name string) []byte {
			at := c.prompt.Field(name)
			if at == (jsonscan.Span{}) {
				return nil
			}
			return c.body.Bytes[at.Start:at.End]
		},
		Names: func() []string { return rawjson.Names(c.body.Bytes) }, Receiver: s.cfg.Receiver,
	}
}
