package handover

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// SGLang is SGLang's own protocol (0.5.23, disaggregation; as its router and SMG use it over HTTP). Both servers get
// the client's request at once, with the same three members added: the prefill server's bootstrap address, and a room,
// a random number by which the two meet. The decode server gets the KV cache and the first token there, and answers;
// the prefill server answers with one token.
//
// A server started for one role does nothing else: without a room it answers 400. When one side fails the other waits
// for its time-out (300 s), so it must be cancelled.
type SGLang struct{}

// The members that the protocol sets.
const (
	bootstrapHost    = "bootstrap_host"
	bootstrapPort    = "bootstrap_port"
	bootstrapRoom    = "bootstrap_room"
	bootstrapPairKey = "bootstrap_pair_key"
	routedRank       = "routed_dp_rank"
	olderRank        = "data_parallel_rank" // the older name of routedRank
	prefillRank      = "disagg_prefill_dp_rank"
	returnLogprob    = "return_logprob"
)

// mostRooms bounds the answers of one request, each of which needs its own room.
const mostRooms = 4096

// Name implements Connector.
func (SGLang) Name() string { return "sglang" }

// Order implements Connector: the servers meet, so both must be asked.
func (SGLang) Order() Order { return Together }

// Fits implements Connector. Anthropic's and Ollama's APIs cannot carry the room (entrypoints/anthropic).
func (SGLang) Fits(x *Request) error {
	switch x.API {
	case answer.APIChat, answer.APICompletions, answer.APIGenerate, answer.APIResponses:
	default:
		return fmt.Errorf("the connector sglang knows no API %q", x.API)
	}
	if n, _ := answersOf(x); n > mostRooms {
		return fmt.Errorf("it asks for %d answers at once, more than %d", n, mostRooms)
	}
	return nil
}

// errSeveral: 0.5.23 was observed to use the first room for all answers of one prompt, and its decode server then to
// wait for ever, with one room or a list.
var errSeveral = fmt.Errorf(
	"%w: SGLang 0.5.23 never answers one for several answers to one prompt in two legs", ErrUnfit,
)

// Prefill implements Connector.
func (s SGLang) Prefill(x *Request) (Message, error) {
	if x.Answers > 1 && strings.HasPrefix(x.DecoderPeer.Version, "0.5.23") {
		return Message{}, errSeveral
	}
	return s.message(x, fleet.LegPrefill), nil
}

// Decode implements Connector.
func (s SGLang) Decode(x *Request, _ *Handed) (Message, error) {
	return s.message(x, fleet.LegDecode), nil
}

// message is the common part of both legs, without the ranks. The rank of an endpoint that is one is set in every
// request.
func (SGLang) message(x *Request, leg fleet.Leg) Message {
	n, list := answersOf(x)
	ranks, rank := x.PrefillerPeer.Ranks, -1
	if x.Prefiller.Part.Kind == fleet.Rank {
		rank = x.Prefiller.Part.Index
	}
	rooms := roomsOf(x.Random, n, ranks, rank)
	host, port := jsonString(hostOf(x.Prefiller.URL)), strconv.Itoa(bootstrapPortOf(x))
	set := []Member{
		{bootstrapHost, repeated(host, n, list)},
		{bootstrapPort, repeated(port, n, list)},
		{bootstrapRoom, roomList(rooms, list)},
	}
	if x.Field(bootstrapPairKey) != nil {
		set = append(set, Member{bootstrapPairKey, []byte("null")})
	}
	switch {
	case leg == fleet.LegDecode && rank >= 0:
		set = append(set, Member{prefillRank, strconv.AppendInt(nil, int64(rank), 10)})
	case !rawjson.IsNull(x.Field(prefillRank)):
		set = append(set, Member{prefillRank, []byte("null")})
	}
	return Message{Set: set}
}

// Reply implements Connector. The reply is one token, streamed when the client wants a stream. A request aborted at the
// prefill server ends with a success.
func (s SGLang) Reply(x *Request, body []byte) (Handed, error) {
	h := Handed{Honest: true}
	h.Usage, h.Known = answer.ParseUsage(x.API, body)
	first := bytes.TrimLeft(body, " \t\r\n")
	if len(first) == 0 {
		return h, errors.New("engine: the prefiller's reply is empty")
	}
	if first[0] != '{' && first[0] != '[' {
		stream := answer.Scanner{API: x.API}
		stream.Write(body)
		stream.Close()
		switch {
		case stream.Failed() && stream.ErrorText() != "":
			return h, fmt.Errorf("engine: the prefiller's stream ends with an error: %s", stream.ErrorText())
		case stream.Failed() || !stream.Done():
			return h, errors.New("engine: the prefiller's stream is not complete")
		}
	}
	for _, sign := range []string{
		`"finish_reason":"abort"`, `"finish_reason": "abort"`, `"finish_reason":{"type":"abort"`,
		`"finish_reason": {"type": "abort"`,
	} {
		if bytes.Contains(body, []byte(sign)) {
			return h, errors.New("engine: the prefiller aborted the request")
		}
	}
	if s.Merges(x) {
		h.Reply = body
	}
	return h, nil
}

// Keeps implements Connector: a room works once.
func (SGLang) Keeps(bool) bool { return false }

// answersOf is the number of answers to all prompts of a request, and whether the engine treats it as a list of
// requests: then each answer has a room (io_struct.py, GenerateReqInput).
func answersOf(x *Request) (n int, list bool) {
	prompts := -1
	switch x.API {
	case answer.APICompletions:
		prompts = promptsIn(x.Field("prompt"))
	case answer.APIGenerate:
		if prompts = promptsIn(x.Field("text")); rawjson.IsNull(x.Field("text")) {
			prompts = promptsIn(x.Field("input_ids"))
		}
	}
	n = max(x.Answers, 1)
	if prompts < 0 {
		return n, n > 1
	}
	return prompts * min(n, mostRooms+1), true
}

// promptsIn is the number of prompts in a list; -1 when the value is itself a prompt: a text or a list of token ids.
func promptsIn(value []byte) int {
	if !severalPrompts(value) {
		return -1
	}
	c := rawjson.Cursor{Data: value}
	c.Take('[')
	n := 0
	for c.Skip() {
		n++
		if !c.Take(',') {
			break
		}
	}
	return n
}

// roomsOf are n distinct rooms between 0 and 2^63-1. A prefill server with ranks may choose the rank as the room's
// remainder (load-balance method follow_bootstrap_room): if the rank is known, all rooms lead to it.
func roomsOf(number uint64, n, ranks, rank int) []uint64 {
	step := uint64(1)
	if ranks > 1 && rank >= 0 && rank < ranks {
		step = uint64(ranks)
	}
	room := (number >> 1) % (1<<63 - uint64(n)*step)
	if step > 1 {
		room += uint64(rank) - room%step
		if int64(room) < 0 { // below the lowest room of the rank
			room = uint64(rank)
		}
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = room + uint64(i)*step
	}
	return out
}

func roomList(rooms []uint64, list bool) []byte {
	if !list {
		return strconv.AppendUint(nil, rooms[0], 10)
	}
	out := []byte{'['}
	for i, r := range rooms {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, r, 10)
	}
	return append(out, ']')
}

// repeated is a value, or a list of n copies.
func repeated(value string, n int, list bool) []byte {
	if !list {
		return []byte(value)
	}
	return []byte("[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]")
}

var (
	_ Connector = SGLang{}
	_ Merger    = SGLang{}
)
