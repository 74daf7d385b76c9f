package answer

import (
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// figure is one number in an engine's usage, by its name there.
type figure int

const (
	noFigure         figure = iota - 1
	promptTokens            // OpenAI, SGLang meta_info: the whole prompt
	completionTokens        // OpenAI, SGLang meta_info
	inputTokens             // Responses: the whole prompt. Anthropic: its uncached part
	outputTokens            // Responses, Anthropic
	detailCached            // OpenAI prompt_tokens_details, Responses input_tokens_details
	flatCached              // SGLang meta_info; usage.cached_tokens of SMG's mock engine
	cacheRead               // Anthropic
	cacheCreated            // Anthropic
	timingCached            // llama.cpp timings.cache_n
	timingPrompt            // llama.cpp timings.prompt_n: the uncached part of the prompt
	timingPredicted         // llama.cpp timings.predicted_n
	evaluated               // llama.cpp /completion tokens_evaluated: the whole prompt
	predicted               // llama.cpp /completion tokens_predicted
	promptEval              // Ollama: the whole prompt; absent in old versions when all of it was cached
	promptEvalCached        // Ollama since 0.33.3
	evalCount               // Ollama
	totalTokens             // all that some answers to rerank requests have (Jina's API)
	numFigures
)

// figures are the numbers in an answer. A negative value is absent.
type figures [numFigures]int64

func noFigures() (f figures) {
	for i := range f {
		f[i] = -1
	}
	return f
}

// merge applies a later event. All figures grow during a stream, so a later one wins; but a zero, which some servers
// send for unknown values, does not replace a number.
func (f *figures) merge(later *figures) {
	for i, n := range later {
		if n > 0 || n == 0 && f[i] < 0 {
			f[i] = n
		}
	}
}

// fill adds what is still unknown.
func (f *figures) fill(other *figures) {
	for i, n := range other {
		if f[i] < 0 {
			f[i] = n
		}
	}
}

// add sums the answers of a batch.
func (f *figures) add(other *figures) {
	for i, n := range other {
		if n >= 0 {
			f[i] = max(f[i], 0) + n
		}
	}
}

// memberFigure is the figure for a member of a usage, meta_info or timings object.
func memberFigure(key []byte) figure {
	switch string(key) {
	case "prompt_tokens":
		return promptTokens
	case "completion_tokens":
		return completionTokens
	case "input_tokens":
		return inputTokens
	case "output_tokens":
		return outputTokens
	case "total_tokens":
		return totalTokens
	case "cached_tokens":
		return flatCached
	case "cache_read_input_tokens":
		return cacheRead
	case "cache_creation_input_tokens":
		return cacheCreated
	case "cache_n":
		return timingCached
	case "prompt_n":
		return timingPrompt
	case "predicted_n":
		return timingPredicted
	}
	return noFigure
}

// topFigure is the figure for a top-level member of the answer.
func topFigure(key []byte) figure {
	switch string(key) {
	case "tokens_evaluated":
		return evaluated
	case "tokens_predicted":
		return predicted
	case "prompt_eval_count":
		return promptEval
	case "prompt_eval_cached_count":
		return promptEvalCached
	case "eval_count":
		return evalCount
	}
	return noFigure
}

// object reads a whole usage, meta_info or timings object. A truncated or null object gives nothing.
func (f *figures) object(b []byte) bool {
	c := rawjson.Cursor{Data: b}
	if !c.Take('{') {
		return false
	}
	got, any := noFigures(), false
	for {
		key, ok := c.Key()
		if !ok {
			break
		}
		switch fig := memberFigure(key); {
		case fig != noFigure:
			n, ok := c.Count()
			if ok {
				got[fig], any = n, true
			}
		case string(key) == "prompt_tokens_details" || string(key) == "input_tokens_details":
			if n, ok := cachedDetail(&c); ok {
				got[detailCached] = n
			}
		default:
			if !c.Skip() {
				return false
			}
		}
	}
	if !any || !c.Take('}') {
		return false
	}
	f.fill(&got)
	return true
}

// cachedDetail skips a details object, which may be null, and returns its cached_tokens.
func cachedDetail(c *rawjson.Cursor) (n int64, ok bool) {
	if !c.Take('{') {
		c.Skip()
		return 0, false
	}
	for {
		key, more := c.Key()
		if !more {
			c.Take('}')
			return n, ok
		}
		if string(key) == "cached_tokens" {
			n, ok = c.Count()
		} else if !c.Skip() {
			return 0, false
		}
	}
}

// usage interprets the figures for an API. ok is false if they lack the size of the prompt or the answer.
func (f *figures) usage(api string) (u fleet.Usage, ok bool) {
	switch api {
	case APIMessages:
		return f.anthropic()
	case APIResponses:
		return build(f[inputTokens], f[detailCached], f[outputTokens])
	case APIGenerate:
		return build(f[promptTokens], f[flatCached], f[completionTokens])
	case APIOllamaChat, APIOllamaGenerate:
		return build(f[promptEval], f[promptEvalCached], f[evalCount])
	case APICountTokens:
		return u, false
	case APIOther, APIEmbeddings:
		switch {
		case f[inputTokens] >= 0 && (f[cacheRead] >= 0 || f[cacheCreated] >= 0):
			return f.anthropic()
		case f[inputTokens] >= 0:
			return build(f[inputTokens], f[detailCached], f[outputTokens])
		case f[promptEval] >= 0 || f[evalCount] >= 0:
			return build(f[promptEval], f[promptEvalCached], f[evalCount])
		}
		if u, ok = f.openAI(); ok {
			return u, true
		}
		return build(f[totalTokens], -1, -1)
	}
	return f.openAI()
}

// anthropic sums up the prompt, of which input_tokens is only the part neither read from nor written to the cache
// (Anthropic Messages API; vLLM 0.32.0 and SGLang 0.5.23 do the same).
func (f *figures) anthropic() (fleet.Usage, bool) {
	prompt := f[inputTokens]
	if prompt >= 0 {
		prompt += max(f[cacheRead], 0) + max(f[cacheCreated], 0)
	}
	return build(prompt, f[cacheRead], f[outputTokens])
}

// openAI reads the OpenAI shape, completed by llama.cpp's timings (which replace it in a stream without requested
// usage).
func (f *figures) openAI() (fleet.Usage, bool) {
	prompt, cached, output := f[promptTokens], f[detailCached], f[completionTokens]
	if prompt < 0 {
		prompt = f[evaluated]
	}
	if prompt < 0 && f[timingCached] >= 0 && f[timingPrompt] >= 0 {
		prompt = f[timingCached] + f[timingPrompt]
	}
	if output < 0 {
		output = max(f[predicted], f[timingPredicted])
	}
	if cached < 0 {
		cached = max(f[flatCached], f[timingCached])
	}
	if cached < 0 && f[timingPrompt] >= 0 && prompt >= f[timingPrompt] {
		cached = prompt - f[timingPrompt]
	}
	return build(prompt, cached, output)
}

// mostTokens bounds what one answer may claim for its prompt, and for itself: contexts have ten million tokens at
// most. An engine that says more is taken to have said nothing, or one answer would use up a tenant's days.
const mostTokens = 1 << 27

func build(prompt, cached, output int64) (u fleet.Usage, ok bool) {
	if prompt < 0 && output < 0 || prompt > mostTokens || output > mostTokens {
		return u, false
	}
	u.PromptTokens = int(max(prompt, 0))
	u.OutputTokens = int(max(output, 0))
	if cached >= 0 && prompt >= 0 {
		u.CachedTokens = int(min(cached, prompt))
		u.CachedKnown = true
	}
	return u, true
}
