package prompt

// Checkpoints of a body lie at ends of messages and, in plain prompts, at places within the string; one for each chunk of
// the raw body. Chunks grow with their distance from the body's beginning, so that a long body has not too many.
const (
	smallChunk, smallUntil   = 2 << 10, 16 << 10
	middleChunk, middleUntil = 4 << 10, 64 << 10
	largeChunk, largeUntil   = 8 << 10, 256 << 10
	hugeChunk                = 16 << 10
)

// chunkAfter is the first end of a chunk beyond n raw bytes.
func chunkAfter(n int) int {
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

// cutting notes places at which the decoding of one long string may go on another time: before an escape. There no
// character is cut in two, nor a surrogate pair; if the string turns out not to be UTF-8 there are no such places.
type cutting struct {
	at   int // the string with its opening quote here
	from int // goes on here, 0 for nowhere
	lost int // having become so much shorter
	cuts []cut
}

// cut is one such place.
type cut struct {
	raw  int // where in the body
	out  int // where in what is decoded
	lost int // by how much that is shorter
}

// cutWindow is how far before the end of a chunk an escape is welcome.
const cutWindow = 256

// begin says where to begin within the string whose opening quote is at an offset, and from where on an escape is to be
// noted.
func (k *cutting) begin(at int) (from, lost, next int) {
	from = at + 1
	if k.from > 0 && k.at == at {
		from, lost = k.from, k.lost
	}
	return from, lost, nextCut(from)
}

// note takes in a place and says from where on the next one is wanted.
func (k *cutting) note(raw, out, lost int) int {
	k.cuts = append(k.cuts, cut{raw: raw, out: out, lost: lost})
	return nextCut(raw)
}

func (k *cutting) undo() { k.cuts = k.cuts[:0] }

func nextCut(from int) int {
	end := chunkAfter(from)
	if end-from <= cutWindow {
		end = chunkAfter(end)
	}
	return end - cutWindow
}
