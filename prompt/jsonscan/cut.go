package jsonscan

// Checkpoints of a body lie at ends of messages and, in plain prompts, at places within the string; one for each chunk of
// the raw body. Chunks grow with their distance from the body's beginning, so that a long body has not too many.
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

// Cuts notes places at which the decoding of one long string may go on another time: before an escape. There no
// character is cut in two, nor a surrogate pair; if the string turns out not to be UTF-8 there are no such places.
type Cuts struct {
	At    int // the string with its opening quote here
	From  int // goes on here, 0 for nowhere
	Lost  int // having become so much shorter
	Found []cut
}

// cut is one such place.
type cut struct {
	Raw  int // where in the body
	Out  int // where in what is decoded
	Lost int // by how much that is shorter
}

// cutWindow is how far before the end of a chunk an escape is welcome.
const cutWindow = 256

// begin says where to begin within the string whose opening quote is at an offset, and from where on an escape is to be
// noted.
func (k *Cuts) begin(at int) (from, lost, next int) {
	from = at + 1
	if k.From > 0 && k.At == at {
		from, lost = k.From, k.Lost
	}
	return from, lost, nextCut(from)
}

// note takes in a place and says from where on the next one is wanted.
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
