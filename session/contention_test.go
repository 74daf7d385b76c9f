package session

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// locked is a table behind one lock, as in the live router.
type locked struct {
	mu    sync.Mutex
	table *Table
}

func (l *locked) get(now time.Time, id string) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := NameOf("acme", "m", id)
	return l.table.Get(now, &n)
}

func (l *locked) put(now time.Time, id string, e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := NameOf("acme", "m", id)
	l.table.Put(now, &n, e)
}

// TestStress: concurrent callers behind one lock lose, mix up or overfill nothing. Under the race detector it also
// shows that nothing is shared outside the lock.
func TestStress(t *testing.T) {
	const callers, rounds, size = 8, 3000, 500
	l := &locked{table: New(Config{Max: size, IdleTTL: time.Second})}
	var done sync.WaitGroup
	for caller := range callers {
		done.Go(func() {
			for i := range rounds {
				n := (i*7919 + caller*31) % (2 * size)
				id := fmt.Sprint("session-", n)
				now := start.Add(time.Duration(i) * time.Millisecond)
				switch i % 10 {
				case 0:
					l.put(now, id, Entry{Endpoint: id, Turns: n})
				case 5:
					l.mu.Lock()
					l.table.Sweep(now, 3)
					if i%50 == 5 {
						l.table.Delete(name("acme", "m", id))
					}
					l.mu.Unlock()
				default:
					if e, ok := l.get(now, id); ok && (e.Endpoint != id || e.Turns != n) {
						t.Errorf("%s is %+v", id, e)
						return
					}
				}
			}
		})
	}
	done.Wait()
	s := l.table.Stats()
	if got, want := s.Hits+s.Misses, uint64(callers*rounds*8/10); got != want {
		t.Errorf("%d reads counted, %d made", got, want)
	}
	if s.Hits == 0 || s.Evictions+s.Expirations == 0 || l.table.Len() > size {
		t.Errorf("%d entries, stats %+v", l.table.Len(), s)
	}
}

func TestNoAllocationAtSteadyState(t *testing.T) {
	for _, hashOnly := range []bool{false, true} {
		table := New(Config{Max: 100, HashOnly: hashOnly})
		names := ids(200)
		for _, id := range names {
			table.Put(start, name("acme", "m", id), Entry{})
		}
		known := names[199]
		if got := testing.AllocsPerRun(1000, func() {
			n := NameOf("acme", "m", known)
			table.Get(start, &n)
			table.Put(start, &n, Entry{Turns: 2})
		}); got != 0 {
			t.Errorf("hashOnly=%v: a turn of a known conversation allocates %v times", hashOnly, got)
		}
		// A new conversation allocates the copy of its name, and nothing where no names are kept.
		next, want := 0, 1.0
		if hashOnly {
			want = 0
		}
		if got := testing.AllocsPerRun(1000, func() {
			n := NameOf("acme", "m", names[next%200])
			table.Put(start, &n, Entry{})
			next++
		}); got > want {
			t.Errorf("hashOnly=%v: a new conversation allocates %v times, want at most %v", hashOnly, got, want)
		}
	}
}

const benchEntries = 100_000

func filled(hashOnly bool, names []string) *Table {
	table := New(Config{Max: benchEntries, HashOnly: hashOnly})
	for _, id := range names[:benchEntries] {
		n := NameOf("acme", "m", id)
		table.Put(start, &n, Entry{Endpoint: "e1", Model: "m"})
	}
	return table
}

// BenchmarkMixed: one in ten operations writes, on a full table of 100,000 conversations; ids come in random order.
func BenchmarkMixed(b *testing.B) {
	names := ids(benchEntries)
	for _, hashOnly := range []bool{false, true} {
		b.Run(fmt.Sprintf("hashOnly=%v", hashOnly), func(b *testing.B) {
			table := filled(hashOnly, names)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				n := NameOf("acme", "m", names[i*7919%benchEntries])
				if i++; i%10 == 0 {
					table.Put(start, &n, Entry{Endpoint: "e2", Model: "m"})
				} else {
					table.Get(start, &n)
				}
			}
		})
	}
}

func BenchmarkContention(b *testing.B) {
	names := ids(benchEntries)
	for _, per := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", per*runtime.GOMAXPROCS(0)), func(b *testing.B) {
			l := &locked{table: filled(false, names)}
			b.SetParallelism(per)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 1; pb.Next(); i++ {
					id := names[i*7919%benchEntries]
					if i%10 == 0 {
						l.put(start, id, Entry{Endpoint: "e2", Model: "m"})
					} else {
						l.get(start, id)
					}
				}
			})
		})
	}
}

// BenchmarkEvict: every Put adds a new conversation and evicts one.
func BenchmarkEvict(b *testing.B) {
	names := ids(4 * benchEntries)
	table := filled(false, names)
	b.ReportAllocs()
	i := benchEntries
	for b.Loop() {
		n := NameOf("acme", "m", names[i%len(names)])
		table.Put(start, &n, Entry{Endpoint: "e1", Model: "m"})
		i++
	}
}

func BenchmarkBytesPerEntry(b *testing.B) {
	names := ids(benchEntries)
	for _, hashOnly := range []bool{false, true} {
		b.Run(fmt.Sprintf("hashOnly=%v", hashOnly), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				table := filled(hashOnly, names)
				b.ReportMetric(float64(heap()-before)/benchEntries, "B/entry")
				runtime.KeepAlive(table)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
