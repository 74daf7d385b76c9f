package session

import (
	"slices"
	"strconv"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

// crowd makes every hash of an index fall into one bucket with one tag.
func crowd(x *index) {
	for i := range x.parts {
		x.parts[i] = &part{buckets: make([]bucket, 1)}
	}
}

// TestLRUIsItsModel: the lru holds what a slice in order of use holds, also when all hashes collide.
func TestLRUIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 40).Draw(t, "room")
		l := newLRU[int](room)
		if rapid.Bool().Draw(t, "crowded") {
			crowd(&l.index)
		}
		var order []uint64 // most recently used first
		values := map[uint64]int{}
		use := func(key uint64) {
			if i := slices.Index(order, key); i >= 0 {
				order = slices.Delete(order, i, i+1)
			}
			if order = slices.Insert(order, 0, key); len(order) > room {
				delete(values, order[room])
				order = order[:room]
			}
		}
		for i := range 400 {
			key := rapid.Uint64Range(0, uint64(3*room)).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				l.put(key, i)
				values[key] = i
				use(key)
			} else {
				want, held := values[key]
				got := l.get(key)
				if (got != nil) != held || held && *got != want {
					t.Fatalf("step %d: key %d is %v, want %d, %v", i, key, got, want, held)
				}
				if held {
					use(key)
				}
			}
			if l.len() != len(order) || int(l.used) > room+1 {
				t.Fatalf("step %d: %d held in %d nodes, want %d of %d", i, l.len(), l.used, len(order), room)
			}
		}
		n := l.root().next
		for _, key := range order {
			if l.at(n).key != key {
				t.Fatalf("key %d is in the place of %d", l.at(n).key, key)
			}
			n = l.at(n).next
		}
	})
}

// TestIndexIsItsModel: the index finds what a map finds, through inserts, removals and growth.
func TestIndexIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hashes := rapid.SliceOfNDistinct(rapid.Uint64(), 100, 100, rapid.ID[uint64]).Draw(t, "hashes")
		x := newIndex(func(i int32) uint64 { return hashes[i-1] })
		if rapid.Bool().Draw(t, "crowded") {
			crowd(&x)
		}
		held := map[int32]bool{}
		for range 300 {
			i := rapid.Int32Range(1, 100).Draw(t, "number")
			if held[i] {
				x.remove(hashes[i-1], i)
				delete(held, i)
			} else {
				x.insert(hashes[i-1], i)
				held[i] = true
			}
			if x.used != len(held) {
				t.Fatalf("%d held, want %d", x.used, len(held))
			}
			for i := range int32(100) {
				if got := x.find(hashes[i], func(n int32) bool { return n == i+1 }); (got == i+1) != held[i+1] {
					t.Fatalf("%d is found as %d, want %v", i+1, got, held[i+1])
				}
			}
		}
		for i := range x.parts {
			for j := range x.parts[i].buckets {
				if p := x.parts[i]; p.used == 0 && p.buckets[j].tags != [3]uint64{} {
					t.Fatalf("a bucket of an empty part is %x", p.buckets[j].tags)
				}
			}
		}
	})
}

// TestIndexGrowsInSmallSteps: however many entries come, and whatever bound the owner had before, no insert places more
// than one part's anew; and few places stay empty.
func TestIndexGrowsInSmallSteps(t *testing.T) {
	for _, row := range []struct {
		name string
		hash func(i int32) uint64
		most int // entries placed anew by one insert
	}{
		{
			"hashes as they are", func(i int32) uint64 { return xxh3.HashString(strconv.Itoa(int(i))) },
			5 * bucketEntries * mostBuckets / 8,
		},
		{"all equal in their upper half", func(i int32) uint64 {
			return xxh3.HashString(strconv.Itoa(int(i))) >> 32
		}, 400_000},
	} {
		placed := 0
		x := newIndex(func(i int32) uint64 { placed++; return row.hash(i) })
		worst := 0
		for i := range int32(400_000) {
			placed = 0
			x.insert(row.hash(i), i)
			worst = max(worst, placed)
		}
		if worst > row.most {
			t.Errorf("%s: an insert placed %d entries anew, want at most %d", row.name, worst, row.most)
		}
		if len(x.parts) > 4096 {
			t.Errorf("%s: %d parts", row.name, len(x.parts))
		}
		room := 0
		for i, p := range x.parts {
			if i == 0 || p != x.parts[i-1] {
				room += len(p.buckets) * bucketEntries
			}
		}
		if room > 4*x.used {
			t.Errorf("%s: room for %d entries, %d held", row.name, room, x.used)
		}
		for i := range int32(400_000) {
			if x.find(row.hash(i), func(n int32) bool { return n == i }) != i {
				t.Fatalf("%s: %d is not found", row.name, i)
			}
		}
	}
}

// TestIndexSparesLooks: few absent hashes cause a comparison.
func TestIndexSparesLooks(t *testing.T) {
	l := newLRU[int](1000)
	for i := range uint64(5000) {
		l.put(i*0x123456789abcdef1, 0)
	}
	through := 0
	for i := range uint64(10_000) {
		l.index.find(i*0x5851f42d4c957f2d+7, func(int32) bool { through++; return false })
	}
	if through > 20 {
		t.Errorf("%d looks for 10,000 hashes that are not there", through)
	}
}

func TestLRUAllocatesNothingAtSteadyState(t *testing.T) {
	l := newLRU[end](1000)
	keys := benchKeys(0, 100_000)
	for _, key := range keys[:50_000] {
		l.put(key, end{})
	}
	i := 0
	if got := testing.AllocsPerRun(40_000, func() {
		i++
		l.put(keys[i%len(keys)], end{})
		l.get(keys[i/2])
	}); got != 0 {
		t.Errorf("a put and a get allocate %v times", got)
	}
}
