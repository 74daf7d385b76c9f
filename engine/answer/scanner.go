// Package answer reads what an engine's answer says about itself while it is relayed: usage with cached tokens, whether it has begun, ended
// or failed, the id of a stored response. It owns the shapes of all APIs' usage, and reads whole bodies and streams in pieces of any size
// with bounded memory. It never changes, holds back or rejects an answer.
package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// Scanner watches a streamed answer (server-sent events or JSON lines) pass by, in pieces of any size, and finds
// its usage, its end and its errors. It looks at events line by line and parses only those that may hold something; it
// keeps at most 2×TailBytes of an event that is split over pieces. The zero value is ready and takes the stream for
// APIOther. What it finds does not depend on where the stream is split.
type Scanner struct {
	API string // one of the API words; set before the first Write

	part  []byte // the end of the line that is still to be completed
	head  [headBytes]byte
	size  int        // bytes of that line so far
	event eventClass // by the "event:" line of the event that is being read

	f     figures
	found bool
	last  []byte // the end of the last SGLang answer: each chunk holds one, only the last is parsed
	id    string

	data, done, failed bool
	code               int // of the first error event
	said               string
}

// headBytes of a line are kept for its beginning: enough for the id in OpenAI's and vLLM's response.created.
const headBytes = 256

// Reset makes the scanner ready for another stream and keeps its memory.
func (s *Scanner) Reset(api string) {
	*s = Scanner{API: api, part: s.part[:0], last: s.last[:0]}
}

// Write looks at the next piece of the stream. It keeps no reference to p.
func (s *Scanner) Write(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.hold(p)
			return
		}
		if s.size > 0 {
			s.hold(p[:end])
			s.flush()
		} else {
			s.line(p[:min(end, headBytes)], lastBytes(p[:end], TailBytes), end)
		}
		p = p[end+1:]
	}
}

// hold keeps the part of a line that a piece ends with: its first headBytes and at least its last TailBytes.
func (s *Scanner) hold(p []byte) {
	if s.size < headBytes {
		copy(s.head[s.size:], p)
	}
	s.size += len(p)
	p = lastBytes(p, TailBytes)
	if len(s.part)+len(p) > 2*TailBytes {
		s.part = append(s.part[:0], lastBytes(s.part, TailBytes-len(p))...)
	}
	s.part = append(s.part, p...)
}

// flush ends the line that was held.
func (s *Scanner) flush() {
	size := s.size
	s.size = 0
	s.line(s.head[:min(size, headBytes)], lastBytes(s.part, TailBytes), size)
	s.part = s.part[:0]
}

// line looks at one line of size bytes: its beginning and its end, which may overlap or leave a gap.
func (s *Scanner) line(head, end []byte, size int) {
	if len(end) > 0 && end[len(end)-1] == '\r' {
		end = end[:len(end)-1]
		size--
		head = head[:min(len(head), size)]
	}
	if size == 0 {
		s.event = eventNone
		return
	}
	switch {
	case head[0] == ':': // a comment: llama.cpp's and proxies' keep-alive
	case head[0] == '{' || head[0] == '[': // a JSON line (Ollama), or a body that is no stream
		s.payload(head, end)
	case bytes.HasPrefix(head, []byte("data:")):
		if size <= len(end) {
			end = end[len("data:"):]
		}
		s.payload(head[len("data:"):], end)
	case bytes.HasPrefix(head, []byte("event:")):
		s.event = classOf(bytes.TrimSpace(head[len("event:"):]))
		s.failed = s.failed || s.event.failed()
		s.done = s.done || s.event.done()
	case bytes.HasPrefix(head, []byte("error:")): // llama.cpp before 2025
		s.failed = true
	case bytes.HasPrefix(head, []byte("id:")), bytes.HasPrefix(head, []byte("retry:")):
	default:
		s.data = true
	}
}

