package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// ParseUsage finds usage in the tail of an answer: a JSON body or a stream whose beginning may be cut off anywhere. It
// reads the last TailBytes. ok is false when they contain no usage.
//
// The shapes: OpenAI usage with prompt_tokens_details (vLLM 0.32.0, SGLang 0.5.23, TensorRT-LLM, llama.cpp), Responses
// usage with input_tokens_details, Anthropic usage (the prompt is the sum of its input parts), SGLang meta_info,
// llama.cpp timings, Ollama's counts. Cached tokens that are absent or null are not zero: see fleet.Usage.CachedKnown.
func ParseUsage(api string, tailOf []byte) (u fleet.Usage, ok bool) {
	b := lastBytes(tailOf, TailBytes)
	if bytes.HasPrefix(b, []byte("data:")) || bytes.HasPrefix(b, []byte("event:")) ||
		bytes.Contains(b, []byte("\ndata:")) { // JSON has no line end inside a string, so a body never has this
		s := Scanner{API: api}
		s.Write(b)
		return s.Close()
	}
	t := tail{api: api}
	if !t.read(b) {
		return u, false
	}
	return t.f.usage(api)
}

// PromptUsage is the usage anywhere in a whole answer: parameters of many blocks may follow it.
func PromptUsage(api string, body []byte) (u fleet.Usage, ok bool) {
	value, _ := rawjson.Member(body, "usage")
	return UsageIn(api, value)
}

// UsageIn is the usage in a member's value.
func UsageIn(api string, value []byte) (u fleet.Usage, ok bool) {
	f := noFigures()
	if rawjson.IsNull(value) || !f.object(value) {
		return u, false
	}
	return f.usage(api)
}
