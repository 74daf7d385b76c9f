// Package answer reads usage, begin, end, failure and the id of a stored response from an engine's answer while it is
// relayed. It owns the shapes of all APIs' usage, and reads whole bodies and streams in pieces of any size with bounded
// memory. It never changes, delays or rejects an answer.
package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// Scanner observes a streamed answer (server-sent events or JSON lines) in pieces of any size, and finds its usage, end
// and errors. It parses only lines that may contain these, and keeps at most 2×TailBytes of an event split over pieces.
// The zero value is ready and treats the stream as APIOther. Results do not depend on the pieces.
type Scanner struct {
	API    string // one of the API words; set before the first Write
	Items  bool   // collect the ids of a response's items: see TakeItems
	Learns bool   // look for what shows that an answer is whole, beside the end mark: see Finished

	part  []byte // of the incomplete line
	head  [headBytes]byte
	size  int        // bytes of that line so far
	event eventClass // by the "event:" line of the event that is being read

	afterCR bool // the last byte was a carriage return that ended a line

	f      figures
	found  bool
	counts Counts // of the incomplete line, SGLang's alone
	id     string

	items []string // that were not taken yet
	named int      // items whose id was found
	item  string   // the last of them

	events, bytes, least int // of the answer's events: their number, their length, the length of the shortest

	same     [sameBytes]byte // the text of the last line of Ollama's API, so far as it is kept
	sameSize int
	repeats  int // lines in a row with that text

	stage        stage // the furthest that the answer has come
	signs        bool  // a comment or a ping has come, which is for the client
	news         bool  // see TakeNews
	native       bool  // see Native
	finished     bool  // see Finished
	cut          bool  // see Cut
	done, failed bool
	code         int // of the first error event
	said         string
}

// sameBytes is the longest text that is compared with the next one: a token.
const sameBytes = 32

// manyRepeats is how many equal texts in a row show that a model repeats itself: half of what Ollama allows, since a
// line may have two tokens.
const manyRepeats = 15

// headBytes is how much of a line's beginning is kept: enough for the id in OpenAI's and vLLM's response.created, and
// for the choices of a chunk before a prompt's token ids (vLLM, return_token_ids).
const headBytes = 512

// Reset prepares the scanner for another stream and keeps its memory.
func (s *Scanner) Reset(api string) {
	*s = Scanner{API: api, part: s.part[:0]}
}

// Write reads the next piece of the stream. It keeps no reference to p.
func (s *Scanner) Write(p []byte) {
	for len(p) > 0 {
		if s.afterCR {
			if s.afterCR = false; p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		end := lineEnd(p)
		if end < 0 {
			s.hold(p)
			return
		}
		if s.size > 0 {
			s.hold(p[:end])
			s.flush()
		} else {
			s.tally(p[:end])
			s.line(p[:min(end, headBytes)], lastBytes(p[:end], TailBytes), end)
		}
		s.afterCR = p[end] == '\r'
		p = p[end+1:]
	}
}

// lineEnd is where the first line of b ends: at a line feed, or at a carriage return, which a line feed may follow that
// belongs to it. No JSON has either within a value. It is below 0 if the end has not come.
func lineEnd(b []byte) int {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return bytes.IndexByte(b, '\r')
	}
	if cr := bytes.IndexByte(b[:end], '\r'); cr >= 0 {
		return cr
	}
	return end
}

// TakeNews reports whether anything has come since the last call but comments and pings, which a server sends by the
// clock.
func (s *Scanner) TakeNews() bool {
	news := s.news
	s.news = false
	return news
}

// TakeItems returns the ids of items of a response that have been announced since the last call, at most 64 in all.
func (s *Scanner) TakeItems() []string {
	ids := s.items
	s.items = nil
	return ids
}

// tally reads the counts in the next part of a line. Each of SGLang's chunks has all of them, and log probabilities of
// all tokens so far between them.
func (s *Scanner) tally(p []byte) {
	if s.API == APIGenerate {
		s.counts.API = s.API
		s.counts.Write(p)
	}
}

