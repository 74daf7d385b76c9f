package record

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTree: what a prompt shares with earlier ones is found to the block, against all of them compared one by one; with
// little memory less is found, and nothing that is not so.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{mostTree, 200, 60}).Draw(t, "memory")
		tree := newTree(most)
		var prompts [][]uint64
		for n := range rapid.IntRange(1, 30).Draw(t, "prompts") {
			var p []uint64
			if n > 0 && rapid.IntRange(0, 3).Draw(t, "goes on") > 0 {
				of := prompts[rapid.IntRange(0, n-1).Draw(t, "from")]
				p = append(p, of[:rapid.IntRange(0, len(of)).Draw(t, "share")]...)
			}
			for range rapid.IntRange(0, 6).Draw(t, "new") {
				before := uint64(1)
				if len(p) > 0 {
					before = p[len(p)-1]
				}
				// A block's name covers what comes before it.
				p = append(p, before*31+rapid.Uint64Range(1, 2).Draw(t, "block"))
			}
			want := 0
			for _, o := range prompts {
				i := 0
				for i < min(len(o), len(p)) && o[i] == p[i] {
					i++
				}
				want = max(want, i)
			}
			from, got := tree.add(uint64(n+1), p)
			if got > want || got < want && most == mostTree {
				t.Fatalf("prompt %d shares %d blocks, want %d", n, got, want)
			}
			if got > 0 {
				o := prompts[from-1]
				if len(o) < got || o[got-1] != p[got-1] {
					t.Fatalf("prompt %d has not the %d blocks of %d", from, got, n)
				}
			}
			prompts = append(prompts, p)
			check(t, tree)
		}
	})
}

// check holds the tree to its bound, and to what eviction relies on: nothing comes after a piece that is forgotten.
func check(t *rapid.T, tree *tree) {
	size, n := 0, 0
	place := map[*piece]int{}
	for p := tree.newest; p != nil; p = p.older {
		size += p.cost()
		n++
		place[p] = n
		if tree.byFirst[p.blocks[0]] != p {
			t.Fatal("a piece that is not found")
		}
	}
	if size != tree.size || size > tree.most || n != len(tree.byFirst) {
		t.Fatalf("size %d, told %d, at most %d; %d pieces, %d found", size, tree.size, tree.most, n, len(tree.byFirst))
	}
	for p := range place {
		if p.before != nil && place[p.before] == 0 {
			t.Fatal("a piece whose front is forgotten")
		}
		if p.before != nil && place[p.before] > place[p] {
			t.Fatal("a front that was used later than what comes after it")
		}
	}
}
