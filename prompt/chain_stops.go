package prompt

import (
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// stop is a place in the main field from which a later body that begins alike can go on: after a message, or within the
// string of a plain prompt.
type stop struct {
	raw   int       // where in the body
	bytes int       // canonical bytes up to there
	text  int       // amount of text up to there
	marks int       // marks up to there
	media int       // within the main field up to there
	lost  int       // by how much the string is shorter up to there
	kinds TextKinds // samples of the whole blocks up to there
}

// known is a stop with what else must be known to go on from it. Blocks and marks are in the chain.
type known struct {
	stop
	start int    // where the value of the main field begins
	front uint64 // hash of the front
	tail  []byte // canonical text from some bytes before the last whole block on
}

// tailBefore is how many bytes of text before a block are looked at for its kinds.
const tailBefore = 8

// tailStart is where the tail begins of so many canonical bytes.
func tailStart(bytes int) int { return max(0, bytes/BlockBytes*BlockBytes-tailBefore) }

// boundary notes the end of a message at an offset of the body.
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
		c.fill() // the text is still in the processor's cache
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

// advance hashes the whole blocks of the first n canonical bytes, and takes samples of them for the kinds of text. Where
// in a block a sample is taken is as good as chance, since the block's hash says so; a fixed place would see only some
// columns of a table.
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
