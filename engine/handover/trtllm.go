package handover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
)

// TRTLLM is TensorRT-LLM's protocol (tensorrt_llm/serve/openai_disagg_service.py and openai_protocol.py, versions of
// April to September 2026), by the object disaggregated_params in requests and in choices[0] of replies.
//
// Context-first: the context worker gets the whole request, not streamed, as "context_only", computes the prompt and
// one token, and gives the cache's location in its reply. The generation worker gets that unchanged, as
// "generation_only", with the prompt's token ids, and emits the first token itself. Generation-first: both are asked at
// once and meet by the id; the generation worker finds the context worker by its description in GET /server_info.
//
// Ids exceed 2^53, and opaque_state, log probabilities and later members are the workers' own: everything is relayed as
// bytes. The KV cache is found by the id in the context worker's reply, which may differ from the request's.
type TRTLLM struct {
	TRTLLMOptions
	GenerationFirst bool
}

// TRTLLMOptions are the configurable parts of the protocol.
type TRTLLMOptions struct {
	// Key signs the generation worker's parameters in the header x-trtllm-disagg-auth (disagg_auth.py); newer workers
	// with a key reject unsigned requests. "" signs nothing.
	Key string
	// TokenIDsBase64 transmits token ids of chats in base64 (gen_tokids_ctxbytes), a third of the bytes.
	TokenIDsBase64 bool
	// LastMessageOnly drops all messages of a chat's decode leg but the last, since its token ids contain them
	// (gen_strip_message_history).
	LastMessageOnly bool
}

// With is the protocol with other options.
func (t TRTLLM) With(o TRTLLMOptions) TRTLLM {
	t.TRTLLMOptions = o
	return t
}

const (
	// smaller ids belong to the workers (disagg_utils.py, get_global_disagg_request_id).
	firstDisaggID = 1 << 40
	styleContext  = "0" // schedule_style
	styleGenerate = "1"
)

// DisaggID is a request id in the range of TensorRT-LLM's orchestrator, from a number of 63 or 64 bits.
func DisaggID(number uint64) uint64 {
	return number%(1<<63-1-firstDisaggID) + firstDisaggID
}

// Name implements Connector.
func (t TRTLLM) Name() string {
	if t.GenerationFirst {
		return "trtllm_generation_first"
	}
	return "trtllm"
}

// Order implements Connector.
func (t TRTLLM) Order() Order {
	if t.GenerationFirst {
		return Together
	}
	return PrefillFirst
}

// Fits implements Connector: chats and completions with one prompt and one answer. A list with one prompt is one
// prompt.
func (TRTLLM) Fits(x *Request) error {
	if x.API != answer.APIChat && x.API != answer.APICompletions {
		return fmt.Errorf("the connector trtllm knows no API %q", x.API)
	}
	if x.API != answer.APICompletions || !severalPrompts(x.Field("prompt")) {
		return fitsOnce(x)
	}
	if rawjson.Count(x.Field("prompt"), 2) != 1 {
		return errors.New("it has several prompts")
	}
	y := *x
	y.API = answer.APIChat // the rest of the rules
	return fitsOnce(&y)
}

// Prefill implements Connector. max_tokens is unchanged: "context_only" limits the answer.
func (t TRTLLM) Prefill(x *Request) (Message, error) {
	style := styleContext
	if t.GenerationFirst {
		style = styleGenerate
	}
	params := strconv.AppendUint([]byte(`{"request_type":"context_only","disagg_request_id":`), DisaggID(x.Number), 10)
	params = append(params, `,"schedule_style":`+style...)
	if t.TokenIDsBase64 && x.API == answer.APIChat {
		params = append(params, `,"return_prompt_token_ids_b64":true`...)
	}
	set := []Member{
		{streamMember, []byte("false")}, {streamOptions, []byte("null")}, {disaggregatedParams, append(params, '}')},
	}
	if prompt := x.Field("prompt"); x.API == answer.APICompletions && severalPrompts(prompt) {
		set = append(set, Member{"prompt", rawjson.Element(prompt, 0)})
	}
	return Message{Set: set, Header: correlation(x)}, nil
}

