package jsonscan

// Checkpoints of a body are at ends of messages and, in plain prompts, at positions within the string; one per chunk of
// the raw body. Chunks grow with their distance from the body's beginning, which limits their number.
const (
	smallChunk, smallUntil   = 2 << 10, 16 << 10
	middleChunk, middleUntil = 4 << 10, 64 << 10
	largeChunk, largeUntil   = 8 << 10, 256 << 10
	hugeChunk                = 16 << 10
)

// ChunkAfter is the first end of a chunk beyond n raw bytes.
func ChunkAfter(n int) int {
	size := hugeChunk
	switch {
	case n < smallUntil:
		size = smallChunk
	case n < middleUntil:
		size = middleChunk
	case n < largeUntil:
		size = largeChunk
	}
	return (n/size + 1) * size
}

// Cuts records positions in one long string at which decoding may continue another time: before an escape, where no
// character or surrogate pair is split. A string that is not UTF-8 has none.
type Cuts struct {
	At    int // offset of the string's opening quote
	From  int // position to continue from; 0 for none
	Lost  int // by how much the decoded string is shorter up to there
	Found []cut
}

// cut is one such position.
type cut struct {
	Raw  int // in the body
	Out  int // in the decoded string
	Lost int // by how much the decoded string is shorter
}

// cutWindow is the distance before the end of a chunk within which an escape is used.
const cutWindow = 256

// begin returns where to start within the string with this opening quote, and the position from which the next escape
// is recorded.
func (k *Cuts) begin(at int) (from, lost, next int) {
	from = at + 1
	if k.From > 0 && k.At == at {
		from, lost = k.From, k.Lost
	}
	return from, lost, nextCut(from)
}

// note records a position and returns where the next one is wanted.
func (k *Cuts) note(raw, out, lost int) int {
	k.Found = append(k.Found, cut{Raw: raw, Out: out, Lost: lost})
	return nextCut(raw)
}

func (k *Cuts) undo() { k.Found = k.Found[:0] }

func nextCut(from int) int {
	end := ChunkAfter(from)
	if end-from <= cutWindow {
		end = ChunkAfter(end)
	}
	return end - cutWindow
}
