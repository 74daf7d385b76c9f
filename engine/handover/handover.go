// Package handover implements the protocols by which a prompt's KV cache gets from the engine that computes it to the
// engine that answers (disaggregated prefill), one file per protocol.
//
// It owns what each engine is sent, what the first one's reply means, and how the two answers are combined. It promises
// that bodies are changed by named members only, and that the engines' own values are relayed unchanged. It never opens
// a socket, chooses engines or repeats a request.
package handover

import (
	"errors"

	"github.com/warmpath/warmpath/fleet"
)

// Connector is one protocol for KV transfers: what each of the two engines is sent, and what the first one's reply
// means. A connector never sees a whole body: it names the top-level members to set, and its caller splices them into
// the client's body, so that the prompt is equal to the byte on both legs.
//
// Implementations are stateless values and safe for concurrent use.
type Connector interface {
	// Name is the name in configurations.
	Name() string
	// Order says when the decoder is asked.
	Order() Order
	// Fits returns the reason why a request cannot be split by this protocol, or nil. The handoff has what is known
	// before endpoints are chosen: all but Prefiller, Decoder, Attempt and Number.
	Fits(x *Request) error
	// Prefill returns what the prefiller is sent.
	Prefill(x *Request) (Message, error)
	// Reply reads the whole reply of a successful prefiller. The error names what it lacks.
	Reply(x *Request, body []byte) (Handed, error)
	// Decode returns what the decoder is sent. h is the result of Reply; nil when both are asked together.
	Decode(x *Request, h *Handed) (Message, error)
	// Keeps reports whether another decoder may use what a prefiller handed over after one has failed. sent means that
	// the failed one may have received the request.
	Keeps(sent bool) bool
}

// ErrUnfit is of a leg that cannot be sent because of what the request asks for, as it shows only once the engines are
// chosen.
var ErrUnfit = errors.New("the engines chosen cannot serve this request")

// Order says when the two engines are asked.
type Order uint8

// The orders.
const (
	PrefillFirst Order = iota // the decoder is asked after the prefiller's reply
	// both are asked at once; the prefiller's reply is read in the background, and its failure ends the decode leg
	Together
	ByDecoder // only the decoder is asked, which asks the prefiller itself
)

// Request is one split request, or one that may be split.
type Request struct {
	API       string // one of the API words
	ID        string // X-Request-Id for both engines
	Stream    bool   // the client wants a stream
	MaxTokens int    // the client's limit on the answer; 0 for none
	Answers   int    // number of answers requested, at least 1

	// Field is the JSON value of a top-level member of the client's body; nil when absent. It supports the names of
	// prompt.Prompt.SetField.
	Field func(name string) []byte
	// Names are those of all top-level members of the client's body.
	Names func() []string
	// Receiver is the address at which a decoder accepts pushed KV cache; nil if not configured.
	Receiver func(fleet.Endpoint) (Receiver, bool)

	Prefiller, Decoder         fleet.Endpoint
	PrefillerPeer, DecoderPeer fleet.Peer // learnt facts for KV transfers
	InquiryAnswer              []byte     // the prefiller's answer to the Inquiry; nil without one

	Attempt int     // number of earlier prefill legs of the request: makes ids unique
	Number  uint64  // random number for this attempt, for protocols with numeric ids
	Random  uint64  // 64 random bits for this attempt
	Session string  // conversation id, if the client's own headers lack it
	Before  *Before // what a decoder still holds of the conversation's previous turn; nil for nothing
	About   string  // the prefiller's probe result, see fleet.Report.Handover
}

// Message is the changes to the client's request for an engine.
type Message struct {
	Set    []Member // top-level members of the body to set
	Header []Header // to set
	Path   string   // path instead of the client's own; "" for none

	Append []Member // values to append to top-level lists of the body
	Await  Await    // of a prefill leg: notifications required before the decoder is asked
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

// Member is a top-level member of a body and its JSON value.
type Member struct {
	Name string
	JSON []byte
}

// Header is a header and its value; "" removes it.
type Header struct{ Name, Value string }

// Inquirer is a Connector that needs information from the prefiller first.
type Inquirer interface {
	Connector
	// Inquiry is the address for a GET; "" for none. The answer becomes Request.InquiryAnswer.
	Inquiry(x *Request) string
}

// Before describes the KV cache that the decoder of a conversation's latest turn holds.
type Before struct {
	Params []byte // as reported
	Host   string // that decoder's host, as reached by the router
}

// Returner is a Connector whose decoders can hand KV cache back: the prefiller of the next turn fetches it and computes
// only what is new.
type Returner interface {
	Connector
	// Returned finds a decoder's description of its cache in the end of an answer or stream; nil without one. It
	// becomes Request.Before, once. It shares the memory of the answer.
	Returned(end []byte) []byte
}

// Merger is a Connector whose decoders omit parts of answers that the prefiller's reply has.
type Merger interface {
	Connector
	// Merges reports whether that applies to a request.
	Merges(x *Request) bool
	// Merge completes an answer by a prefiller's whole reply: the JSON of a plain answer, or of a stream's event with
	// that number, from 0. It returns the answer unchanged if there is nothing to add.
	Merge(x *Request, reply, answer []byte, event int) []byte
}

// Handed is the content of a prefiller's reply.
type Handed struct {
	Params []byte      // for the decoder, unchanged. It shares the memory of the reply
	Usage  fleet.Usage // of the prompt, with the cached tokens at the prefiller
	Known  bool        // Usage was reported

	// Honest means that the decoder is known to report the prefiller's cached tokens, so that its usage needs no
	// correction.
	Honest bool
	// Whole means that the reply is the complete answer: its first token was the last, and no decoder is needed. Answer
	// is what the client gets, see AsStream for streams.
	Whole  bool
	Answer []byte
	First  *First // the first token, if the decoder continues after it; else nil

	More []Member // further members for the decoder
	ID   string   // id of the transfer at both engines; "" when the protocol has none

	Reply []byte // the whole reply, if it completes the answer (Merger)
}

// ErrNoParams means that a prefiller's reply lacks what the decoder needs to find the KV cache: its connector is not
// configured, or its request was aborted. The decoder can compute the prompt itself.
var ErrNoParams = errors.New("engine: the prefiller's reply has no parameters for the decoder")

// Await is a number of notifications for an id, required before the decoder is asked. The zero value is none.
type Await struct {
	ID    string
	Count int
}

// First is the first token of a completion, generated by the prefiller, after which the decoder continues.
type First struct {
	ID     []byte // of the token, decimal
	Text   []byte // content of its JSON string
	Prompt []byte // the prompt's token ids as a JSON list; nil when the client sent ids
}