// correlation sends both workers the conversation id in aiperf's header, unless the client does.
func correlation(x *Request) []Header {
	if x.Session == "" {
		return nil
	}
	return []Header{{"X-Correlation-ID", x.Session}}
}

// Reply implements Connector.
func (t TRTLLM) Reply(x *Request, body []byte) (Handed, error) {
	var h Handed
	values, ok := rawjson.Members(body, "choices", "usage", promptTokenIDs, promptTokenIDsB64)
	if !ok {
		return h, errors.New("engine: the context worker's reply is not a JSON object")
	}
	choices, usage := values[0], values[1]
	h.Usage, h.Known = answer.UsageIn(x.API, usage)
	// ctx_usage makes the decoder report it, which is impossible when both are asked at once
	h.Honest = h.Known && !t.GenerationFirst
	if n := rawjson.Count(choices, 2); n != 1 {
		many := "no choice"
		if n > 1 {
			many = "several choices"
		}
		return h, fmt.Errorf("engine: the context worker's reply has %s, where exactly one is needed", many)
	}
	choice, ok := rawjson.Members(rawjson.Element(choices, 0), "finish_reason", disaggregatedParams)
	if !ok {
		return h, errors.New("engine: the choice in the context worker's reply is not a JSON object")
	}
	if t.GenerationFirst { // the decoder has found it by the id
		h.ID = strconv.FormatUint(DisaggID(x.Number), 10)
		return h, nil
	}
	finish, params := choice[0], choice[1]
	if reason := string(finish); reason != `"length"` && reason != `"not_finished"` {
		h.Whole = true
		h.Answer, ok = withoutHandoff(body)
		if !ok {
			return h, errors.New("engine: the context worker's reply cannot be read to its end")
		}
		return h, nil
	}
	var err error
	if h.Params, err = generationParams(params, usage, finish); err != nil {
		return h, err
	}
	id, _ := rawjson.Member(params, "ctx_request_id")
	h.ID = string(id)
	h.More, err = t.promptIDs(x, values[2], values[3])
	return h, err
}

// generationParams are the context worker's parameters for the generation worker: unchanged except for request type,
// style and the prompt's usage.
func generationParams(params, usage, finish []byte) ([]byte, error) {
	switch {
	case rawjson.IsNull(params):
		return nil, ErrNoParams
	case params[0] != '{' || len(params) > maxParamsBytes || !json.Valid(params):
		return nil,
			fmt.Errorf("engine: the context worker's disaggregated_params are not an object, or longer than %d bytes",
				maxParamsBytes)
	}
	ids, _ := rawjson.Members(params, "ctx_request_id", "disagg_request_id")
	for i, name := range []string{"ctx_request_id", "disagg_request_id"} {
		if !rawjson.IsWhole(ids[i]) {
			return nil, fmt.Errorf("engine: the context worker's disaggregated_params lack %s (finish_reason %s, "+
				"ctx_request_id %s, disagg_request_id %s)",
				name, rawjson.OrNull(finish), rawjson.OrNull(ids[0]), rawjson.OrNull(ids[1]))
		}
	}
	out := make([]byte, 0, len(params)+len(usage)+64)
	out = append(out, `{"request_type":"generation_only"`...)
	out = rawjson.AppendOthers(out, params, "request_type", "schedule_style", "ctx_usage")
	out = append(out, `,"schedule_style":`+styleContext...)
	if !rawjson.IsNull(usage) && json.Valid(usage) {
		out = append(append(out, `,"ctx_usage":`...), usage...)
	}
	return append(out, '}'), nil
}

