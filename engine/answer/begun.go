package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// NoAnswer reports whether the beginning of a chat's stream, given in two parts, contains nothing of the answer: only role
// announcements ({"delta":{"role":"assistant","content":""}}, vLLM 0.32.0), errors, the end mark, comments, and a partial
// event.
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

// roleChunk reports whether a chunk has no text, tool call or finish reason.
func roleChunk(data []byte) bool {
	choices, ok := rawjson.Member(data, "choices")
	if !ok || len(choices) < 2 || choices[0] != '[' {
		return false
	}
	choice := choices[1:]
	c := rawjson.Cursor{Data: choice}
	c.Space()
	start := c.Pos
	if !c.Skip() || c.Take(',') {
		return false
	}
	delta, _ := rawjson.Member(choice[start:], "delta")
	finish, _ := rawjson.Member(choice[start:], "finish_reason")
	if !rawjson.IsNull(finish) {
		return false
	}
	c = rawjson.Cursor{Data: delta}
	if !c.Take('{') {
		return false
	}
	for {
		key, more := c.Key()
		if !more {
			return true
		}
		c.Space()
		at := c.Pos
		if !c.Skip() {
			return false
		}
		if value := string(delta[at:c.Pos]); string(key) != "role" && value != `""` && value != "null" && value != "[]" {
			return false
		}
	}
}
