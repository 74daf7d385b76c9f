package prefix

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"
)

// The workload for comparisons with other indexes: 2,000 conversations of 64 common and 256 private blocks over 64
// endpoints. Seed and XXH3 layout are those of Dynamo's KV router (block hashing, dynamo-kv-router 1.6.1).

const (
	workers       = 64
	conversations = 2000
	commonBlocks  = 64
	privateBlocks = 256
	turnBlocks    = 32
	longBlocks    = 8000
	golden        = 0x9e3779b97f4a7c15
)

func mix(x uint64) uint64 {
	z := x + golden
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

type rng uint64

func (s *rng) next() uint64 {
	z := mix(uint64(*s))
	*s += golden
	return z
}

func local(k, i uint64) uint64 { return mix(mix(k) + i) }

func next(parent, local uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], parent)
	binary.LittleEndian.PutUint64(b[8:], local)
	return xxh3.HashSeed(b[:], 1337)
}

// chainOf is n blocks of chain key k after a parent; parent is 0 for a root chain.
func chainOf(parent, k uint64, n int) []uint64 {
	c := make([]uint64, n)
	for i := range c {
		if l := local(k, uint64(i)); parent == 0 {
			c[i] = l
		} else {
			c[i] = next(parent, l)
		}
		parent = c[i]
	}
	return c
}

// workload has precomputed chains.
type workload struct {
	common []uint64
	conv   [][][]uint64 // private blocks by generation and conversation
}

func newWorkload(generations int) *workload {
	w := &workload{common: chainOf(0, 1, commonBlocks)}
	for g := range generations {
		w.conv = append(w.conv, make([][]uint64, conversations))
		for c := range w.conv[g] {
			w.conv[g][c] = chainOf(w.common[commonBlocks-1], uint64(g+1)<<32+uint64(c), privateBlocks)
		}
	}
	return w
}

// turn is the blocks of turn t of a conversation and their parent.
func (w *workload) turn(g, c, t int) (parent uint64, blocks []uint64) {
	all, at := w.common, turnBlocks*t
	if t >= 2 {
		all, at = w.conv[g][c], turnBlocks*(t-2)
		parent = w.common[commonBlocks-1]
	}
	if at > 0 {
		parent = all[at-1]
	}
	return parent, all[at : at+turnBlocks]
}

// fill is W1: conversations of generation 0, turn by turn.
func (w *workload) fill(x *Index) {
	for t := range 10 {
		n := conversations
		if t < 2 {
			n = workers
		}
		for c := range n {
			parent, blocks := w.turn(0, c, t)
			x.Store(c%workers, parent, blocks)
		}
	}
}

// victim is what is evicted from worker(c) after turn t of conversation c of generation g: the least recently used turn
// of generation g-1, its hashes from the last to the first.
func (w *workload) victim(g, c, t int, out []uint64) []uint64 {
	at := c % workers
	m := (conversations - at + workers - 1) / workers
	n := (t-2)*m + c/workers
	_, blocks := w.turn(g-1, at+workers*(n/8), 9-n%8)
	out = append(out[:0], blocks...)
	slices.Reverse(out)
	return out
}

// churn is one generation of W4: in one event (B) or one hash per event (C). It returns the number of removed blocks.
func (w *workload) churn(x *Index, g int, single bool) (removed int) {
	var gone []uint64
	for t := 2; t < 10; t++ {
		for c := range conversations {
			parent, blocks := w.turn(g, c, t)
			x.Store(c%workers, parent, blocks)
			gone = w.victim(g, c, t, gone)
			if !single {
				removed += x.Remove(c%workers, gone)
				continue
			}
			for i := range gone {
				removed += x.Remove(c%workers, gone[i:i+1])
			}
		}
	}
	return removed
}

// lookups are the chains of W2: 64 common and 256 private blocks and 32 that no slot holds.
func (w *workload) lookups(g, n int) (chains [][]uint64, conv []int) {
	s := rng(42)
	for j := range n {
		c := int(s.next() % conversations)
		chain := slices.Concat(w.common, w.conv[g][c])
		for i := range uint64(32) {
			chain = append(chain, local(1<<63+uint64(j), i))
		}
		chains, conv = append(chains, chain), append(conv, c)
	}
	return chains, conv
}

// long is W3: worker 4m holds the first 500(m+1) blocks of one long chain.
func long(x *Index) []uint64 {
	chain := chainOf(0, 2, longBlocks)
	for m := range 16 {
		for at := 0; at < 500*(m+1); at += turnBlocks {
			var parent uint64
			if at > 0 {
				parent = chain[at-1]
			}
			x.Store(4*m, parent, chain[at:min(at+turnBlocks, 500*(m+1))])
		}
	}
	return chain
}