// hold keeps the incomplete line at the end of a piece: its first headBytes and at least its last TailBytes.
func (s *Scanner) hold(p []byte) {
	s.tally(p)
	if s.size < headBytes {
		copy(s.head[s.size:], p)
	}
	s.size += len(p)
	s.news = s.news || s.size > 0 && s.head[0] != ':' && s.event != eventPing
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

// line reads one line of size bytes, given its beginning and its end, which may overlap or leave a gap.
func (s *Scanner) line(head, end []byte, size int) {
	defer s.counts.Reset(s.API)
	if size == 0 {
		s.event = eventNone
		return
	}
	switch {
	case head[0] == ':': // a comment: keep-alive of llama.cpp and proxies
		s.signs = true
	case head[0] == '{' || head[0] == '[': // a JSON line (Ollama), or a body that is not a stream
		s.payload(head, end, size <= len(end), size)
	case bytes.HasPrefix(head, []byte("data:")):
		whole := size <= len(end)
		if whole {
			end = end[len("data:"):]
		}
		s.payload(head[len("data:"):], end, whole, size)
	case bytes.HasPrefix(head, []byte("event:")):
		s.event = classOf(bytes.TrimSpace(head[len("event:"):]))
		s.failed = s.failed || s.event.failed()
	case bytes.HasPrefix(head, []byte("error:")): // llama.cpp before 2025
		s.failed, s.news = true, true
	case bytes.HasPrefix(head, []byte("id:")), bytes.HasPrefix(head, []byte("retry:")):
	default:
		s.stage, s.news = stageToken, true
	}
}

// payload reads the data of an event, whose line has size bytes; whole means that end is all of it.
func (s *Scanner) payload(head, end []byte, whole bool, size int) {
	head = bytes.TrimLeft(head, " \t")
	if bytes.HasPrefix(head, []byte("[DONE]")) {
		s.done, s.news = true, true
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
	s.signs = s.signs || class == eventPing
	s.news = s.news || class != eventPing
	// an event that was cut is no end
	s.done = s.done || class.done() && bytes.HasSuffix(bytes.TrimRight(end, " \t"), []byte("}"))
	if class == eventNone {
		s.count(size)
		if s.API == APIOllamaChat || s.API == APIOllamaGenerate {
			s.compare(end)
		}
	}
	if event := end; s.stage < stageToken {
		if !whole {
			event = head
		}
		s.stage = max(s.stage, stageOf(class, event, &s.native))
	}
	s.finished = s.finished || s.Learns && hasText(end, `"finish_reason"`)
	if class == eventAnnounced && s.id == "" {
		c := rawjson.Cursor{Data: head}
		s.id = idOf(&c, "response")
	}
	if s.Items && s.named < mostItems && bytes.Contains(head, []byte(`"response.output_item.`)) {
		c := rawjson.Cursor{Data: head}
		if id := idOf(&c, "item"); id != "" && id != s.item {
			s.items, s.item = append(s.items, id), id
			s.named++
		}
	}
	if class == eventPing || class == eventError {
		return
	}
	if s.counts.found {
		s.figures(&s.counts.f)
	} else if s.hint(end) {
		s.parse(end, class)
	}
}

// hasText reports whether an event has a member of that name, in quotes, whose value is a text.
func hasText(event []byte, name string) bool {
	for {
		_, rest, found := bytes.Cut(event, []byte(name))
		if !found {
			return false
		}
		if v, ok := bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte(":")); ok &&
			bytes.HasPrefix(bytes.TrimLeft(v, " \t"), []byte(`"`)) {
			return true
		}
		event = rest
	}
}

// hint is a cheap test whether an event may contain usage. A name in unescaped quotes cannot occur inside a string, so
// text about usage does not pass.
func (s *Scanner) hint(end []byte) bool {
	switch s.API {
	case APICountTokens, APIGenerate:
		return false
	case APIOllamaChat, APIOllamaGenerate:
		return bytes.Contains(end, []byte(`"done"`)) || bytes.Contains(end, []byte(`"total_duration"`))
	}
	if opensObject(end, `"usage"`) || opensObject(end, `"timings"`) {
		return true
	}
	return (s.API == APIOther || s.API == APIEmbeddings || s.API == "") && (opensObject(end, `"meta_info"`) ||
		bytes.Contains(end, []byte(`eval_count"`)) || bytes.Contains(end, []byte(`"tokens_evaluated"`)) ||
		bytes.Contains(end, []byte(`"stop_type"`)))
}

// opensObject reports whether a quoted name is followed by a colon and an opening brace, and not by null as in most
// chunks.
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
		s.figures(&t.f)
	}
	s.done = s.done || t.done
}

// figures takes those of a later event.
func (s *Scanner) figures(later *figures) {
	if !s.found {
		s.f, s.found = noFigures(), true
	}
	s.f.merge(later)
}

