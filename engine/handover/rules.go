package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
)

// The members that the protocol sets.
const (
	kvTransferParams = "kv_transfer_params"
	ecTransferParams = "ec_transfer_params"
	maxTokens        = "max_tokens"
	maxCompletion    = "max_completion_tokens"
	maxOutput        = "max_output_tokens"
	minTokens        = "min_tokens"
	streamMember     = "stream"
	streamOptions    = "stream_options"
)

// Withhold returns what a request gets in place of the members by which a client could act as a router, in the
// protocols of all kinds of engine: have an engine dial an address, take or give away another client's KV cache or
// encoder cache, wait for a hand-over that never comes, or end; or choose a data-parallel rank. The kind of the
// request's own engine does not matter: it may not be known yet, and the engine may be a router. field is that of a
// Request.
func Withhold(field func(name string) []byte) []Member {
	set := nulled(
		field, kvTransferParams, ecTransferParams, // vLLM
		bootstrapHost, bootstrapPort, bootstrapRoom, bootstrapPairKey, prefillRank, // SGLang
		routedRank, olderRank,
		"encoder_urls", "need_wait_for_mm_inputs", "num_items_assigned", "http_worker_ipc", // its io_struct.py
		"kv_hints",          // to KVCR in SGLang and vLLM, which fetches from the address in them (kv_hints.py)
		disaggregatedParams, // TensorRT-LLM
	)
	// What vLLM's scheduler reads like members of the request: both become extra_args of the sampling parameters
	// (0.33.0, v1/request.py).
	for _, path := range inside {
		if value, found := without(field(path[0]), path[1:]); found {
			set = append(set, Member{path[0], value})
		}
	}
	return set
}

var inside = [...][]string{{"vllm_xargs"}, {"sampling_params", "extra_args"}}

// WithholdField returns what a form gets in place of the value of a field that Withhold would change as a member; ok is
// whether it would. An engine reads an object in a form as JSON (vLLM, transcription/protocol.py), perhaps more than is
// read here: one that is not read here becomes nothing.
func WithholdField(name string, value []byte) (with []byte, ok bool) {
	set := Withhold(func(member string) []byte {
		if member == name {
			return value
		}
		return nil
	})
	if len(set) > 0 && !rawjson.IsNull(set[0].JSON) {
		return set[0].JSON, true
	}
	for _, path := range inside {
		if path[0] == name && !json.Valid(value) {
			return nil, true
		}
	}
	return nil, len(set) > 0
}

// Withholds reports whether WithholdField may change a field.
func Withholds(name string) bool {
	_, ok := WithholdField(name, []byte{'x'})
	return ok
}

// without is an object without the members of a hand-over in it, or in its member at a path; found is whether there
// were any. Otherwise value is nothing.
func without(object []byte, path []string) (value []byte, found bool) {
	out, ok := rawjson.RewriteObject(nil, object, func(name string, v []byte) ([]byte, []byte) {
		switch key := rawjson.Decoded(name); {
		case len(path) > 0 && key == path[0]:
			if inner, some := without(v, path[1:]); some {
				found, v = true, inner
			}
		case len(path) == 0 && (key == kvTransferParams || key == ecTransferParams):
			found = true
			return nil, nil
		}
		return []byte(name), v
	})
	return out, ok && found
}

// nulled sets the members that the client has sent to null.
func nulled(field func(name string) []byte, names ...string) (set []Member) {
	for _, name := range names {
		if !rawjson.IsNull(field(name)) {
			set = append(set, Member{name, []byte("null")})
		}
	}
	return set
}

// maxParamsBytes bounds the object passed on: a prompt of a million tokens has 65,536 blocks of 16, each number of at
// most 8 bytes.
const maxParamsBytes = 4 << 20

