package rewrite

import "bytes"

// UsageStrip removes the usage chunk from a stream whose client did not ask for it, and nothing else. The chunk is an
// event of one data line, possibly after comments: an object whose "choices" is an empty array and whose "usage" is an
// object (OpenAI API, "stream_options"; vLLM 0.32.0 and SGLang 0.5.23 send it so). Members that engines add to other
// chunks are kept.
//
// The stream comes in pieces of any size. All bytes are passed on with their piece, except the beginning of an event
// that may still become a usage chunk, at most stripBytes. The zero value is ready.
type UsageStrip struct {
	at      stripPlace
	chunk   chunkScan
	held    []byte // kept back: one line, and possibly the \r after it
	out     []byte // to pass on, if it is not one part of the piece
	Removed int    // chunks removed
}

// stripBytes bounds the bytes kept back. Usage chunks are under 2 kB; a longer line is passed on.
const stripBytes = 64 << 10

// stripPlace is the position of the next byte in the stream. Lines end in \n or \r\n; no engine ends them in a lone \r.
type stripPlace uint8

const (
	atEvent   stripPlace = iota // at the start of an event, or after its comments
	inComment                   // within a comment before the event's first field
	inMaybe                     // within a first line, held back, that may be the chunk
	atBlank                     // after the chunk's line, held back: a blank line must follow
	atBlankLF                   // the same, after the \r of that
	atLine                      // at the start of a further line of another event
	atLineLF                    // the same, after a \r
	inLine                      // within a line of another event
)

// stripAct is the action for a line, or for a piece's part of one.
type stripAct uint8

const (
	passOn  stripAct = iota
	keep             // keep it back
	release          // pass it on, with the bytes kept back
	drop             // remove it, with the bytes kept back
)

// Pass takes the next piece and returns what to pass on of it and of the bytes kept back. The result is valid until the
// next call, and no longer than the piece.
func (s *UsageStrip) Pass(piece []byte) []byte {
	if s.at == atEvent && endsEvent(piece) && !mentionsUsage(piece) {
		return piece // the path of nearly all chunks: engines write whole events
	}
	s.out = s.out[:0]
	from := 0 // piece[from:i] is to be passed on too
	for i := 0; i < len(piece); {
		line, whole := firstLine(piece[i:])
		act := s.take(line, whole)
		if act != passOn {
			if act == keep && !whole && len(s.out) == 0 {
				return piece[from:i] // the piece ends here: no copy is needed
			}
			s.out = append(s.out, piece[from:i]...)
			from = i + len(line)
		}
		switch act {
		case release:
			s.out = append(s.out, s.held...)
			s.held = s.held[:0]
		case drop:
			s.held = s.held[:0]
			s.Removed++
		case passOn, keep:
		}
		i += len(line)
	}
	if len(s.out) == 0 {
		return piece[from:]
	}
	s.out = append(s.out, piece[from:]...)
	return s.out
}

// Close ends the stream and returns the bytes kept back unless they are a usage chunk. A chunk that lacks only its line
// end or blank line is removed too.
func (s *UsageStrip) Close() []byte {
	if s.at == atBlank || s.at == atBlankLF || s.at == inMaybe && s.chunk.ended(s.held) {
		s.Removed++
		return nil
	}
	return s.held
}

// take decides about a line, whole if its end has arrived, and moves behind it. Bytes not passed on are in held.
func (s *UsageStrip) take(line []byte, whole bool) stripAct {
	switch s.at {
	case atEvent:
		return s.first(line, whole)
	case inMaybe:
		may := s.chunk.write(line) && len(s.held)+len(line) <= stripBytes
		s.held = append(s.held, line...)
		switch {
		case may && !whole:
			return keep
		case may && s.chunk.ended(s.held):
			s.at = atBlank
			return keep
		}
		s.at = inLine.after(line, whole)
		return release
	case atBlank, atBlankLF:
		s.held = append(s.held, line...)
		return s.blank(line, whole)
	}
	s.at = s.at.after(line, whole)
	return passOn
}

// first decides about the first line of an event.
func (s *UsageStrip) first(line []byte, whole bool) stripAct {
	switch {
	case string(line) == "\r":
		s.at = atLineLF
	case isBlank(line):
	case line[0] == ':':
		s.at = inComment.after(line, whole)
	case len(line) > stripBytes, whole && !mentionsUsage(line):
		s.at = inLine.after(line, whole)
	default:
		s.chunk = chunkScan{}
		if !s.chunk.write(line) || whole && !s.chunk.ended(line) {
			s.at = inLine.after(line, whole)
			break
		}
		s.held = append(s.held, line...)
		if s.at = inMaybe; whole {
			s.at = atBlank
		}
		return keep
	}
	return passOn
}

// blank decides about the line after a chunk.
func (s *UsageStrip) blank(line []byte, whole bool) stripAct {
	was := s.at
	switch {
	case string(line) == "\n" || was == atBlank && string(line) == "\r\n":
		s.at = atEvent
		return drop
	case was == atBlank && string(line) == "\r":
		s.at = atBlankLF
		return keep
	case was == atBlank:
		s.at = atLine.after(line, whole)
	default:
		s.at = inLine.after(line, whole)
	}
	return release
}

// after is the position behind a line, or a part of one, that is passed on.
func (p stripPlace) after(line []byte, whole bool) stripPlace {
	switch {
	case p == inComment && !whole:
		return inComment
	case p == inComment, p == atLine && isBlank(line), p == atLineLF && string(line) == "\n":
		return atEvent
	case p == atLine && string(line) == "\r":
		return atLineLF
	case whole:
		return atLine
	}
	return inLine
}

// firstLine is the first line of b, its end included; whole is false if the end has not arrived.
func firstLine(b []byte) (line []byte, whole bool) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], true
	}
	return b, false
}

func isBlank(line []byte) bool { return string(line) == "\n" || string(line) == "\r\n" }

// endsEvent reports whether b ends in a blank line, which ends an event.
func endsEvent(b []byte) bool {
	n := len(b)
	return n >= 2 && b[n-1] == '\n' && (b[n-2] == '\n' || n >= 3 && b[n-2] == '\r' && b[n-3] == '\n')
}

// mentionsUsage is a cheap test for whole lines that may be a usage chunk. A name in unescaped quotes cannot stand
// inside a JSON string, so text about usage does not pass, nor does the "usage":null of most chunks. The quote before
// it is checked last: chunks are full of quotes, and a search for one would stop at each.
func mentionsUsage(b []byte) bool {
	for {
		i := bytes.Index(b, []byte(`usage"`))
		if i < 0 {
			return false
		}
		name := i > 0 && b[i-1] == '"'
		b = b[i+len(`usage"`):]
		if rest := trimSpace(b); name && len(rest) > 0 && rest[0] == ':' {
			if rest = trimSpace(rest[1:]); len(rest) > 0 && rest[0] == '{' {
				return true
			}
		}
	}
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' }
