package handover

import (
	"bytes"
	"strconv"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// mostHeldEvent bounds a held-back event or whole answer; a longer one is passed on unchanged.
const mostHeldEvent = 16 << 20

// Stitch puts the first token before a decoder's answer to a completion, and corrects its usage, since that token was
// part of the decoder's prompt. In a stream it becomes an event before the first one with a choice. Anything else, such
// as an error, passes unchanged.
type Stitch struct {
	first  *First
	stream bool
	held   []byte
	done   bool // the token has been inserted
	off    bool // everything passes from now on
}

// NewStitch makes a Stitch for one answer.
func NewStitch(first *First, stream bool) *Stitch { return &Stitch{first: first, stream: stream} }

// Write takes a piece of the answer and returns what to pass on, valid until the next call.
func (s *Stitch) Write(piece []byte) []byte {
	if s.off {
		return piece
	}
	s.held = append(s.held, piece...)
	if !s.stream {
		return s.bounded(nil)
	}
	var out []byte
	for {
		event, rest, whole := cutEvent(s.held)
		if !whole {
			return s.bounded(out)
		}
		out = s.event(out, event)
		s.held = rest
		if s.off {
			out = append(out, rest...)
			s.held = nil
			return out
		}
	}
}

// Held is how many bytes of the answer wait for more.
func (s *Stitch) Held() int { return len(s.held) }

// bounded gives up on an event without an end.
func (s *Stitch) bounded(out []byte) []byte {
	if len(s.held) > mostHeldEvent {
		out = append(out, s.held...)
		s.held, s.off = nil, true
	}
	return out
}

// Close returns what is still held back, at the end of the answer.
func (s *Stitch) Close() []byte {
	rest := s.held
	s.held = nil
	if s.off || s.stream || len(rest) == 0 {
		return rest
	}
	if whole, ok := s.whole(rest); ok {
		return whole
	}
	return rest
}

// cutEvent cuts the first event off a stream, with the empty line that ends it.
func cutEvent(b []byte) (event, rest []byte, whole bool) {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return nil, b, false
		}
		line := b[at : at+n]
		at += n + 1
		if len(bytes.TrimSuffix(line, []byte("\r"))) == 0 {
			return b[:at], b[at:], true
		}
	}
}

// event appends an event in the form to be passed on.
func (s *Stitch) event(out, event []byte) []byte {
	at := bytes.Index(event, []byte("data:"))
	if at != 0 && (at < 0 || event[at-1] != '\n') {
		return append(out, event...)
	}
	start := at + len("data:")
	for start < len(event) && rawjson.IsSpace(event[start]) {
		start++
	}
	data := event[start:]
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return append(out, event...)
	}
	data = bytes.TrimRight(data[:end], "\r ")
	values, ok := rawjson.Members(data, "choices", "usage")
	if !ok {
		return append(out, event...)
	}
	if !s.done && rawjson.Count(values[0], 1) == 1 {
		if before, ok := s.before(data); ok {
			s.done = true
			out = append(append(append(out, event[:start]...), before...), event[start+len(data):]...)
		} else {
			s.off = true
			return append(out, event...)
		}
	}
	if fixed, ok := s.usage(values[1]); ok && s.done {
		from := start + offset(data, values[1])
		out = append(append(out, event[:from]...), fixed...)
		return append(out, event[from+len(values[1]):]...)
	}
	return append(out, event...)
}

// before is the chunk of the first token, modelled on the chunk that it precedes.
func (s *Stitch) before(chunk []byte) (out []byte, ok bool) {
	text := false
	out, ok = rawjson.RewriteObject(nil, chunk, func(name string, value []byte) ([]byte, []byte) {
		switch name {
		case "usage":
			value = []byte("null")
		case "choices":
			value, ok = rawjson.RewriteList(nil, value, func(out, choice []byte, _ int) ([]byte, bool) {
				return rawjson.RewriteObject(out, choice, func(name string, value []byte) ([]byte, []byte) {
					switch name {
					case "text":
						text = len(value) > 0 && value[0] == '"'
						value = quotedRaw(s.first.Text)
					case "finish_reason", "stop_reason", "logprobs", "token_ids", promptTokenIDs:
						value = []byte("null")
					}
					return []byte(name), value
				})
			})
			if !ok {
				return nil, nil
			}
		}
		return []byte(name), value
	})
	return out, ok && text
}

func quotedRaw(text []byte) []byte {
	return append(append([]byte{'"'}, text...), '"')
}

// whole is a non-streamed answer with the first token.
func (s *Stitch) whole(answer []byte) (out []byte, ok bool) {
	values, ok := rawjson.Members(answer, "choices", "usage")
	if !ok || rawjson.Count(values[0], 2) != 1 {
		return nil, false
	}
	text, _ := rawjson.Member(rawjson.Element(values[0], 0), "text")
	if len(text) < 2 || text[0] != '"' {
		return nil, false
	}
	at := offset(answer, text) + 1
	usage, fixed := s.usage(values[1])
	from := offset(answer, values[1])
	out = make([]byte, 0, len(answer)+len(s.first.Text)+16)
	switch {
	case !fixed:
		return append(append(append(out, answer[:at]...), s.first.Text...), answer[at:]...), true
	case from > at:
		out = append(append(append(out, answer[:at]...), s.first.Text...), answer[at:from]...)
		return append(append(out, usage...), answer[from+len(values[1]):]...), true
	default:
		out = append(append(append(out, answer[:from]...), usage...), answer[from+len(values[1]):at]...)
		return append(append(out, s.first.Text...), answer[at:]...), true
	}
}

// usage is a usage object with the first token moved from the prompt to the answer.
func (s *Stitch) usage(value []byte) (out []byte, ok bool) {
	if rawjson.IsNull(value) {
		return nil, false
	}
	return rawjson.RewriteObject(nil, value, func(name string, value []byte) ([]byte, []byte) {
		by := int64(0)
		switch name {
		case "prompt_tokens":
			by = -1
		case "completion_tokens":
			by = 1
		default:
			return []byte(name), value
		}
		c := rawjson.Cursor{Data: value}
		if n, ok := c.Count(); ok && n+by >= 0 {
			value = strconv.AppendInt(nil, n+by, 10)
		}
		return []byte(name), value
	})
}

// offset is the position of part in b.
func offset(b, part []byte) int {
	if part == nil {
		return 0
	}
	return cap(b) - cap(part)
}
