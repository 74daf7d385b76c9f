package rewrite

import (
	"bytes"
)

// Cached puts the cached tokens that the prefiller found in the place of those that a decoder reports, which takes all that was
// moved to it for cached (vLLM before it had remote_prefill_cached_tokens). A key in quotes that are not escaped cannot stand
// inside a string, so text that speaks of it is left alone.
type Cached struct {
	value []byte        // digits to be put in, nil for those that are there
	late  func() []byte // tells value at the first member that is found; nil where it is told already
	carry []byte        // the end of the last piece, which may be the beginning of such a member
	front byte          // what came in front of carry, or of the next piece where there is none
}

var cachedKey = []byte(`"cached_tokens"`)

// longestCached bounds the bytes of the member that are kept back: no count is as long, and white space without end is not waited for.
const longestCached = 128

// NewCached puts value in the place of what is there, or leaves that where value is nil. late tells value when the first member is found;
// nil where it is told already.
func NewCached(value []byte, late func() []byte) *Cached {
	return &Cached{value: value, late: late}
}

// AppendCount appends a figure that is not negative.
func AppendCount(b []byte, n int) []byte {
	if n >= 10 {
		b = AppendCount(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// Pass returns what is to be passed on of what came.
func (w *Cached) Pass(piece []byte) []byte {
	if len(piece) == 0 {
		return piece
	}
	if len(w.carry) == 0 && bytes.IndexByte(piece, '"') < 0 {
		w.front = piece[len(piece)-1]
		return piece
	}
	front := w.front
	in := append(w.carry, piece...)
	w.carry = nil
	out := make([]byte, 0, len(in)+8)
	for {
		i := bytes.Index(in, cachedKey)
		if i < 0 {
			break
		}
		at := i + len(cachedKey)
		limit := min(len(in), i+longestCached)
		for at < limit && (in[at] == ' ' || in[at] == ':') {
			at++
		}
		end := at
		for end < limit && in[end] >= '0' && in[end] <= '9' {
			end++
		}
		if end == len(in) && end-i < longestCached { // its end is still to come
			out, w.carry, w.front = append(out, in[:i]...), bytes.Clone(in[i:]), before(in, i, front)
			return out
		}
		out = append(out, in[:at]...)
		if end > at && in[at-1] != '"' && before(in, i, front) != '\\' {
			out = w.put(out, in[at:end])
		} else {
			out = append(out, in[at:end]...)
		}
		in, front = in[end:], in[end-1]
	}
	for n := min(len(cachedKey)-1, len(in)); n > 0; n-- {
		if bytes.HasSuffix(in, cachedKey[:n]) {
			w.carry = bytes.Clone(in[len(in)-n:])
			in = in[:len(in)-n]
			break
		}
	}
	w.front = before(in, len(in), front)
	return append(out, in...)
}

// put appends the figure in the place of the one that is there.
func (w *Cached) put(out, there []byte) []byte {
	if w.late != nil {
		w.value, w.late = w.late(), nil
	}
	if w.value == nil {
		return append(out, there...)
	}
	return append(out, w.value...)
}

// before is the byte in front of a place in a piece, which front comes before.
func before(in []byte, at int, front byte) byte {
	if at == 0 {
		return front
	}
	return in[at-1]
}

// Close returns what was kept back.
func (w *Cached) Close() []byte {
	if w == nil {
		return nil
	}
	rest := w.carry
	w.carry = nil
	return rest
}
