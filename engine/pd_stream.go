package engine

import "bytes"

// NoAnswer reports whether the beginning of a chat's stream, given in two parts, holds nothing of the answer: only events that say
// who speaks ({"delta":{"role":"assistant","content":""}}, vLLM 0.32.0), errors, the end mark, comments, and a part of an event.
func NoAnswer(held, piece []byte) bool {
	all := piece
	if len(held) > 0 {
		all = append(append(make([]byte, 0, len(held)+len(piece)), held...), piece...)
	}
	for len(all) > 0 {
		line, rest, whole := bytes.Cut(all, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case !whole:
			return bytes.HasPrefix([]byte("data:"), line[:min(len(line), 5)]) || len(line) > 0 && line[0] == ':' || bytes.HasPrefix(line, []byte("data:"))
		case len(line) == 0 || line[0] == ':':
		case bytes.HasPrefix(line, []byte("data:")):
			data := bytes.TrimSpace(line[len("data:"):])
			if !roleChunk(data) && firstMember(data) != eventError && string(data) != "[DONE]" {
				return false
			}
		default:
			return false
		}
		all = rest
	}
	return true
}

// roleChunk reports whether a chunk has no text, no tool call and no reason to end.
func roleChunk(data []byte) bool {
	choices, ok := memberOf(data, "choices")
	if !ok || len(choices) < 2 || choices[0] != '[' {
		return false
	}
	choice := choices[1:]
	c := cursor{b: choice}
	c.space()
	start := c.i
	if !c.skip() || c.take(',') {
		return false
	}
	delta, _ := memberOf(choice[start:], "delta")
	finish, _ := memberOf(choice[start:], "finish_reason")
	if !isNull(finish) {
		return false
	}
	c = cursor{b: delta}
	if !c.take('{') {
		return false
	}
	for {
		key, more := c.key()
		if !more {
			return true
		}
		c.space()
		at := c.i
		if !c.skip() {
			return false
		}
		if value := string(delta[at:c.i]); string(key) != "role" && value != `""` && value != "null" && value != "[]" {
			return false
		}
	}
}