func TestGeneratorCheckValues(t *testing.T) {
	w := newWorkload(1)
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"mix(0)", mix(0), 0xe220a8397b1dcdaf},
		{"local(1,0)", local(1, 0), 0x5e41ab087439611e},
		{"local(1,63)", local(1, 63), 0xd3349f40d980a950},
		{"common 1", w.common[1], 0x24b8c453ddf7e8b3},
		{"common 63", w.common[63], 0xa897b7ae1dd9e8cd},
		{"local of a private block", local(1<<32, 0), 0xbff505763b60ad4e},
		{"private block", w.conv[0][0][0], 0xa19894b856c4092c},
		{"long 7999", chainOf(0, 2, longBlocks)[7999], 0xa7bef380ac00e40f},
	} {
		if c.got != c.want {
			t.Errorf("%s is %x, want %x", c.name, c.got, c.want)
		}
	}
	s := rng(42)
	for _, want := range []uint64{1413, 291, 1858, 1764, 1250} {
		if got := s.next() % conversations; got != want {
			t.Errorf("rng(42) mod 2000 is %d, want %d", got, want)
		}
	}
}

func wantDepths(t *testing.T, x *Index, what string, chain []uint64, want func(slot int) int) {
	t.Helper()
	var m Matches
	x.Match(chain, &m)
	for s := range workers {
		if got := m.Depth(s); got != want(s) {
			t.Fatalf("%s: slot %d holds %d blocks, want %d", what, s, got, want(s))
		}
	}
}

func TestReplayExpectedMatches(t *testing.T) {
	w := newWorkload(3)
	x := New(Config{})
	w.fill(x)
	checkInvariants(t, x)
	if held, distinct := memberships(x), x.Blocks(); held != 516_096 || distinct != 512_064 {
		t.Fatalf("after W1 %d memberships of %d blocks, want 516096 of 512064", held, distinct)
	}
	live := func(g int, what string) {
		chains, conv := w.lookups(g, 500)
		for j, chain := range chains {
			wantDepths(t, x, what, chain, func(s int) int {
				if s == conv[j]%workers {
					return commonBlocks + privateBlocks
				}
				return commonBlocks
			})
		}
	}
	live(0, "W2")
	for j := range uint64(200) {
		unknown := make([]uint64, 352)
		for i := range unknown {
			unknown[i] = local(1<<63+1<<40+j, uint64(i))
		}
		wantDepths(t, x, "W5a", unknown, func(int) int { return 0 })
		copy(unknown, w.common)
		wantDepths(t, x, "W5b", unknown, func(int) int { return commonBlocks })
	}
	chain := long(x)
	wantDepths(t, x, "W3", chain, func(s int) int {
		if s%4 == 0 {
			return 500 * (s/4 + 1)
		}
		return 0
	})
	for s := range workers {
		x.Truncate(s, chain, 0)
	}
	for g := 1; g < 3; g++ {
		if got := w.churn(x, g, g == 2); got != conversations*privateBlocks {
			t.Fatalf("churn removed %d blocks, want %d", got, conversations*privateBlocks)
		}
	}
	live(2, "W4 live")
	chains, _ := w.lookups(1, 500)
	for _, chain := range chains {
		wantDepths(t, x, "W4 gone", chain, func(int) int { return commonBlocks })
	}
	if got := memberships(x); got != 516_096 {
		t.Errorf("after the churn %d memberships, want 516096", got)
	}
	checkInvariants(t, x)
}

// TestChurnIsFlat replays the churn with the index's own eviction instead of removals: it needs no page beyond those of
// the first generation, and no allocation.
func TestChurnIsFlat(t *testing.T) {
	w := newWorkload(2)
	x := New(Config{Capacity: commonBlocks + 4*privateBlocks})
	generation := func(g int) {
		for c := range conversations {
			for t := range 10 {
				parent, blocks := w.turn(g, c, t)
				x.Store(c%workers, parent, blocks)
			}
		}
	}
	generation(0)
	bytes := x.Bytes()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for g := range 6 {
		generation((g + 1) % 2)
	}
	runtime.ReadMemStats(&after)
	if got := x.Bytes(); got > bytes+bytes/20 {
		t.Errorf("six generations took it from %d to %d bytes", bytes, got)
	}
	blocks := 6 * conversations * 320
	if n := after.Mallocs - before.Mallocs; n > uint64(blocks)/1000 {
		t.Errorf("%d allocations for %d blocks", n, blocks)
	}
	checkInvariants(t, x)
}

func memberships(x *Index) (n int) {
	for s := range x.slots {
		n += x.Len(s)
	}
	return n
}