// Close ends the stream and returns its usage; ok is false if there was none.
func (s *Scanner) Close() (u fleet.Usage, ok bool) {
	if s.size > 0 {
		done := s.done
		whole, cut := s.complete()
		s.cut = cut
		s.flush()
		s.done = s.done && (done || whole)
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

// complete reports whether the line at the end of the stream, which has no line end, is whole: the end mark, or an
// object of JSON; and whether it begins with an object that does not end.
func (s *Scanner) complete() (whole, cut bool) {
	if s.size > TailBytes {
		return false, false
	}
	line := bytes.TrimSpace(bytes.TrimPrefix(lastBytes(s.part, s.size), []byte("data:")))
	if len(line) == 0 || line[0] != '{' {
		return string(line) == "[DONE]", false
	}
	c := rawjson.Cursor{Data: line}
	ends := c.Skip()
	return ends && c.Pos == len(line), !ends
}

// shortEvent is the length below which an event has no text (Anthropic's content_block_stop).
const shortEvent = 64

func (s *Scanner) count(size int) {
	s.events++
	s.bytes += size
	if size >= shortEvent && (s.least == 0 || size < s.least) {
		s.least = size
	}
}

// compare counts how often the text of a line of Ollama's API has come in a row. White space around it does not count,
// as for Ollama.
func (s *Scanner) compare(line []byte) {
	text, ok := ollamaText(line)
	if text = trimSpace(text); ok && s.repeats > 0 && bytes.Equal(text, s.same[:s.sameSize]) {
		s.repeats++
		return
	}
	s.repeats = 0
	if ok && len(text) <= sameBytes {
		s.repeats, s.sameSize = 1, copy(s.same[:], text)
	}
}

// trimSpace takes white space off both ends of the inside of a JSON string.
func trimSpace(text []byte) []byte {
	for {
		n := len(text)
		text = bytes.Trim(text, " ")
		for _, escaped := range [...]string{`\n`, `\t`, `\r`} {
			text = bytes.TrimSuffix(bytes.TrimPrefix(text, []byte(escaped)), []byte(escaped))
		}
		if len(text) == n {
			return text
		}
	}
}

// ollamaText is the inside of the JSON string with the text, or the reasoning, of a line of Ollama's API. ok is false
// for a line without.
func ollamaText(line []byte) (text []byte, ok bool) {
	for _, name := range [...]string{`"content":"`, `"response":"`, `"thinking":"`} {
		if _, text, ok := bytes.Cut(line, []byte(name)); ok && !bytes.HasPrefix(text, []byte(`"`)) {
			end := bytes.IndexByte(text, '"')
			return text[:max(end, 0)], true
		}
	}
	return nil, false
}

// Repeats reports whether the latest lines of Ollama's API repeat one token.
func (s *Scanner) Repeats() bool { return s.repeats >= manyRepeats }

// Tokens estimates the tokens of the answer so far: one for each event, and one for four bytes that an event is longer
// than the shortest. Engines that decode several at a time, and --stream-interval, put several in an event.
func (s *Scanner) Tokens() int {
	if s.least == 0 {
		return s.events
	}
	return s.events + max(0, s.bytes-s.events*s.least)/4
}

// Data reports whether the first token has been seen: text, reasoning or the call of a tool, or the end of an answer
// without any. Time to first token ends here.
func (s *Scanner) Data() bool { return s.stage == stageToken }

// Opened reports whether the engine is known to work on the answer: its first token has been seen, or an event before
// it that is no ping and no announcement, such as a chunk with only the role, or the progress of the prompt.
func (s *Scanner) Opened() bool { return s.stage >= stageOpen }

// Announced reports whether nothing has come but announcements, whole or in part: no sign of work, no comment or ping
// that keeps a client waiting, no error and no end.
func (s *Scanner) Announced() bool { return s.stage == stageNone && !s.signs && !s.failed && !s.done }

// Native reports whether the events have the form of llama.cpp's own API, which ends with "stop": true.
func (s *Scanner) Native() bool { return s.native }

// Cut reports whether the answer ended within an object that begins its last line, if that is short enough to tell.
func (s *Scanner) Cut() bool { return s.cut }

// Finished reports whether a choice's finish_reason was seen, if Learns is set.
func (s *Scanner) Finished() bool { return s.finished }

// Done reports whether the stream's own end mark was seen, whole: [DONE], message_stop, response.completed and the
// like, Ollama's "done": true, or llama.cpp's "stop": true. EndOf says which streams have one. A stream of these that
// ends without it was cut, as by a killed SGLang scheduler.
func (s *Scanner) Done() bool { return s.done }

// Blank reports whether nothing of an answer has come, at most comments, pings and an end mark. vLLM sends [DONE] alone
// where a request fails before its first token (vllm-project/vllm#40986).
func (s *Scanner) Blank() bool {
	return s.events == 0 && s.stage == stageNone && !s.found && !s.failed
}

// Failed reports whether an error event was seen. vLLM sends a normal [DONE] after it.
func (s *Scanner) Failed() bool { return s.failed }

// ErrorCode is the HTTP status in the first error event (vLLM and SGLang: "code":400); 0 for none.
func (s *Scanner) ErrorCode() int { return s.code }

// ErrorText is the message of the first error event; "" for none.
func (s *Scanner) ErrorText() string { return s.said }

// ResponseID is the id in a Responses stream's response.created; "" before.
func (s *Scanner) ResponseID() string { return s.id }
