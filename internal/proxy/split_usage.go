package proxy

import (
	"bytes"
	"time"
)

// cachedRewrite puts the cached tokens that the prefiller found in the place of those that a decoder reports, which takes all that was
// moved to it for cached (vLLM before it had remote_prefill_cached_tokens). A key in quotes that are not escaped cannot stand
// inside a string, so text that speaks of it is left alone.
type cachedRewrite struct {
	value []byte        // digits to be put in, nil for those that are there
	late  func() []byte // tells value at the first member that is found; nil where it is told already
	carry []byte        // the end of the last piece, which may be the beginning of such a member
	front byte          // what came in front of carry, or of the next piece where there is none
}

var cachedKey = []byte(`"cached_tokens"`)

// longestCached bounds the bytes of the member that are kept back: no count is as long, and white space without end is not waited for.
const longestCached = 128

// rewrites is how the answer's usage is to be changed, nil for not at all. A prefiller in flight is asked for its figure when the answer
// comes to that place.
func (s *split) rewrites(a *attempt) *cachedRewrite {
	if s == nil || a.message == nil {
		return nil
	}
	if s.underway() {
		return &cachedRewrite{late: func() []byte { return s.foundBeside(a) }}
	}
	if found := s.found(); found != nil {
		return &cachedRewrite{value: found}
	}
	return nil
}

// found is the prefiller's count of cached tokens, nil where it is not known or the decoder says it by itself.
func (s *split) found() []byte {
	if s.handed.Honest || !s.ready || !s.handed.Known || !s.handed.Usage.CachedKnown {
		return nil
	}
	return appendCount(nil, s.handed.Usage.CachedTokens)
}

// foundBeside is found of a prefill leg that may be in flight. The decoder could not have come to its usage before the prompt was computed, so
// the prefiller's reply is all but here.
func (s *split) foundBeside(a *attempt) []byte {
	if !s.replied(a, time.After(besideWait)) {
		return nil
	}
	return s.found()
}

// underway reports whether the prefill leg is still in flight beside the decode leg, so that nothing of it may be looked at.
func (s *split) underway() bool {
	if s.beside == nil {
		return false
	}
	select {
	case <-s.beside.done:
		return false
	default:
		return true
	}
}

func appendCount(b []byte, n int) []byte {
	if n >= 10 {
		b = appendCount(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// pass returns what is to be passed on of what came.
func (w *cachedRewrite) pass(piece []byte) []byte {
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
func (w *cachedRewrite) put(out, there []byte) []byte {
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

// close returns what was kept back.
func (w *cachedRewrite) close() []byte {
	if w == nil {
		return nil
	}
	rest := w.carry
	w.carry = nil
	return rest
}
