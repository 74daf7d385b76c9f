// Package handover is the protocols by which the KV cache of a prompt gets from the engine that computes it to the engine that answers
// (disaggregated prefill): it owns what each of the two is sent and what the first one's reply means, one file for each protocol, and how
// the two answers become one. Bodies are changed by named members only, and values are relayed as they came. It never opens a socket,
// never chooses engines and never repeats a request.
package handover

import (
	"errors"

	"github.com/warmpath/warmpath/fleet"
)

// Connector is how the KV cache of a prompt gets from the engine that computes it to the engine that answers: what each of the
// two is sent, and what the first one's reply means. A connector never
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
	// Names are those of all top-level members of the client's body.
	Names func() []string
	// Receiver is where a decoder takes KV cache that is pushed to it; nil when that is not configured.
	Receiver func(fleet.Endpoint) (Receiver, bool)

	Prefiller, Decoder         fleet.Endpoint
	PrefillerPeer, DecoderPeer fleet.Peer // what is known of how KV cache gets from and to them
	Told                       []byte     // what the prefiller answered to the Inquiry; nil when it did not, or was not asked

	Attempt int     // prefill legs of the request before this one: an id made with it is new
	Number  uint64  // drawn for this attempt, for protocols whose ids are numbers
	Random  uint64  // drawn for this attempt, all its bits at random
	Session string  // id of the conversation, where the client's own headers do not tell it
	Before  *Before // what a decoder still holds of the conversation's turn before; nil for nothing
	About   string  // what the prefiller said of itself when it was probed, see fleet.Report.Handover
}

// Message is how the client's request is changed on its way to an engine.
type Message struct {
	Set    []Member // top-level members of the body to set
	Header []Header // to set
	Path   string   // to ask instead of the client's own; "" for that

	Append []Member // values to add to lists that are top-level members of the body
	Await  Await    // of a prefill leg: what must have come before the decoder is asked
	First  *First   // of a decode leg: what the client gets before the answer; nil for nothing
}

// Sets reports whether the message sets a member.
func (m *Message) Sets(name string) bool {
	for i := range m.Set {
		if m.Set[i].Name == name {
			return true
		}
	}
	return false
}

// Member is a top-level member of a body and the JSON value it gets.
type Member struct {
	Name string
	JSON []byte
}

// Header is a header and the value it gets; "" takes it out.
type Header struct{ Name, Value string }

// Inquirer is a Connector that must know something of a prefiller which only that can tell.
type Inquirer interface {
	Connector
	// Inquiry is the address that is asked with GET; "" asks nobody. The answer comes back as Handoff.Told.
	Inquiry(x *Handoff) string
}

// Before is what the decoder of a conversation's latest turn said of the KV cache that it holds of it.
type Before struct {
	Params []byte // as it said it
	Host   string // where that decoder is, as the router reaches it
}

// Returner is a Connector whose decoders can hand KV cache back: what they hold of a turn is fetched by the prefiller of the next one,
// which then computes only what is new.
type Returner interface {
	Connector
	// Returned finds in the end of an answer, plain or the last events of a stream, what its decoder says that it holds; nil when it
	// says nothing. It comes back as Handoff.Before, once. It shares the memory of the answer.
	Returned(end []byte) []byte
}

// Merger is a Connector whose decoders leave out of their answers what the prefiller's reply has.
type Merger interface {
	Connector
	// Merges reports whether that is so for a request.
	Merges(x *Handoff) bool
	// Merge completes an answer by a prefiller's whole reply: the JSON of a plain answer, or that of the event of a stream of that
	// number, from 0. It returns the answer as it is where there is nothing to add.
	Merge(x *Handoff, reply, answer []byte, event int) []byte
}

// Handed is what a prefiller's reply says.
type Handed struct {
	Params []byte      // what the decoder is to be told, as it came. It shares the memory of the reply
	Usage  fleet.Usage // of the prompt: its cached tokens are those that were really found
	Known  bool        // Usage was reported

	// Honest is set when the decoder is known to report the prefiller's cached tokens as its own, so that its usage is honest as it is.
	Honest bool
	// Whole says that the reply is all of the answer: the first token was the last, and no decoder is needed. Answer is what the
	// client gets, see AsStream for one that wants a stream.
	Whole  bool
	Answer []byte
	First  *First // the first token, where the decoder is to go on after it; nil otherwise

	More []Member // what the decoder is told beside Params
	ID   string   // under which both engines know the hand-over; "" when the protocol has none

	Reply []byte // all of the reply, where the answer is to be completed by it (Merger)
}

// ErrNoParams says that a prefiller's reply holds nothing for the decoder to find the KV cache by: its connector is not
// configured, or its request was aborted. The decoder can compute the prompt itself.
var ErrNoParams = errors.New("engine: the prefiller's reply has no parameters for the decoder")

// Await is notifications that must have come before the decoder is asked: so many for an id. The zero value is none.
type Await struct {
	ID    string
	Count int
}

// First is the first token of a completion, made by the prefiller, where the decoder goes on after it.
type First struct {
	ID     []byte // of the token, in digits
	Text   []byte // what is between the quotes of its JSON text
	Prompt []byte // the prompt's token ids as a JSON list; nil when the client's own prompt is one
}
