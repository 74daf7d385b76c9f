package prefix

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// heap is the live heap in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func filled(w *workload) *Index {
	x := New(Config{})
	w.fill(x)
	return x
}

// BenchmarkW1Insert fills an empty index with 516,096 blocks in events of 32 hashes after a parent.
func BenchmarkW1Insert(b *testing.B) {
	w := newWorkload(1)
	before := heap()
	var x *Index
	for b.Loop() {
		x = filled(w)
	}
	held := memberships(x)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(held), "ns/block")
	b.ReportMetric(float64(b.N)*float64(held)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
	b.ReportMetric(float64(heap()-before)/float64(held), "B/membership")
	b.ReportMetric(float64(x.Bytes())/float64(held), "ownB/membership")
	runtime.KeepAlive(x)
	runtime.KeepAlive(w)
}

// BenchmarkW1InsertWhole fills an empty index as a router without events does: each turn inserts its whole chain.
func BenchmarkW1InsertWhole(b *testing.B) {
	w := newWorkload(1)
	chains := make([][]uint64, conversations)
	for c := range chains {
		chains[c] = slices.Concat(w.common, w.conv[0][c])
	}
	var x *Index
	for b.Loop() {
		x = New(Config{})
		for t := range 10 {
			n := conversations
			if t < 2 {
				n = workers
			}
			for c := range n {
				x.Insert(c%workers, chains[c][:turnBlocks*(t+1)])
			}
		}
	}
	b.ReportMetric(float64(b.N)*float64(memberships(x))/b.Elapsed().Seconds()/1e6, "Mblocks/s")
}

// lookUp times each look-up and reports the median and the tail.
func lookUp(b *testing.B, x *Index, chains [][]uint64) {
	var m Matches
	for _, c := range chains[:min(2000, len(chains))] {
		x.Match(c, &m)
	}
	took := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		x.Match(chains[i%len(chains)], &m)
		if d := time.Since(start); len(took) < cap(took) {
			took = append(took, d)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

func BenchmarkW2LookUp(b *testing.B) {
	w := newWorkload(1)
	chains, _ := w.lookups(0, 20_000)
	lookUp(b, filled(w), chains)
}

func BenchmarkW3Long(b *testing.B) {
	x := New(Config{})
	lookUp(b, x, [][]uint64{long(x)})
}

func benchmarkChurn(b *testing.B, single bool) {
	const generations = 4
	w := newWorkload(generations)
	var first, last int64
	blocks := 0
	for b.Loop() {
		b.StopTimer()
		x := filled(w)
		first = x.Bytes()
		b.StartTimer()
		for g := 1; g < generations; g++ {
			blocks += conversations*privateBlocks + w.churn(x, g, single)
		}
		last = x.Bytes()
	}
	b.ReportMetric(float64(blocks)/b.Elapsed().Seconds()/1e6, "Mblockops/s")
	b.ReportMetric(float64(last)/float64(first), "growth")
}

func BenchmarkW4ChurnBatched(b *testing.B) { benchmarkChurn(b, false) }
func BenchmarkW4ChurnSingle(b *testing.B)  { benchmarkChurn(b, true) }

// BenchmarkW4Evict measures churn by the index's own eviction.
func BenchmarkW4Evict(b *testing.B) {
	w := newWorkload(2)
	x := New(Config{Capacity: commonBlocks + 8*privateBlocks})
	w.fill(x)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c := i % conversations
		for t := 2; t < 10; t++ {
			parent, blocks := w.turn(i/conversations%2, c, t)
			x.Store(c%workers, parent, blocks)
		}
	}
	b.ReportMetric(float64(b.N)*privateBlocks*2/b.Elapsed().Seconds()/1e6, "Mblockops/s")
}

// BenchmarkRemoveSingle removes one hash per event and inserts nothing in between.
func BenchmarkRemoveSingle(b *testing.B) {
	w := newWorkload(1)
	n := 0
	for b.Loop() {
		b.StopTimer()
		x := filled(w)
		b.StartTimer()
		for c := range conversations {
			for i := privateBlocks - 1; i >= 0; i-- {
				n += x.Remove(c%workers, w.conv[0][c][i:i+1])
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
}

func BenchmarkW5Unknown(b *testing.B) {
	w := newWorkload(1)
	var chains [][]uint64
	for j := range uint64(2000) {
		c := make([]uint64, 352)
		for i := range c {
			c[i] = local(1<<63+1<<40+j, uint64(i))
		}
		chains = append(chains, c)
	}
	lookUp(b, filled(w), chains)
}

func BenchmarkW5Common(b *testing.B) {
	w := newWorkload(1)
	var chains [][]uint64
	for j := range uint64(2000) {
		c := slices.Clone(w.common)
		for i := range uint64(288) {
			c = append(c, local(1<<63+1<<41+j, i))
		}
		chains = append(chains, c)
	}
	lookUp(b, filled(w), chains)
}

// big is prompts of 500 kB, 4,000 blocks of 128 bytes, over 64 endpoints: 500 blocks held by all, then turns of 250
// blocks held by their own endpoint, then one turn held by none.
func big() (*Index, [][]uint64) {
	x := New(Config{Capacity: 1 << 20})
	common := chainOf(0, 3, 500)
	var chains [][]uint64
	for c := range uint64(256) {
		chain := append(slices.Clone(common), chainOf(common[499], 4<<32+c, 3500)...)
		for k := 500; k <= 3750; k += 250 {
			x.Insert(int(c%workers), chain[:k])
		}
		chains = append(chains, chain)
	}
	return x, chains
}

func BenchmarkBigPromptLookUp(b *testing.B) {
	x, chains := big()
	lookUp(b, x, chains)
}

// BenchmarkBigPromptInsert inserts a big prompt with one turn more or less: most of the chain exists.
func BenchmarkBigPromptInsert(b *testing.B) {
	x, chains := big()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c := i % len(chains)
		x.Insert(c%workers, chains[c])
		x.Truncate(c%workers, chains[c], 3750)
	}
}

// BenchmarkShort fills with conversations of one block, which take the most memory per block.
func BenchmarkShort(b *testing.B) {
	const n = 200_000
	before := heap()
	var x *Index
	for b.Loop() {
		x = New(Config{})
		for i := range uint64(n) {
			one := [1]uint64{mix(i)}
			x.Insert(int(i%workers), one[:])
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds()/1e6, "Mblocks/s")
	b.ReportMetric(float64(heap()-before)/n, "B/membership")
	runtime.KeepAlive(x)
}
