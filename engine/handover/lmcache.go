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

// LMCache is the protocol of LMCache's connector in vLLM (LMCacheConnectorV1 with enable_pd, transfer_channel nixl;
// also in LMCache's disagg_proxy_server and production-stack PR 890). The decoder is chosen first: the prefiller is
// told its receiving address, pushes the prompt's KV cache there, and sends the router a notification per
// tensor-parallel rank when that is done. Its reply has the first token. The decoder is told nothing; it finds the
// cache by the tokens of the prompt.
//
// A decoder of a completion continues after the first token: its prompt is the token ids including that one, and the
// client gets the token's text before the decoder's answer (see First). Anything but a plain completion is sent
// unchanged, as by llm-d's connector lmcache: the decoder generates the first token again from the cache, so that
// chunks have the chat's shape, and tool calls, reasoning, log probabilities and grammars are complete, which are lost
// when a chat is turned into a completion.
//
// Since LMCache is a cache, a failed transfer is harmless: missing blocks are computed.
type LMCache struct{}

const (
	returnTokenIDs = "return_token_ids"
	promptMember   = "prompt"
	// default length of a completion (OpenAI API, vLLM).
	completionTokens16 = 16
	// maxFirstText bounds the text of one token.
	maxFirstText = 1 << 10
)

// ErrNoReceiver means that the decoder's receiving address is unknown.
var ErrNoReceiver = errors.New("engine: it is not known where the decoder receives KV cache: " +
	"it is in no decoder_registry, and no decoder_init_port and decoder_alloc_port are given")

// Name implements Connector.
func (LMCache) Name() string { return "lmcache" }

// Order implements Connector.
func (LMCache) Order() Order { return PrefillFirst }

// Fits implements Connector.
func (LMCache) Fits(x *Request) error {
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

// Prefill implements Connector: the rules of nixl for a single token, and the decoder's receiving address.
func (LMCache) Prefill(x *Request) (Message, error) {
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
	message.Set[slices.IndexFunc(message.Set, func(m Member) bool {
		return m.Name == kvTransferParams
	})].JSON = to.spec(await.ID)
	if goesOn(x) && !isIDList(x.Field(promptMember)) {
		message.Set = append(message.Set, Member{returnTokenIDs, []byte("true")})
	}
	return message, nil
}

// specID is the id of a transfer: the request's, and a random number, so that notifications of earlier attempts, or of
// another client's request with the same id, are not mistaken for it.
func specID(x *Request) string {
	return x.ID + "-" + strconv.FormatUint(x.Number, 16)
}

// Reply implements Connector. A reply without the first token is valid: the decoder then gets the client's own request.
func (LMCache) Reply(x *Request, body []byte) (Handed, error) {
	h := Handed{}
	h.Usage, h.Known = answer.PromptUsage(x.API, body)
	values, ok := rawjson.Members(body, "choices", kvTransferParams, promptTokenIDs)
	if !ok {
		return h, errors.New("engine: the prefiller's reply is not a JSON object")
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
		return h, errors.New("engine: the choice in the prefiller's reply is not a JSON object")
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
func mayStop(x *Request) bool {
	least := x.Field(minTokens)
	return rawjson.IsNull(least) || string(least) == "0" || string(least) == "1"
}

// firstOfReply is the first token for the decoder and the client; nil when it is not known exactly.
func firstOfReply(x *Request, params, text, ids []byte) *First {
	if rawjson.IsNull(params) {
		return nil
	}
	id, _ := rawjson.Member(params, "first_tok")
	if !rawjson.IsWhole(id) || len(text) < 3 || len(text) > maxFirstText || text[0] != '"' ||
		text[len(text)-1] != '"' || partOfCharacter(text) {
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

// partOfCharacter reports whether a text may be part of a character that the next token completes: it is shown as
// U+FFFD.
func partOfCharacter(text []byte) bool {
	return bytes.Contains(text, []byte("\ufffd")) || bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`))
}

// isIDList reports whether a value is a list of at least one token id.
func isIDList(value []byte) bool {
	return isIDs(value) && bytes.ContainsAny(value, "0123456789")
}

// isPlain reports whether a member of a completion has the same effect when the first token moves into the prompt.
// Others may not: stop texts and grammars start anew, penalties miss a token, seeds draw other numbers.
func isPlain(name string) bool {
	switch name {
	case "model", promptMember, maxTokens, streamMember, streamOptions, "temperature", "top_p", "top_k", "min_p",
		"user", "n", "best_of", "echo", "use_beam_search", "ignore_eos", "stop_token_ids", "cache_salt", "priority",
		"logit_bias", "skip_special_tokens", "repetition_penalty",
		"add_special_tokens", "session_id", "request_id", kvTransferParams, "prompt_logprobs", "store", "metadata":
		return true
	}
	return false
}

// goesOn reports whether the decoder may get the first token as part of its prompt.
func goesOn(x *Request) bool {
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

// Decode implements Connector: the client's own request, or its rest after the first token.
func (l LMCache) Decode(x *Request, h *Handed) (Message, error) {
	message := Message{Set: nulled(x.Field, kvTransferParams)}
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

// withID is a list of token ids with one appended.
func withID(ids, id []byte) []byte {
	out := make([]byte, 0, len(ids)+len(id)+1)
	out = append(append(out, ids[:len(ids)-1]...), ',')
	return append(append(out, id...), ']')
}

// Keeps implements Connector: only the decoder named to the prefiller has the cache.
func (LMCache) Keeps(bool) bool { return false }

var _ Connector = LMCache{}