// fitsOnce rejects requests with more than one prompt or answer, or for data about the prompt's tokens.
func fitsOnce(x *Request) error {
	switch {
	case x.Answers > 1 || !isOne(x.Field("best_of")):
		return errors.New("it asks for several answers")
	case string(x.Field("use_beam_search")) == "true":
		return errors.New("it asks for a beam search")
	case !rawjson.IsNull(x.Field("prompt_logprobs")):
		return errors.New("it asks for the log probabilities of its prompt")
	case string(x.Field("echo")) == "true":
		return errors.New("it asks for its prompt to be repeated")
	case x.API == answer.APICompletions && severalPrompts(x.Field("prompt")):
		return errors.New("it has several prompts")
	}
	return nil
}

// isOne reports whether a count is absent, null or 1.
func isOne(value []byte) bool { return rawjson.IsNull(value) || string(value) == "1" }

// severalPrompts reports whether the prompt of a completion is a list of prompts, even of one, instead of a text or a
// list of token ids.
func severalPrompts(value []byte) bool {
	c := rawjson.Cursor{Data: value}
	if !c.Take('[') {
		return false
	}
	c.Space()
	return c.Pos < len(value) && (value[c.Pos] == '"' || value[c.Pos] == '[')
}

// onlyPrompt turns a client's request into one for prefill and a single token, with these parameters.
func onlyPrompt(x *Request, params string) []Member {
	set := []Member{{kvTransferParams, []byte(params)}, {streamMember, []byte("false")}}
	limit := maxTokens
	if x.API == answer.APIResponses {
		limit = maxOutput
	}
	set = append(set, Member{limit, []byte("1")})
	if x.API == answer.APIChat && !rawjson.IsNull(x.Field(maxCompletion)) {
		set = append(set, Member{maxCompletion, []byte("1")})
	}
	if x.Field(minTokens) != nil {
		set = append(set, Member{minTokens, []byte("0")})
	}
	if x.Field(streamOptions) != nil {
		set = append(set, Member{streamOptions, []byte("null")})
	}
	return set
}

// tokenReply reads a prefiller's reply that contains only usage.
func tokenReply(x *Request, body []byte) (Handed, error) {
	h := Handed{}
	h.Usage, h.Known = answer.PromptUsage(x.API, body)
	if _, ok := rawjson.Member(body, "usage"); !ok {
		return h, errors.New("engine: the prefiller's reply is not a JSON object")
	}
	return h, nil
}

// checkParams reports kv_transfer_params that cannot be passed on. ok is false when the reply is not a JSON object.
func checkParams(params []byte, ok bool) error {
	switch {
	case !ok:
		return errors.New("engine: the prefiller's reply is not a JSON object")
	case rawjson.IsNull(params):
		return ErrNoParams
	case params[0] != '{' || params[len(params)-1] != '}' || len(params) > maxParamsBytes:
		// the cursor counted brackets without matching them
		return fmt.Errorf("engine: the prefiller's kv_transfer_params are not an object, or longer than %d bytes",
			maxParamsBytes)
	}
	return nil
}

// hostOf is the host of an address, without the brackets of IPv6.
func hostOf(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		return inner
	}
	if name, _, ok := strings.Cut(host, ":"); ok {
		return name
	}
	return host
}

// bootstrapPortOf is the prefiller's bootstrap port: declared, reported, or the default.
func bootstrapPortOf(x *Request) int {
	switch {
	case x.Prefiller.BootstrapPort > 0:
		return x.Prefiller.BootstrapPort
	case x.PrefillerPeer.BootstrapPort > 0:
		return x.PrefillerPeer.BootstrapPort
	default:
		return DefaultBootstrapPort
	}
}

// DefaultBootstrapPort is the default port of a prefiller's bootstrap server (SGLang's --disaggregation-bootstrap-port,
// vLLM's VLLM_MOONCAKE_BOOTSTRAP_PORT).
const DefaultBootstrapPort = 8998

// jsonString quotes text that needs no escapes: hosts, addresses and ids.
func jsonString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// quotedText is a text as JSON.
func quotedText(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // not reached: every string can be encoded
	}
	return b
}
