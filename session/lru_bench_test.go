package session

import (
	"runtime"
	"testing"
)

// benchKeys are hashes in random order.
func benchKeys(from, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		h := uint64(from+i+1) * 0x9e3779b97f4a7c15
		h = (h ^ h>>31) * 0xbf58476d1ce4e5b9
		keys[i] = h ^ h>>29
	}
	return keys
}

// BenchmarkLRU measures a full memory of 300,000 ends, the size that NewTrails makes for 100,000 conversations.
func BenchmarkLRU(b *testing.B) {
	const most = 300_000
	keys := benchKeys(0, 4*most)
	l := newLRU[end](most)
	for _, k := range keys[:most] {
		l.put(k, end{id: "id", main: k})
	}
	next := most
	fill := func() { // holds the keys before next, whichever benchmark ran before
		for i := next - most; i < next; i++ {
			l.put(keys[i%len(keys)], end{id: "id"})
		}
	}
	b.Run("known", func(b *testing.B) {
		fill()
		b.ResetTimer()
		b.ReportAllocs()
		for i := range b.N {
			if l.get(keys[(next-most+i*7919%most)%len(keys)]) == nil {
				b.Fatal("gone")
			}
		}
	})
	b.Run("unknown", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			l.get(^keys[i*7919%len(keys)])
		}
	})
	b.Run("put known", func(b *testing.B) {
		fill()
		b.ResetTimer()
		b.ReportAllocs()
		for i := range b.N {
			l.put(keys[(next-most+i*7919%most)%len(keys)], end{id: "id"})
		}
	})
	b.Run("put new", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			l.put(keys[next%len(keys)], end{id: "id"})
			next++
		}
	})
}

// BenchmarkLRUFill measures filling a memory, and the bytes per entry.
func BenchmarkLRUFill(b *testing.B) {
	const most = 300_000
	keys := benchKeys(0, most)
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		l := newLRU[end](most)
		for _, k := range keys {
			l.put(k, end{id: "id"})
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/most, "B/entry")
		runtime.KeepAlive(l)
		b.StartTimer()
	}
}
