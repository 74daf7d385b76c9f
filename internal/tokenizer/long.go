package tokenizer

import "container/heap"

// candidate is a pair that may be merged; it is stale if its token has changed.
type candidate struct {
	merge
	at int32
}

// candidates is a heap: the lowest rank first, then the leftmost.
type candidates []candidate

func (c candidates) Len() int { return len(c) }

func (c candidates) Less(i, j int) bool {
	if c[i].rank != c[j].rank {
		return c[i].rank < c[j].rank
	}
	return c[i].at < c[j].at
}

func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

func (c *candidates) Push(x any) { *c = append(*c, x.(candidate)) }

func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// mergeLong is mergeShort for long words, in n log n.
func (b *bpe) mergeLong(w []int32) int {
	syms := make([]symbol, len(w))
	for i, id := range w {
		syms[i] = symbol{token: id, prev: int32(i) - 1, next: int32(i) + 1}
	}
	syms[len(w)-1].next = -1
	var open candidates
	look := func(i int32) (candidate, bool) {
		if i < 0 || syms[i].next < 0 {
			return candidate{}, false
		}
		m, ok := b.merges[pairOf(syms[i].token, syms[syms[i].next].token)]
		return candidate{merge: m, at: i}, ok
	}
	for i := range syms {
		if c, ok := look(int32(i)); ok {
			open = append(open, c)
		}
	}
	heap.Init(&open)
	for open.Len() > 0 {
		c := heap.Pop(&open).(candidate)
		if now, ok := look(c.at); syms[c.at].gone || !ok || now != c {
			continue // one of the two has been merged meanwhile
		}
		s := &syms[c.at]
		right := &syms[s.next]
		right.gone = true
		s.token = c.token
		s.next = right.next
		if s.next >= 0 {
			syms[s.next].prev = c.at
		}
		for _, i := range [2]int32{s.prev, c.at} {
			if n, ok := look(i); ok {
				heap.Push(&open, n)
			}
		}
	}
	n := 0
	for i := int32(0); i >= 0; i = syms[i].next {
		w[n] = syms[i].token
		n++
	}
	return n
}
