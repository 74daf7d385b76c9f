package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// stage is how far an answer has come.
type stage uint8

const (
	stageNone stage = iota // nothing, or only pings and announcements that come before any work
	// the engine works on it: its role, a part without text, or the progress of loading or of the prompt
	stageOpen
	stageToken // text, reasoning, the call of a tool, or the end
)

// stageOf is the stage that an event of any API shows. data may be cut off at its end. native is set if the event has
// the form of llama.cpp's own API. An event of an unknown form counts as text.
//
// The shapes: OpenAI's chunks (vLLM 0.32.0 and others: {"delta":{"role":"assistant","content":""}} comes first),
// llama.cpp's prompt_progress (return_progress), Responses and Messages by the type of the event, SGLang's /generate,
// Ollama's lines, whose loads and pulls have a status.
func stageOf(class eventClass, data []byte, native *bool) stage {
	var e event
	e.read(data)
	if class == eventNone && e.kind != nil {
		class = classOf(e.kind)
	}
	switch class {
	case eventPing, eventAnnounced, eventStarted, eventBroken, eventStopped, eventError:
		return stageNone
	case eventCompleted:
		return stageToken
	case eventOpened:
		return max(stageOpen, e.part())
	case eventNone:
	}
	*native = *native || e.native
	switch {
	case e.progress:
		return stageOpen
	case e.choices != nil:
		return choicesStage(e.choices)
	case e.text, e.done:
		return stageToken
	case e.known:
		return stageOpen
	}
	return stageToken
}

// event is what shows the stage of one event.
type event struct {
	kind     []byte // its type
	choices  []byte // with what follows
	item     []byte // the part that begins: item, part or content_block
	text     bool   // it has text, reasoning, tokens or the call of a tool
	done     bool   // it is the last
	progress bool   // it tells of the progress of a prompt
	native   bool   // see Scanner.Native
	known    bool   // it has a form in which text would have been seen
}

func (e *event) read(data []byte) {
	c := rawjson.Cursor{Data: data}
	if !c.Take('{') {
		return
	}
	for {
		key, more := c.Key()
		if !more {
			return
		}
		c.Space()
		at := c.Pos
		whole := c.Skip()
		e.member(key, data[at:c.Pos], data[at:])
		if !whole {
			return
		}
	}
}

// member reads a member: its value, and the value with what follows, for one that is cut off.
func (e *event) member(key, value, rest []byte) {
	switch string(key) {
	case "type":
		c := rawjson.Cursor{Data: rest}
		e.kind, _ = c.Str()
	case "choices":
		e.choices = rest
	case "item", "part", "content_block":
		e.item = rest
	case "prompt_progress":
		e.progress = filled(rest)
	case "delta", "text", "content", "response", "thinking", "output_ids", "message":
		e.known = true
		e.text = e.text || says(rest)
	case "done":
		e.known = true
		e.done = string(value) == "true"
	case "stop":
		e.native = string(value) == "false" || string(value) == "true"
		e.done = e.done || string(value) == "true"
	case "status":
		e.known = true
	}
}

// part is the stage that the part shows which begins: the call of a tool is made of tokens, a text has none yet.
func (e *event) part() stage {
	c := rawjson.Cursor{Data: e.item}
	if !c.Take('{') {
		return stageNone
	}
	for {
		key, more := c.Key()
		if !more {
			return stageNone
		}
		switch string(key) {
		case "type":
			name, _ := c.Str()
			if bytes.HasSuffix(name, []byte("_call")) || bytes.HasSuffix(name, []byte("tool_use")) ||
				bytes.HasPrefix(name, []byte("redacted_")) {
				return stageToken
			}
			continue
		case "text", "thinking":
			c.Space()
			if filled(e.item[c.Pos:]) {
				return stageToken
			}
		}
		if !c.Skip() {
			return stageNone
		}
	}
}

// says reports whether a value is text, or an object with a member that is: any but the role and the type.
func says(value []byte) bool {
	c := rawjson.Cursor{Data: value}
	if !c.Take('{') {
		return filled(value)
	}
	for {
		key, more := c.Key()
		if !more {
			return false
		}
		c.Space()
		if string(key) != "role" && string(key) != "type" && filled(value[c.Pos:]) {
			return true
		}
		if !c.Skip() {
			return false
		}
	}
}

// filled reports whether a value, which others may follow, is more than null, false or something empty.
func filled(value []byte) bool {
	if len(value) < 2 {
		return false
	}
	switch value[0] {
	case '"':
		return value[1] != '"'
	case '[', '{':
		c := rawjson.Cursor{Data: value, Pos: 1}
		c.Space()
		return c.Pos < len(value) && value[c.Pos] != ']' && value[c.Pos] != '}'
	case 'n', 'f':
		return false
	}
	return true
}

// choicesStage is the stage that OpenAI's choices show. Without any they are the usage, or what Azure's filter says of
// a prompt.
func choicesStage(choices []byte) stage {
	c := rawjson.Cursor{Data: choices}
	if !c.Take('[') {
		return stageToken
	}
	for at := stageNone; ; at = stageOpen {
		if !c.Take('{') {
			return at
		}
		known := false
		for {
			key, more := c.Key()
			if !more {
				break
			}
			c.Space()
			value := c.Data[c.Pos:]
			known = known || string(key) == "delta" || string(key) == "text"
			if string(key) != "index" &&
				(string(key) == "delta" && says(value) || string(key) != "delta" && filled(value)) {
				return stageToken
			}
			if !c.Skip() {
				return stageOpen
			}
		}
		if !known {
			return stageToken
		}
		if !c.Take('}') || !c.Take(',') {
			return stageOpen
		}
	}
}

// NoAnswer reports whether the beginning of a chat's stream, given in two parts, contains nothing of the answer: only
// role announcements, errors, the end mark, comments, and a partial event.
func NoAnswer(held, piece []byte) bool {
	all := piece
	if len(held) > 0 {
		all = append(append(make([]byte, 0, len(held)+len(piece)), held...), piece...)
	}
	var native bool
	for len(all) > 0 {
		line, rest := all, []byte(nil)
		end := lineEnd(all)
		if end >= 0 {
			line, rest = all[:end], all[end+1:] // between the two bytes of one end is an empty line, which says nothing
		}
		switch {
		case end < 0:
			return bytes.HasPrefix([]byte("data:"), line[:min(len(line), 5)]) || len(line) > 0 && line[0] == ':' ||
				bytes.HasPrefix(line, []byte("data:"))
		case len(line) == 0 || line[0] == ':':
		case bytes.HasPrefix(line, []byte("data:")):
			data := bytes.TrimSpace(line[len("data:"):])
			if string(data) != "[DONE]" && stageOf(firstMember(data), data, &native) == stageToken {
				return false
			}
		default:
			return false
		}
		all = rest
	}
	return true
}
