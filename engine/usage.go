package engine

import (
	"bytes"

	"github.com/warmpath/warmpath/fleet"
)

// The words for APIs, which say in what shape an answer reports its usage.
const (
	APIChat           = "chat"            // OpenAI /v1/chat/completions
	APICompletions    = "completions"     // OpenAI /v1/completions
	APIEmbeddings     = "embeddings"      // OpenAI /v1/embeddings
	APIResponses      = "responses"       // OpenAI /v1/responses
	APIMessages       = "messages"        // Anthropic /v1/messages
	APICountTokens    = "count_tokens"    // Anthropic /v1/messages/count_tokens
	APIGenerate       = "generate"        // SGLang /generate
	APIOllamaChat     = "ollama_chat"     // Ollama /api/chat
	APIOllamaGenerate = "ollama_generate" // Ollama /api/generate
	APIOther          = "other"           // anything else: the shape is told by the names in it
)

// TailBytes is how much of the end of an answer, or of one event of a stream, is looked at. Usage stands at the end
// of all known answers; only what follows it (llama.cpp's timings, Responses' user and metadata) has to fit.
const TailBytes = 8 << 10

// ParseUsage finds what a request cost in the tail of its answer: a JSON body or a stream, of which the beginning may
// be cut off anywhere. The last TailBytes are looked at. ok is false when they hold no usage.
//
// The shapes: OpenAI usage with prompt_tokens_details (vLLM 0.32.0, SGLang 0.5.23, TensorRT-LLM, llama.cpp), Responses
// usage with input_tokens_details, Anthropic usage (the prompt is the sum of its input parts), SGLang meta_info,
// llama.cpp timings, Ollama's counts. Cached tokens that are absent or null are not zero: see fleet.Usage.CachedKnown.
func ParseUsage(api string, tailOf []byte) (u fleet.Usage, ok bool) {
	b := lastBytes(tailOf, TailBytes)
	if bytes.HasPrefix(b, []byte("data:")) || bytes.HasPrefix(b, []byte("event:")) ||
		bytes.Contains(b, []byte("\ndata:")) { // JSON has no line end inside a string, so a body never has this
		s := UsageScanner{API: api}
		s.Write(b)
		return s.Close()
	}
	t := tail{api: api}
	if !t.read(b) {
		return u, false
	}
	return t.f.usage(api)
}

func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// maxIDBytes bounds the id of a response; the engines' own are 37 to 53 bytes long.
const maxIDBytes = 256

// ResponseID is the top-level "id" of a JSON answer, of which head is the beginning; "" when head does not show one.
func ResponseID(head []byte) string {
	return idOf(&cursor{b: head}, "")
}

// idOf reads an object up to its member "id" and returns that, or the "id" of its member parent.
func idOf(c *cursor, parent string) string {
	if !c.take('{') {
		return ""
	}
	for {
		key, ok := c.key()
		switch {
		case !ok:
			return ""
		case parent == "" && string(key) == "id":
			id, ok := c.str()
			if !ok || len(id) > maxIDBytes || bytes.IndexByte(id, '\\') >= 0 {
				return ""
			}
			return string(id)
		case parent != "" && string(key) == parent:
			return idOf(c, "")
		}
		if !c.skip() {
			return ""
		}
	}
}

// promptUsage is the usage in a whole answer, wherever in it that stands: parameters of many blocks may follow.
func promptUsage(api string, body []byte) (u fleet.Usage, ok bool) {
	value, _ := memberOf(body, "usage")
	return usageIn(api, value)
}

// usageIn is the usage that a member says.
func usageIn(api string, value []byte) (u fleet.Usage, ok bool) {
	f := noFigures()
	if isNull(value) || !f.object(value) {
		return u, false
	}
	return f.usage(api)
}
