package prompt

import (
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// scopeField is a top-level member on which the whole prompt depends.
type scopeField uint8

// The members of Scope other than tools: cache salts (vLLM, SGLang), adapters (SGLang lora_path, vLLM and TensorRT-LLM
// lora_request, llama.cpp lora, Hugging Face TGI adapter_id), another template (vLLM, Ollama), non-text before the
// prompt (Ollama's context and images), and conversations stored by the engine (Responses).
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

// findScope is the member of Scope with this name in this API; noScope for none.
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

// mainField is the member with the prompt itself, as messages or as text; numFields when the API has none.
func (a API) mainField() field {
	switch a {
	case Chat, OllamaChat, Messages:
		return fMessages
	case Responses:
		return fInput
	case Completions, OllamaGenerate:
		return fPrompt
	case Generate:
		return fText
	}
	return numFields
}

// isPlain reports whether the main field is text instead of messages.
func (a API) isPlain() bool { return a == Completions || a == OllamaGenerate || a == Generate }

// frontField is the member whose text precedes the main field's wherever it is in the body; numFields for none.
func (a API) frontField() field {
	switch a {
	case Messages, OllamaGenerate:
		return fSystem
	case Responses:
		return fInstructions
	}
	return numFields
}

// isTaped reports whether the field goes onto the tape: it is part of the prompt in this API.
func (f field) isTaped(api API) bool {
	return lumpOf(f) >= 0 || f == api.mainField() || f == api.frontField() ||
		(f == fSuffix || f == fInputIDs) && f.hasText(api)
}

// composeScope computes Scope and ToolsBytes. The end of c.text is scratch. It returns false where the members of Scope
// have more pieces than a chain may have.
func (c *Chain) composeScope(s *scan, body []byte) bool {
	mix := func(tag byte, l lump) {
		if l.size == 0 {
			return
		}
		for _, h := range [...]*uint64{&c.Scope, &c.Space} {
			if h == &c.Space && tag < byte(numFields) {
				continue
			}
			*h = (bits.RotateLeft64(*h, 23) ^ l.hash ^ uint64(tag)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
			*h ^= *h >> 32
		}
	}
	for n, f := range [numLumps]field{fTools, fFunctions, fDocuments} {
		v := &s.fields[f]
		if v.Kind == jsonscan.Bad {
			continue
		}
		l := &c.lumps[n]
		if !c.lumpKnown[n] {
			i, ok := c.tape.start(f)
			if !ok { // one of its members may be an id, so it is not taped yet
				if i = c.tape.value(&s.cur, body[v.At.Start:v.At.End]); c.crowded() {
					return false
				}
			}
			*l = c.lump(i)
			s.mem.learnValue(body, v.At, *l)
		}
		c.ToolsBytes += l.size
		mix(byte(f), *l)
	}
	for f := range c.scope {
		v := &c.scope[f]
		if v.Kind == jsonscan.Bad || v.Kind == jsonscan.Null {
			continue
		}
		i := c.tape.value(&s.cur, body[v.At.Start:v.At.End])
		if c.crowded() {
			return false
		}
		mix(byte(numFields)+byte(f), c.lump(i))
	}
	return true
}

// numLumps is the number of members that can be lumps: tools, functions and documents. They enter the prompt as JSON,
// so that their whole size counts.
const numLumps = 3

// lumpOf is the index of f among them; -1 for other members.
func lumpOf(f field) int {
	switch f {
	case fTools:
		return 0
	case fFunctions:
		return 1
	case fDocuments:
		return 2
	}
	return -1
}

// lump measures the value at i.
func (c *Chain) lump(i uint32) lump {
	if c.isEmpty(i) {
		return lump{}
	}
	from := len(c.text)
	c.json(i)
	l := lump{size: len(c.text) - from, hash: xxh3.Hash(c.text[from:])}
	c.text = c.text[:from]
	return l
}

// isEmpty reports whether the value at i is null, "", [] or {}.
func (c *Chain) isEmpty(i uint32) bool {
	switch tok := &c.tape.tokens[i]; tok.kind {
	case jsonscan.String:
		return tok.from == tok.to
	case jsonscan.Array, jsonscan.Object:
		return tok.after == i+1
	default:
		return tok.kind == jsonscan.Null
	}
}

// value puts the one value in doc onto the tape and returns its token. It ends where there are more than maxTokens.
func (t *tape) value(cur *jsonscan.Cursor, doc []byte) uint32 {
	cur.Reset(doc)
	cur.Out = &t.text
	first := uint32(len(t.tokens))
	t.open = -1
	for len(t.tokens) <= maxTokens {
		switch k := cur.Next(); k {
		case jsonscan.Bad, jsonscan.End: // Bad cannot occur: the value was scanned before
			return first
		case jsonscan.Key:
			t.key(cur.Raw())
		case jsonscan.Object, jsonscan.Array:
			t.enter(k)
		case jsonscan.ObjectEnd, jsonscan.ArrayEnd:
			t.leave()
		case jsonscan.Number:
			t.number(cur.Token())
		case jsonscan.String:
			t.push(k, cur.OutFrom)
		default:
			t.push(k, len(t.text))
		}
	}
	return first
}

// start is the first token of field f.
func (t *tape) start(f field) (i uint32, ok bool) { return uint32(t.parts[f] - 1), t.parts[f] > 0 }
