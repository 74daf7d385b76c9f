package session

import "testing"

// BenchmarkFollowLive is the work per turn of a router with a full memory: many concurrent chats of up to a dozen turns
// in random order, whose rendered text is looked up too.
func BenchmarkFollowLive(b *testing.B) {
	turn := liveTurns()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		turn()
	}
}

// liveTurns fills a memory and returns a function that plays the next turn of the next conversation.
func liveTurns() func() {
	const talks, longest = 60_000, 12
	m := NewTrails(100_000)
	turns := make([]int, talks)
	var seed uint64
	at := func(n int) uint64 { return (seed + uint64(n)) * 0xd6e8feb86659fd93 }
	p := Trail{Scope: 7, HashAt: at, Least: 64}
	next := 0
	turn := func() {
		k := next * 7919 % talks
		next++
		n := turns[k] % longest
		seed = uint64(k+1)*0x9e3779b97f4a7c15 + uint64(turns[k]/longest)<<20 // a new conversation after the last turn
		turns[k]++
		p.Marks, p.StrictMarks, p.Blocks = p.Marks[:0], p.StrictMarks[:0], p.Blocks[:0]
		for i := 2 * n; i > 0; i-- { // latest first
			p.Marks, p.StrictMarks = append(p.Marks, at(-i)^1), append(p.StrictMarks, at(-i)^2)
		}
		p.Whole, p.Strict = at(-2*n-1)^1, at(-2*n-1)^2
		p.Bytes = 700 + 650*n
		p.Text, p.From = at(p.Bytes), max(0, p.Bytes-300)
		for i := TrailBlock; i <= p.Bytes; i += TrailBlock {
			p.Blocks = append(p.Blocks, at(i)^3)
		}
		m.Follow(&p, "id")
	}
	for range 4 * talks {
		turn()
	}
	return turn
}
