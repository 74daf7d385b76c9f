package prompt

import (
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// stop is a position in the main field from which a later body with the same beginning can continue: after a message,
// or within the string of a plain prompt.
type stop struct {
	raw   int       // position in the body
	bytes int       // canonical bytes up to there
	text  int       // amount of text up to it
	marks int       // marks up to it
	media int       // media within the main field up to it
	lost  int       // by how much the decoded string is shorter up to it
	kinds TextKinds // samples of the whole blocks up to it
}

// known is a stop with the state needed to continue from it. Blocks and marks are in the chain.
type known struct {
	stop
	start int    // start of the main field's value
	front uint64 // hash of the front
	tail  []byte // canonical text from tailBefore bytes before the last whole block on
}

// tailBefore is how many bytes before a block are needed to classify it.
const tailBefore = 8

// tailStart is the start of the tail for this many canonical bytes.
func tailStart(bytes int) int { return max(0, bytes/BlockBytes*BlockBytes-tailBefore) }

// boundary records the end of a message at an offset of the body.
func (c *Chain) boundary(raw, text int) {
	c.note(stop{raw: raw, bytes: c.base + len(c.text), text: text, marks: len(c.Marks), media: c.Media})
}

// note keeps the last stop within each chunk.
func (c *Chain) note(s stop) {
	if s.raw <= c.chunkEnd {
		c.stops[len(c.stops)-1] = s
		return
	}
	if !c.pending {
		c.fill() // while the text is in the processor's cache
	}
	c.stops, c.chunkEnd = append(c.stops, s), jsonscan.ChunkAfter(s.raw-1)
}

// fill hashes the text up to the last stop and completes the stops.
func (c *Chain) fill() {
	for ; c.filled < len(c.stops); c.filled++ {
		s := &c.stops[c.filled]
		c.advance(s.bytes)
		s.kinds = c.sampled
	}
}

// advance hashes the whole blocks of the first n canonical bytes, and classifies samples of them. The block's hash
// chooses the position of its sample, which is as good as random; a fixed position would see only some columns of a
// table.
func (c *Chain) advance(n int) {
	done := len(c.Blocks)
	h := c.root
	if done > 0 {
		h = c.Blocks[done-1]
	}
	for at := done*BlockBytes - c.base; at+BlockBytes <= n-c.base; at += BlockBytes {
		h = xxh3.HashSeed(c.text[at:at+BlockBytes], h)
		c.Blocks = append(c.Blocks, h)
		if c.root == rootText {
			c.sample(at, h)
		}
	}
}
