package handover

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
)

// LMCache is the hand-over of LMCache's connector in vLLM (LMCacheConnectorV1 with enable_pd, transfer_channel nixl; LMCache's
// disagg_proxy_server and production-stack PR 890 speak the same). The decoder is chosen first: the prefiller is told where it
// receives, pushes the prompt's KV cache there, and tells the router by a notification for each tensor-parallel rank when that
// is done. Its reply has the first token. The decoder is told nothing; it finds the cache by the tokens of the prompt.
//
// A decoder that is sent a completion goes on after the first token: its prompt is the token ids with that one at their end, and the
// client gets the token's text in front of the decoder's answer (see First). What is not a plain completion gets its own request
// unchanged, as llm-d's connector lmcache did: the decoder makes the first token again, from the cache, and so its chunks are shaped
// as a chat's, and tool calls, reasoning, log probabilities and grammars are whole, which a chat that is turned into a completion loses.
//
// Since LMCache is a cache, nothing wrong can come of a hand-over that fails: what is not there is computed.
type LMCache struct{}

const (
	returnTokenIDs = "return_token_ids"
	promptMember   = "prompt"
	// completionTokens16 is how long a completion becomes that does not say it (OpenAI API, vLLM).
	completionTokens16 = 16
	// maxFirstText bounds the text of one token.
	maxFirstText = 1 << 10
)

// ErrNoReceiver says that it is not known where a decoder receives KV cache.
var ErrNoReceiver = errors.New("engine: it is not known where the decoder receives KV cache: it is in no decoder_registry, and no decoder_init_port and decoder_alloc_port are given")

// Name implements Connector.
func (LMCache) Name() string { return "lmcache" }

// Order implements Connector.
func (LMCache) Order() Order { return PrefillFirst }

// Fits implements Connector.
func (LMCache) Fits(x *Handoff) error {
	switch x.API {
	case answer.APIChat, answer.APICompletions, answer.APIResponses, answer.APIMessages:
	default:
		return fmt.Errorf("the connector lmcache knows no API %q", x.API)
	}
	if x.Receiver == nil {
		return ErrNoReceiver
	}
	return fitsOnce(x)
}

// Prefill implements Connector: the rules of nixl for a single token, and where the decoder receives.
func (LMCache) Prefill(x *Handoff) (Message, error) {
	if x.Receiver == nil {
		return Message{}, ErrNoReceiver
	}
	to, ok := x.Receiver(x.Decoder)
	if !ok {
		return Message{}, fmt.Errorf("%w (%s)", ErrNoReceiver, x.Decoder.Name)
	}
	message, err := Nixl{}.Prefill(x)
	if err != nil {
		return message, err
	}
	await := Await{ID: specID(x), Count: len(to.InitPorts)}
	message.Await = await
	message.Set[slices.IndexFunc(message.Set, func(m Member) bool { return m.Name == kvTransferParams })].JSON = to.spec(await.ID)
	if goesOn(x) && !isIDList(x.Field(promptMember)) {
		message.Set = append(message.Set, Member{returnTokenIDs, []byte("true")})
	}
	return message, nil
}

// specID is the id of a hand-over: the request's, and a number of its own, since a notification of an earlier attempt, or of another
// client's request of the same id, is not one of this.
func specID(x *Handoff) string {
	return x.ID + "-" + strconv.FormatUint(x.Number, 16)
}

// Reply implements Connector. A reply without the first token is one all the same: the decoder is then sent the client's own request.
func (LMCache) Reply(x *Handoff, body []byte) (Handed, error) {
	h := Handed{}
	h.Usage, h.Known = answer.PromptUsage(x.API, body)
	values, ok := rawjson.Members(body, "choices", kvTransferParams, promptTokenIDs)
	if !ok {
		return h, errors.New("engine: the prefiller's reply is no JSON object")
	}
	if x.API != answer.APIChat && x.API != answer.APICompletions {
		return h, nil
	}
	choices := values[0]
	if n := rawjson.Count(choices, 2); n != 1 {
		return h, fmt.Errorf("engine: the prefiller's reply has %d choices or more, where exactly one is needed", n)
	}
	choice, ok := rawjson.Members(rawjson.Element(choices, 0), "finish_reason", "text", promptTokenIDs)
	if !ok {
		return h, errors.New("engine: the choice in the prefiller's reply is no JSON object")
	}
	if x.MaxTokens == 1 || string(choice[0]) == `"stop"` && mayStop(x) {
		h.Answer, ok = rawjson.RewriteObject(nil, body, func(name string, value []byte) ([]byte, []byte) {
			if name == kvTransferParams {
				value = []byte("null")
			}
			return []byte(name), value
		})
		if h.Whole = ok; !ok {
			return h, errors.New("engine: the prefiller's reply cannot be read to its end")
		}
		return h, nil
	}
	if string(choice[0]) == `"length"` && goesOn(x) {
		ids := choice[2]
		if rawjson.IsNull(ids) {
			ids = values[2]
		}
		h.First = firstOfReply(x, values[1], choice[1], ids)
	}
	return h, nil
}