// promptIDs is the prompt as the generation worker is told it: token ids, so that it needs no tokenizer and reads the
// very prompt that was computed.
func (t TRTLLM) promptIDs(x *Request, ids, encoded []byte) ([]Member, error) {
	var set []Member
	switch {
	case x.API == answer.APIChat && isBase64(encoded):
		set = append(set, Member{promptTokenIDsB64, encoded})
		if x.Field(promptTokenIDs) != nil {
			set = append(set, Member{promptTokenIDs, []byte("null")})
		}
	case rawjson.IsNull(ids) && !rawjson.IsNull(encoded):
		var err error
		if ids, err = decodeIDs(encoded); err != nil {
			return nil, err
		}
		fallthrough
	case isIDs(ids):
		name := promptTokenIDs
		if x.API == answer.APICompletions {
			name = "prompt"
		}
		set = append(set, Member{name, ids})
	case rawjson.IsNull(ids):
		return nil, nil // older versions; the decoder reads the text
	default:
		return nil, errors.New("engine: the context worker's prompt_token_ids are not a list of token ids")
	}
	if messages := x.Field("messages"); t.LastMessageOnly && x.API == answer.APIChat {
		if n := rawjson.Count(messages, len(messages)); n > 1 {
			set = append(set, Member{"messages", rawjson.ListOf(rawjson.Element(messages, n-1))})
		}
	}
	return set, nil
}

// Decode implements Connector.
func (t TRTLLM) Decode(x *Request, h *Handed) (Message, error) {
	var params []byte
	set := make([]Member, 0, 4)
	switch {
	case t.GenerationFirst:
		id := strconv.AppendUint(nil, DisaggID(x.Number), 10)
		params = append(append([]byte(`{"request_type":"generation_only","ctx_request_id":`), id...),
			`,"disagg_request_id":`...)
		params = append(params, id...)
		if told, err := aboutContext(x.About); err == nil {
			params = append(params, told...)
		} else {
			return Message{}, err
		}
		params = append(params, `,"schedule_style":`+styleGenerate+`}`...)
		if prompt := x.Field("prompt"); x.API == answer.APICompletions && severalPrompts(prompt) {
			set = append(set, Member{"prompt", rawjson.Element(prompt, 0)})
		}
	case h == nil || !bytes.HasPrefix(h.Params, []byte("{")):
		return Message{}, ErrNoParams
	default:
		params = h.Params
		set = append(set, h.More...)
	}
	header := correlation(x)
	if t.Key != "" {
		if s := signature(t.Key, params); s != "" {
			header = append(header, Header{"x-trtllm-disagg-auth", s})
		}
	}
	return Message{Set: append(set, Member{disaggregatedParams, params}), Header: header}, nil
}

// aboutContext is a context worker's description as further members, with the first of a list of addresses.
func aboutContext(told string) ([]byte, error) {
	if told == "" || told == "null" {
		return nil, nil
	}
	if told[0] != '{' || !json.Valid([]byte(told)) {
		return nil,
			errors.New("engine: the disaggregated_params in the context worker's /server_info are not an object")
	}
	out := rawjson.AppendOthers(nil, []byte(told), "request_type", "ctx_request_id", "disagg_request_id",
		"schedule_style", ctxInfoEndpoint)
	if at, _ := rawjson.Member([]byte(told), ctxInfoEndpoint); !rawjson.IsNull(rawjson.First(at)) {
		out = append(append(out, `,"`+ctxInfoEndpoint+`":`...), rawjson.First(at)...)
	}
	return out, nil
}

// Keeps implements Connector: a context worker hands its blocks over once.
func (t TRTLLM) Keeps(sent bool) bool { return !sent && !t.GenerationFirst }

var _ Connector = TRTLLM{}

// withoutHandoff is a context worker's reply without the parts for routers: parameters in its choices and the prompt's
// token ids. ok is false when it cannot be parsed.
func withoutHandoff(body []byte) (answer []byte, ok bool) {
	out, err := rawjson.RewriteObject(nil, body, func(name string, value []byte) ([]byte, []byte) {
		switch name {
		case promptTokenIDs, promptTokenIDsB64:
			return nil, nil
		case "choices":
			if list, good := rawjson.RewriteList(nil, value, func(out, choice []byte, _ int) ([]byte, bool) {
				return rawjson.RewriteObject(out, choice, func(name string, value []byte) ([]byte, []byte) {
					if name == disaggregatedParams {
						return nil, nil
					}
					return []byte(name), value
				})
			}); good {
				return []byte(name), list
			}
		}
		return []byte(name), value
	})
	return out, err
}
