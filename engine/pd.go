package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/route"
)

// Connector is how the KV cache of a prompt gets from the engine that computes it to the engine that answers: what each of the
// two is sent, and what the first one's reply means. There is one file for each protocol, pd_NAME.go. A connector never
// sees a whole body: it says which top-level members of the client's body are set to what, and its caller splices that in,
// so that the prompt is the same byte for byte on both legs and nothing is re-typed.
//
// Implementations are stateless values and safe for concurrent use.
type Connector interface {
	// Name is what configurations call it.
	Name() string
	// Order says when the decoder is asked.
	Order() Order
	// Fits returns why a request cannot be split by this protocol, nil when it can. It knows of the handoff what is known
	// before endpoints are chosen: all but Prefiller, Decoder, Attempt and Number.
	Fits(x *Handoff) error
	// Prefill is what the prefiller is sent.
	Prefill(x *Handoff) (Message, error)
	// Reply reads the whole reply of a prefiller that answered with a success. The error says what it lacks.
	Reply(x *Handoff, body []byte) (Handed, error)
	// Decode is what the decoder is sent. h is what Reply returned; nil when both are asked together.
	Decode(x *Handoff, h *Handed) (Message, error)
	// Withhold is what the engine of a whole request is sent instead of members by which a client could pose as a router.
	Withhold(x *Handoff) []Member
	// Keeps reports whether another decoder may be given what a prefiller handed over, when the one before failed. sent says
	// that it may have taken the request.
	Keeps(sent bool) bool
}

// Order says when the two engines are asked.
type Order uint8

// The orders.
const (
	PrefillFirst Order = iota // the decoder is asked when the prefiller's reply has been read
	Together                  // both are asked at once; the prefiller's reply is read aside, and its failure ends the decode leg
)

// Handoff is one request in two legs, or one that may be split.
type Handoff struct {
	API       string // one of the API words
	ID        string // X-Request-Id, which both engines are sent
	Stream    bool   // the client wants a stream
	MaxTokens int    // the client's bound on the answer, 0 when it states none
	Answers   int    // answers that it asks for, at least 1

	// Field is the JSON value of a top-level member of the client's body, nil when it is absent. The names are those that
	// prompt.Prompt.SetField knows.
	Field func(name string) []byte

	Prefiller, Decoder route.Endpoint
	Attempt            int    // prefill legs of the request before this one: an id made with it is new
	Number             uint64 // drawn for this attempt, for protocols whose ids are numbers
}

// Message is how the client's request is changed on its way to an engine.
type Message struct {
	Set    []Member // top-level members of the body to set
	Header []Header // to set
	Path   string   // to ask instead of the client's own; "" for that
}

// Member is a top-level member of a body and the JSON value it gets.
type Member struct {
	Name string
	JSON []byte
}

// Header is a header and the value it gets.
type Header struct{ Name, Value string }

// Handed is what a prefiller's reply says.
type Handed struct {
	Params []byte      // what the decoder is to be told, as it came. It shares the memory of the reply
	Usage  route.Usage // of the prompt: its cached tokens are those that were really found
	Known  bool        // Usage was reported

	// Honest is set when the decoder is known to report the prefiller's cached tokens as its own, so that its usage is honest as it is.
	Honest bool
	// Whole says that the reply is all of the answer: the first token was the last, and no decoder is needed.
	Whole bool
}

// ErrNoParams says that a prefiller's reply holds nothing for the decoder to find the KV cache by: its connector is not
// configured, or its request was aborted. The decoder can compute the prompt itself.
var ErrNoParams = errors.New("engine: the prefiller's reply has no parameters for the decoder")

// Connectors are the protocols that can be configured, in the order of documentation.
func Connectors() []Connector { return []Connector{Nixl{}} }

// ConnectorNames are their names.
func ConnectorNames() []string {
	var names []string
	for _, c := range Connectors() {
		names = append(names, c.Name())
	}
	return names
}

// ConnectorByName finds a protocol.
func ConnectorByName(name string) (Connector, error) {
	for _, c := range Connectors() {
		if c.Name() == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("engine: unknown connector %q, want one of %s", name, strings.Join(ConnectorNames(), ", "))
}

// ConnectorOf is the protocol that engines of a kind speak unless another one is configured; nil when there is none.
func ConnectorOf(k route.Kind) Connector {
	if k == route.KindVLLM {
		return Nixl{}
	}
	return nil
}

// memberOf finds a top-level member of a JSON object and returns its value as it lies there; of several the last, as
// engines take it. ok is false when body is no object that can be read to its end.
func memberOf(body []byte, name string) (value []byte, ok bool) {
	c := cursor{b: body}
	if !c.take('{') {
		return nil, false
	}
	for {
		key, more := c.key()
		if !more {
			return value, c.take('}')
		}
		c.space()
		start := c.i
		if !c.skip() {
			return nil, false
		}
		if string(key) == name {
			value = body[start:c.i]
		}
	}
}

// promptUsage is the usage in a prefiller's reply, wherever in it that stands: parameters of many blocks may follow.
func promptUsage(api string, body []byte) (u route.Usage, ok bool) {
	value, _ := memberOf(body, "usage")
	f := noFigures()
	if isNull(value) || !f.object(value) {
		return u, false
	}
	return f.usage(api)
}

// isNull reports whether a member is absent or null.
func isNull(value []byte) bool { return len(value) == 0 || string(value) == "null" }