// payload looks at the data of an event.
func (s *Scanner) payload(head, end []byte) {
	head = bytes.TrimLeft(head, " \t")
	if bytes.HasPrefix(head, []byte("[DONE]")) {
		s.done = true
		return
	}
	class := s.event
	if class == eventNone {
		class = firstMember(head)
	}
	if class.failed() && s.code == 0 {
		s.code = errorCode(end)
		s.said = errorMessage(end)
	}
	s.failed = s.failed || class.failed()
	s.done = s.done || class.done()
	s.data = s.data || class.data()
	if class == eventAnnounced && s.id == "" {
		c := rawjson.Cursor{Data: head}
		s.id = idOf(&c, "response")
	}
	if class == eventPing || class == eventError || !s.hint(end) {
		return
	}
	if s.API == APIGenerate {
		s.last = append(s.last[:0], end...)
		return
	}
	s.parse(end, class)
}

// hint is a cheap test that an event may hold what is looked for. A name in quotes that are not escaped cannot
// stand inside a string, so text that merely speaks of usage does not pass.
func (s *Scanner) hint(end []byte) bool {
	switch s.API {
	case APICountTokens:
		return false
	case APIGenerate:
		return bytes.Contains(end, []byte(`"meta_info"`))
	case APIOllamaChat, APIOllamaGenerate:
		return bytes.Contains(end, []byte(`"done"`))
	}
	if opensObject(end, `"usage"`) || opensObject(end, `"timings"`) {
		return true
	}
	return (s.API == APIOther || s.API == "") && (opensObject(end, `"meta_info"`) ||
		bytes.Contains(end, []byte(`eval_count"`)) || bytes.Contains(end, []byte(`"tokens_evaluated"`)))
}

// opensObject reports whether a mention of a quoted name is followed by a colon and an opening brace, and not, as in
// most chunks of a stream, by null.
func opensObject(b []byte, quoted string) bool {
	for {
		i := bytes.Index(b, []byte(quoted)) // not LastIndex, which is ten times slower
		if i < 0 {
			return false
		}
		b = b[i+len(quoted):]
		c := rawjson.Cursor{Data: b}
		if c.Take(':') && c.Take('{') {
			return true
		}
	}
}

func (s *Scanner) parse(end []byte, class eventClass) {
	api := s.API
	if api == "" {
		api = APIOther
	}
	t := tail{api: api, inner: class.inner(), trusted: class == eventCompleted}
	if t.read(end) {
		if !s.found {
			s.f = noFigures()
		}
		s.f.merge(&t.f)
		s.found = true
	}
	s.done = s.done || t.done
}

// Close ends the stream and returns what it said the request cost; ok is false when it did not say.
func (s *Scanner) Close() (u fleet.Usage, ok bool) {
	if s.size > 0 {
		s.flush()
	}
	if len(s.last) > 0 {
		s.parse(s.last, eventNone)
		s.last = s.last[:0]
	}
	if !s.found {
		return u, false
	}
	api := s.API
	if api == "" {
		api = APIOther
	}
	return s.f.usage(api)
}

// Data reports whether a part of the answer has been seen: not only comments, pings and the announcements that
// engines send before they compute (vLLM sends response.created at once). Time to first token ends here.
func (s *Scanner) Data() bool { return s.data }

// Done reports whether the stream's own end mark was seen: [DONE], message_stop, response.completed or its kin, or
// Ollama's "done": true. A stream of these APIs that ends without was cut: a killed SGLang scheduler ends one so.
func (s *Scanner) Done() bool { return s.done }

// Failed reports whether an error event was seen. vLLM sends a normal [DONE] after it.
func (s *Scanner) Failed() bool { return s.failed }

// ErrorCode is the HTTP status that the first error event names (vLLM and SGLang: "code":400), 0 when it names none.
func (s *Scanner) ErrorCode() int { return s.code }

// ErrorText is what the first error event says, "" when there was none or it says nothing.
func (s *Scanner) ErrorText() string { return s.said }

// ResponseID is the id that a Responses stream announces in response.created, "" before.
func (s *Scanner) ResponseID() string { return s.id }