// mayStop reports whether an answer may end with its first token.
func mayStop(x *Handoff) bool {
	least := x.Field(minTokens)
	return rawjson.IsNull(least) || string(least) == "0" || string(least) == "1"
}

// firstOfReply is the first token as the decoder and the client are told it; nil when it is not known well enough.
func firstOfReply(x *Handoff, params, text, ids []byte) *First {
	if rawjson.IsNull(params) {
		return nil
	}
	id, _ := rawjson.Member(params, "first_tok")
	if !rawjson.IsWhole(id) || len(text) < 3 || len(text) > maxFirstText || text[0] != '"' || text[len(text)-1] != '"' || partOfCharacter(text) {
		return nil
	}
	f := &First{ID: id, Text: text[1 : len(text)-1]}
	if !isIDList(x.Field(promptMember)) {
		if len(ids) > maxParamsBytes || !isIDList(ids) {
			return nil
		}
		f.Prompt = ids
	}
	return f
}

// partOfCharacter reports whether a text may be the part of a character whose other bytes are those of the next token: it is shown as U+FFFD.
func partOfCharacter(text []byte) bool {
	return bytes.Contains(text, []byte("\ufffd")) || bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`))
}

// isIDList reports whether a value is a list of at least one token id.
func isIDList(value []byte) bool {
	return isIDs(value) && bytes.ContainsAny(value, "0123456789")
}

// isPlain reports whether a member of a completion means the same when its first token is a part of its prompt. What is not among these may
// not: stop texts and grammars begin anew, penalties forget a token, seeds draw other numbers.
func isPlain(name string) bool {
	switch name {
	case "model", promptMember, maxTokens, streamMember, streamOptions, "temperature", "top_p", "top_k", "min_p", "user", "n", "best_of", "echo",
		"use_beam_search", "ignore_eos", "stop_token_ids", "cache_salt", "priority", "logit_bias", "skip_special_tokens", "repetition_penalty",
		"add_special_tokens", "session_id", "request_id", kvTransferParams, "prompt_logprobs", "store", "metadata":
		return true
	}
	return false
}

// goesOn reports whether the decoder may be given the first token as a part of its prompt.
func goesOn(x *Handoff) bool {
	if x.API != answer.APICompletions || x.Names == nil || x.MaxTokens == 1 {
		return false
	}
	if options := x.Field(streamOptions); !rawjson.IsNull(options) {
		only := true
		_, ok := rawjson.RewriteObject(nil, options, func(name string, _ []byte) ([]byte, []byte) {
			only = only && name == "include_usage"
			return nil, nil
		})
		if !ok || !only {
			return false
		}
	}
	for _, name := range x.Names() {
		if !isPlain(name) {
			return false
		}
	}
	return true
}

// Decode implements Connector: the client's own request, or what is left to do of it after the first token.
func (l LMCache) Decode(x *Handoff, h *Handed) (Message, error) {
	message := Message{Set: l.Withhold(x)}
	if h == nil || h.First == nil {
		return message, nil
	}
	message.First = h.First
	if h.First.Prompt == nil {
		message.Append = []Member{{promptMember, h.First.ID}}
	} else {
		message.Set = append(message.Set, Member{promptMember, withID(h.First.Prompt, h.First.ID)})
	}
	switch limit := x.Field(maxTokens); {
	case len(limit) == 0:
		message.Set = append(message.Set, Member{maxTokens, strconv.AppendInt(nil, completionTokens16-1, 10)})
	case x.MaxTokens > 1:
		message.Set = append(message.Set, Member{maxTokens, strconv.AppendInt(nil, int64(x.MaxTokens-1), 10)})
	}
	return message, nil
}

// withID is a list of token ids with one more.
func withID(ids, id []byte) []byte {
	out := make([]byte, 0, len(ids)+len(id)+1)
	out = append(append(out, ids[:len(ids)-1]...), ',')
	return append(append(out, id...), ']')
}

// Withhold implements Connector: a client's own parameters would have its prompt's cache sent to wherever it says.
func (LMCache) Withhold(x *Handoff) []Member { return Nixl{}.Withhold(x) }

// Keeps implements Connector: the cache is with the decoder that was named to the prefiller, and with no other.
func (LMCache) Keeps(bool) bool { return false }

var _ Connector = LMCache{}
