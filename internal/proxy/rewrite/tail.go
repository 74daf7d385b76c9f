package rewrite

import "github.com/warmpath/warmpath/engine/answer"

// Tail keeps the end of an answer, where engines put its usage.
type Tail struct{ Bytes []byte }

// Reset drops the bytes kept, and reuses the memory.
func (t *Tail) Reset() { t.Bytes = t.Bytes[:0] }

// Write adds the next bytes of the answer.
func (t *Tail) Write(p []byte) {
	if n := len(p) - answer.TailBytes; n > 0 {
		p = p[n:]
	}
	if over := len(t.Bytes) + len(p) - answer.TailBytes; over > 0 {
		t.Bytes = t.Bytes[:copy(t.Bytes, t.Bytes[over:])]
	}
	t.Bytes = append(t.Bytes, p...)
}
