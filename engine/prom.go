package engine

import (
	"bytes"
	"math"
	"strconv"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// samples iterates over a page of Prometheus text (exposition format 0.0.4, OpenMetrics 1.0) and parses only what is
// asked for: next finds names, value and label parse the line only when called. It allocates nothing.
type samples struct {
	rest []byte

	name   []byte // of the current sample
	after  []byte // what follows the name
	labels []byte // between the braces; set by value
}

// next advances to the next sample whose name begins with prefix.
func (s *samples) next(prefix string) bool {
	for len(s.rest) > 0 {
		line := s.rest
		if i := bytes.IndexByte(s.rest, '\n'); i >= 0 {
			line, s.rest = s.rest[:i], s.rest[i+1:]
		} else {
			s.rest = nil
		}
		for len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
			line = line[1:]
		}
		if len(line) <= len(prefix) || string(line[:len(prefix)]) != prefix {
			continue // also comments, which begin with #
		}
		end := len(prefix)
		for end < len(line) && line[end] != '{' && line[end] != ' ' && line[end] != '\t' {
			end++
		}
		s.name, s.after, s.labels = line[:end], line[end:], nil
		return true
	}
	return false
}

// value parses the rest of the current sample. ok is false for an invalid line; NaN is a value. A timestamp and an
// exemplar are ignored.
func (s *samples) value() (v float64, ok bool) {
	b := trimBlank(s.after)
	if len(b) > 0 && b[0] == '{' {
		end := closingBrace(b)
		if end < 0 {
			return 0, false
		}
		s.labels, b = b[1:end], trimBlank(b[end+1:])
	}
	end := 0
	for end < len(b) && b[end] != ' ' && b[end] != '\t' && b[end] != '\r' {
		switch b[end] {
		case 'x', 'X', 'p', 'P', '_': // Go's own notations, not in Prometheus
			return 0, false
		}
		end++
	}
	if end == 0 || end > 64 {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b[:end]), 64)
	return v, err == nil
}

// label is the value of a label of the current sample, still escaped; valid after value. nil when absent.
func (s *samples) label(name string) []byte {
	b := s.labels
	for {
		b = bytes.TrimLeft(b, " \t,")
		eq := bytes.IndexByte(b, '=')
		if eq < 0 {
			return nil
		}
		key := bytes.TrimRight(b[:eq], " \t")
		b = trimBlank(b[eq+1:])
		if len(b) == 0 || b[0] != '"' {
			return nil
		}
		end := closingQuote(b)
		if end < 0 {
			return nil
		}
		if string(key) == name {
			return b[1:end]
		}
		b = b[end+1:]
	}
}

func trimBlank(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// closingBrace is the index of the brace that closes b[0], ignoring braces in quotes; -1 when there is none.
func closingBrace(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '}':
			return i
		case '"':
			end := closingQuote(b[i:])
			if end < 0 {
				return -1
			}
			i += end
		}
	}
	return -1
}

// closingQuote is the index of the quote that closes b[0]; -1 when there is none.
func closingQuote(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unescape undoes the escapes of a label's value.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'n':
			out = append(out, '\n')
		case '\\', '"':
			out = append(out, b[i])
		default:
			out = append(out, '\\', b[i])
		}
	}
	return string(out)
}

// whole is a sample's value as a count; ok is false for NaN, infinities, negative and implausible numbers.
func whole(v float64) (n int, ok bool) {
	if math.IsNaN(v) || v < 0 || v > rawjson.MaxCount {
		return 0, false
	}
	return int(v), true
}
