package prompt

import "github.com/zeebo/xxh3"

// scopeField is a top-level member that the whole prompt depends on.
type scopeField uint8

// The members of Scope that are not tools: salts of the cache (vLLM, SGLang), adapters (SGLang lora_path, vLLM and
// TensorRT-LLM lora_request, llama.cpp lora, Hugging Face TGI adapter_id), another template (vLLM, Ollama), what stands
// in front of the prompt without being text (Ollama's context and images), and conversations that the engine stores
// (Responses).
const (
	scopeCacheSalt scopeField = iota
	scopeExtraKey
	scopeLoraPath
	scopeLoraRequest
	scopeLoraName
	scopeLoraID
	scopeLora
	scopeAdapter
	scopeAdapterID
	scopeChatTemplate
	scopeTemplate
	scopeContext
	scopeImages
	scopePreviousResponse
	scopeConversation
	scopePromptTemplate
	numScoped

	noScope = numScoped
)

// findScope returns which member of Scope the name is in this API, noScope for none.
func findScope(api API, name []byte) scopeField {
	switch string(name) {
	case "cache_salt":
		return scopeCacheSalt
	case "extra_key":
		return scopeExtraKey
	case "lora_path":
		return scopeLoraPath
	case "lora_request":
		return scopeLoraRequest
	case "lora_name":
		return scopeLoraName
	case "lora_id":
		return scopeLoraID
	case "lora":
		return scopeLora
	case "adapter":
		return scopeAdapter
	case "adapter_id":
		return scopeAdapterID
	case "chat_template":
		return scopeChatTemplate
	}
	switch api {
	case OllamaGenerate:
		switch string(name) {
		case "template":
			return scopeTemplate
		case "context":
			return scopeContext
		case "images":
			return scopeImages
		}
	case Responses:
		switch string(name) {
		case "previous_response_id":
			return scopePreviousResponse
		case "conversation":
			return scopeConversation
		case "prompt": // a stored prompt with its variables
			return scopePromptTemplate
		}
	}
	return noScope
}

// isTaped reports whether the field goes onto the tape of a chain: it is part of the prompt in this API.
func (f field) isTaped(api API) bool {
	switch f {
	case fTools, fFunctions, fDocuments:
		return true
	case fMessages:
		return api == Chat || api == OllamaChat || api == Messages
	case fSystem:
		return api == Messages || api == OllamaGenerate
	case fInstructions, fInput:
		return api == Responses
	case fPrompt:
		return api == Completions || api == OllamaGenerate
	case fSuffix:
		return api == Completions || api == OllamaGenerate
	case fText, fInputIDs:
		return api == Generate
	}
	return false
}

// composeScope makes Scope and ToolsBytes. c.text is room to write in.
func (c *Chain) composeScope(s *scan, body []byte) {
	scope := uint64(0)
	mix := func(tag byte) {
		if len(c.text) > 0 {
			c.text = append(c.text, tag)
			scope = xxh3.HashSeed(c.text, scope)
		}
		c.text = c.text[:0]
	}
	for _, f := range [...]field{fTools, fFunctions, fDocuments} {
		i, ok := c.tape.start(f)
		if v := &s.fields[f]; !ok && v.kind != Bad { // a member of it may have been a session id, so it is not taped yet
			i, ok = c.tape.value(&s.cur, body[v.at.Start:v.at.End]), true
		}
		if ok && !c.isEmpty(i) {
			c.json(i)
			c.ToolsBytes += len(c.text)
			mix(byte(f))
		}
	}
	for f := range c.scope {
		v := &c.scope[f]
		if v.kind == Bad || v.kind == Null {
			continue
		}
		if i := c.tape.value(&s.cur, body[v.at.Start:v.at.End]); !c.isEmpty(i) {
			c.json(i)
			mix(byte(numFields) + byte(f))
		}
	}
	c.Scope = scope
}

// isEmpty reports whether the value at i says nothing: null, "", [] or {}.
func (c *Chain) isEmpty(i uint32) bool {
	switch tok := &c.tape.tokens[i]; tok.kind {
	case String:
		return tok.from == tok.to
	case Array, Object:
		return tok.after == i+1
	default:
		return tok.kind == Null
	}
}

// value puts the one value in doc onto the tape and returns its token.
func (t *tape) value(cur *Cursor, doc []byte) uint32 {
	cur.Reset(doc)
	cur.out = &t.text
	first := uint32(len(t.tokens))
	t.open = -1
	for {
		switch k := cur.Next(); k {
		case Bad, End: // Bad cannot be: the value was scanned before
			return first
		case Key:
			t.key(cur.Raw())
		case Object, Array:
			t.enter(k)
		case ObjectEnd, ArrayEnd:
			t.leave()
		case Number:
			t.number(doc[cur.start:cur.end])
		case String:
			t.push(k, cur.outFrom)
		default:
			t.push(k, len(t.text))
		}
	}
}

// start is the first token of field f.
func (t *tape) start(f field) (i uint32, ok bool) { return uint32(t.parts[f] - 1), t.parts[f] > 0 }
