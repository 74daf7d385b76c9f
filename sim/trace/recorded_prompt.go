package trace

import (
	"fmt"

	"github.com/warmpath/warmpath/sim/chance"
)

// prompts builds the pieces of recorded prompts. A piece is cut wherever another prompt diverges, so that the part
// before a piece is always all of another piece.
type prompts struct {
	forest *forest
	places []place // of each piece
	roots  map[scopeKey]int32
	known  map[blockKey]int32 // piece that ends with or contains the block
	marks  []int              // scratch
}

// place is a piece's position in its prompts.
type place struct {
	block int32   // blocks before it
	token float64 // tokens before it
	per   float64 // tokens per block in it, by the first prompt with it
}

type scopeKey struct {
	salt  int
	scope string
}

// blockKey is a block's hash, which covers all blocks before it too.
type blockKey struct {
	salt  int
	scope string
	hash  [RecordedHash]byte
	block int
}

// RecordedHash is the number of bytes of a hash in a recording.
const RecordedHash = 6

func (p *prompts) init(f *forest) {
	p.forest, p.roots, p.known = f, map[scopeKey]int32{}, map[blockKey]int32{}
}

// RecordedMarks returns in to the blocks, counted from 1, whose hashes are recorded for a prompt with this many blocks,
// of which an earlier one has the first shared: each up to 32, every second up to 128, every fourth up to 512, then
// every eighth, and the last. The hashes find shared prefixes across files; within a file From and Shared give them
// exactly. A new prompt of 500 kB takes 5 kB.
func RecordedMarks(to []int, shared, blocks int) []int {
	to = to[:0]
	for n := shared + 1; n <= blocks; n++ {
		step := 1
		switch {
		case n > 512:
			step = 8
		case n > 128:
			step = 4
		case n > 32:
			step = 2
		}
		if n%step == 0 || n == blocks {
			to = append(to, n)
		}
	}
	return to
}

// add adds a prompt and returns its last piece, which is its own: whether two prompts are equal to the last byte is
// unknown.
func (p *prompts) add(l *recordedLine, tokens int, file *recordedFile) (int32, error) {
	p.marks = RecordedMarks(p.marks, l.Shared, l.Blocks)
	if len(l.Hashes) != RecordedHash*len(p.marks) {
		return -1, fmt.Errorf("hashes hold %d bytes, want %d: %d for each of %d blocks",
			len(l.Hashes), RecordedHash*len(p.marks), RecordedHash, len(p.marks))
	}
	before, shared := int32(-1), l.Shared
	if shared > 0 {
		of, ok := file.leaf[l.From]
		if !ok {
			return -1, fmt.Errorf("from is %d, which no earlier line has", l.From)
		}
		if of.blocks < shared {
			return -1, fmt.Errorf("shared is %d, but request %d has %d blocks", shared, l.From, of.blocks)
		}
		before = p.cut(of.node, shared)
	}
	key := func(i int) blockKey {
		k := blockKey{salt: file.salt, scope: l.Scope, block: p.marks[i]}
		copy(k.hash[:], l.Hashes[i*RecordedHash:])
		return k
	}
	first := 0
	for ; first < len(p.marks); first++ {
		at, ok := p.known[key(first)]
		if !ok {
			break
		}
		if at = p.cut(at, p.marks[first]); at < 0 {
			break
		}
		before, shared = at, p.marks[first]
	}
	node := p.grow(l, before, shared, tokens, file)
	for ; first < len(p.marks); first++ {
		p.known[key(first)] = node
	}
	return node, nil
}

// grow adds the piece of a prompt after its first shared blocks.
func (p *prompts) grow(l *recordedLine, before int32, shared, tokens int, file *recordedFile) int32 {
	whole := max(l.Lead+l.Bytes, 1)
	if before < 0 && l.Lead > 0 {
		k := scopeKey{file.salt, l.Scope}
		root, known := p.roots[k]
		if !known {
			root = p.piece(-1, place{per: float64(tokens) * float64(l.Lead) / float64(whole)})
			p.roots[k] = root
		}
		before = root
	}
	at := place{block: int32(shared)}
	if before >= 0 {
		front := p.places[before]
		at.token = front.token + float64(front.per*float64(int32(shared)-front.block))
		if shared == 0 {
			at.token = front.token + front.per // the leading part
		}
		at.token = min(at.token, float64(tokens))
	}
	if rest := l.Bytes - shared*file.block; rest > 0 {
		at.per = (float64(tokens) - at.token) / float64(rest) * float64(file.block)
	}
	return p.piece(before, at)
}

func (p *prompts) piece(before int32, at place) int32 {
	node := p.forest.add(before, int(at.token+0.5), chance.Mix(chance.Mix(uint64(len(p.forest.nodes)))^0x7265636f7264))
	p.places = append(p.places, at)
	return node
}

// cut finds the piece before a prompt's last one, or the last one, that ends with this many blocks, splitting one if
// needed; -1 when there is none. The second part keeps its piece.
func (p *prompts) cut(leaf int32, blocks int) int32 {
	above := leaf
	for above >= 0 && int(p.places[above].block) >= blocks {
		if at := p.places[above]; int(at.block) == blocks && p.forest.nodes[above].parent >= 0 {
			before := p.forest.nodes[above].parent
			if int(p.places[before].block) < blocks {
				return before // already ends there
			}
		}
		above = p.forest.nodes[above].parent
	}
	if above < 0 {
		return -1
	}
	n, at := p.forest.nodes[above], p.places[above]
	rest := place{block: int32(blocks), token: at.token + float64(at.per*float64(blocks-int(at.block))), per: at.per}
	front := int32(len(p.forest.nodes))
	p.forest.nodes = append(p.forest.nodes, n)
	p.places = append(p.places, at)
	p.forest.nodes[above].parent, p.forest.nodes[above].start = front, int32(rest.token+0.5)
	p.places[above] = rest
	return front
}

// sharing is the number of blocks that a prompt shares with the one whose pieces are marked by stamp.
func (p *prompts) sharing(node int32, blocks int, stamps []int32, stamp int32) int {
	shared := blocks
	for ; node >= 0 && stamps[node] != stamp; node = p.forest.nodes[node].parent {
		shared = int(p.places[node].block)
	}
	if node < 0 {
		return 0
	}
	return shared
}

func (p *prompts) mark(node int32, stamps []int32, stamp int32) {
	for ; node >= 0; node = p.forest.nodes[node].parent {
		stamps[node] = stamp
	}
}
