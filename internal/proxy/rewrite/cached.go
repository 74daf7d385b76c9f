package rewrite

import (
	"bytes"
)

// Cached replaces the cached tokens that a decoder reports by the prefiller's count, since the decoder counts the
// transferred prompt as cached (vLLM before it had remote_prefill_cached_tokens). A key in unescaped quotes cannot
// stand inside a string, so answers that mention it are left alone.
type Cached struct {
	value []byte        // digits to put in; nil keeps the figure
	late  func() []byte // returns value when the first member is found; nil if value is given
	carry []byte        // the end of the last piece, which may be the beginning of the member
	front byte          // the byte before carry, or before the next piece without carry
}

var cachedKey = []byte(`"cached_tokens"`)

// longestCached bounds the bytes of the member that are kept back: no count is as long, and endless white space must
// not be awaited.
const longestCached = 128

// NewCached puts value in the answer, or keeps the figure if it is nil. late returns value when the first member is
// found; nil if value is given.
func NewCached(value []byte, late func() []byte) *Cached {
	return &Cached{value: value, late: late}
}

// AppendCount appends a non-negative number.
func AppendCount(b []byte, n int) []byte {
	if n >= 10 {
		b = AppendCount(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// Pass takes the next piece and returns what to pass on.
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
		if end == len(in) && end-i < longestCached { // its end has not arrived
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

// put appends the replacement of a figure.
func (w *Cached) put(out, there []byte) []byte {
	if w.late != nil {
		w.value, w.late = w.late(), nil
	}
	if w.value == nil {
		return append(out, there...)
	}
	return append(out, w.value...)
}

// before is the byte before a position in a piece; front is the byte before the piece.
func before(in []byte, at int, front byte) byte {
	if at == 0 {
		return front
	}
	return in[at-1]
}

// Close returns what is kept back.
func (w *Cached) Close() []byte {
	if w == nil {
		return nil
	}
	rest := w.carry
	w.carry = nil
	return rest
}
