package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a naive table: one slice in order of use, newest first.
type model struct {
	owned   bool    // entries have owners: their tenants
	dropped []Entry // expired or evicted
	max     int
	ttl     time.Duration
	latest  time.Time
	entries []modelEntry
	stats   Stats
}

type modelEntry struct {
	name  [3]string
	entry Entry
}

func (m *model) tick(now time.Time) {
	if now.After(m.latest) {
		m.latest = now
	}
}

func (m *model) find(name [3]string) int {
	return slices.IndexFunc(m.entries, func(e modelEntry) bool { return e.name == name })
}

func (m *model) expired(i int) bool { return m.latest.Sub(m.entries[i].entry.Last) >= m.ttl }

func (m *model) toFront(i int) {
	e := m.entries[i]
	m.entries = slices.Insert(slices.Delete(m.entries, i, i+1), 0, e)
}

func (m *model) live(name [3]string) bool {
	i := m.find(name)
	if i >= 0 && m.expired(i) {
		m.drop(i)
		m.stats.Expirations++
		return false
	}
	return i >= 0
}

func (m *model) drop(i int) {
	m.dropped = append(m.dropped, m.entries[i].entry)
	m.entries = slices.Delete(m.entries, i, i+1)
}

func (m *model) get(now time.Time, name [3]string) (Entry, bool) {
	m.tick(now)
	if !m.live(name) {
		m.stats.Misses++
		return Entry{}, false
	}
	m.stats.Hits++
	m.toFront(m.find(name))
	return m.entries[0].entry, true
}

func (m *model) put(now time.Time, name [3]string, e Entry) {
	m.sweep(now, sweepPerPut)
	e.Last = m.latest
	if m.live(name) {
		m.toFront(m.find(name))
		m.entries[0].entry = e
		return
	}
	if len(m.entries) == m.max {
		m.drop(m.leastUsed())
		m.stats.Evictions++
	}
	m.entries = slices.Insert(m.entries, 0, modelEntry{name, e})
}

// owner is that of an entry, by number.
func (m *model) owner(name [3]string) uint8 {
	if !m.owned {
		return 0
	}
	return uint8(len(name[0]))
}

// leastUsed is the last entry of the owner that has the most.
func (m *model) leastUsed() (last int) {
	var held [8]int
	for _, e := range m.entries {
		held[m.owner(e.name)]++
	}
	fullest := uint8(slices.Index(held[:], slices.Max(held[:])))
	for i, e := range m.entries {
		if m.owner(e.name) == fullest {
			last = i
		}
	}
	return last
}

// revise does what Revise does to an entry that exists.
func (m *model) revise(now time.Time, name [3]string, tokens int, changes bool) bool {
	i := m.find(name)
	if i < 0 {
		return false
	}
	was := m.latest
	m.tick(now)
	if m.expired(i) {
		m.latest = was
		return false
	}
	if !changes {
		m.latest = was
		return true
	}
	e := m.entries[i].entry
	e.Tokens += tokens
	m.put(now, name, e)
	return true
}

func (m *model) delete(name [3]string) bool {
	i := m.find(name)
	if i >= 0 {
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	return i >= 0
}

// sweep drops expired entries, oldest write first. A slice in order of use cannot order writes at equal times, so
// callers keep times of writes distinct.
func (m *model) sweep(now time.Time, limit int) int {
	m.tick(now)
	for done := range limit {
		oldest := -1
		for i := range m.entries {
			if oldest < 0 || m.entries[i].entry.Last.Before(m.entries[oldest].entry.Last) {
				oldest = i
			}
		}
		if oldest < 0 || !m.expired(oldest) {
			return done
		}
		m.drop(oldest)
		m.stats.Expirations++
	}
	return limit
}

// machine drives a table and its model with the same calls.
type machine struct {
	table   *Table
	dropped []Entry // as the table tells
	model   model
	now     time.Time
}

func (m *machine) name(t *rapid.T) [3]string {
	return [3]string{
		rapid.SampledFrom([]string{"", "acme", "a"}).Draw(t, "tenant"),
		rapid.SampledFrom([]string{"llama", "llama-8b"}).Draw(t, "model"),
		fmt.Sprint("session-", rapid.IntRange(0, 12).Draw(t, "id")),
	}
}

// tick advances time by at least a nanosecond, so that times of writes are distinct.
func (m *machine) tick(t *rapid.T) {
	m.now = m.now.Add(time.Duration(
		rapid.OneOf(rapid.Int64Range(1, 4), rapid.Just(int64(m.model.ttl)), rapid.Int64Range(1, 60)).Draw(t, "passed")))
}

// check compares the whole state: order of use, order of age, index and free nodes.
func (m *machine) check(t *rapid.T) {
	s := &m.table.store
	if m.table.Len() != len(m.model.entries) || m.table.Len() > m.model.max {
		t.Fatalf("%d entries, model %d, at most %d", m.table.Len(), len(m.model.entries), m.model.max)
	}
	if m.table.Stats() != m.model.stats {
		t.Fatalf("stats %+v, model %+v", m.table.Stats(), m.model.stats)
	}
	if !slices.Equal(m.dropped, m.model.dropped) {
		t.Fatalf("dropped %+v, model %+v", m.dropped, m.model.dropped)
	}
	used := s.shares
	for _, want := range m.model.entries {
		of := m.model.owner(want.name)
		i := used.heads[of].older
		n := s.at(i)
		got := Entry{
			n.endpoint, n.model, n.tokens, int(n.prompt), int(n.bytes), n.flow, n.epoch, n.turns, n.rest, n.marks,
			n.leader, m.table.origin.Add(n.last),
		}
		if i == none || got != want.entry || n.key != KeyOf(want.name[0], want.name[1], want.name[2]) ||
			m.table.keyed(n.key) != i {
			t.Fatalf("in order of use: %+v, model %+v", got, want)
		}
		used.heads[of].older = n.links[byUse].older
		used.held[of]--
	}
	for of := range used.heads {
		if used.heads[of].older != none || used.held[of] != 0 {
			t.Fatalf("more entries of owner %d in order of use than in the index", of)
		}
	}
	count, last := 0, time.Duration(1<<62)
	for i := s.at(none).links[byAge].older; i != none; i = s.at(i).links[byAge].older {
		if s.at(i).last > last {
			t.Fatal("order of age is broken")
		}
		last = s.at(i).last
		count++
	}
	free := 0
	for i := s.unused; i != none; i = s.at(i).links[byUse].older {
		if n := s.at(i); n.identity != "" || n.endpoint != "" || n.model != "" {
			t.Fatal("a free node holds a string")
		}
		free++
	}
	if count != m.table.Len() || count+free+1 != int(s.used) || int(s.used) > m.model.max+1 {
		t.Fatalf("%d by age, %d free, %d used, %d in the index, at most %d",
			count, free, s.used, m.table.Len(), m.model.max)
	}
}

func TestTableIsItsModel(t *testing.T) {
	for _, of := range []struct{ hashOnly, owned bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", of), rapid.MakeCheck(func(t *rapid.T) {
			c := Config{
				Max: rapid.IntRange(1, 8).Draw(t, "max"), IdleTTL: time.Duration(rapid.IntRange(1, 40).Draw(t, "ttl")),
				HashOnly: of.hashOnly,
			}
			m := &machine{table: New(c), model: model{owned: of.owned, max: c.Max, ttl: c.IdleTTL}, now: start}
			m.table.OnDrop(func(e Entry) { m.dropped = append(m.dropped, e) })
			t.Repeat(m.actions())
		}))
	}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": m.check,
		"get": func(t *rapid.T) {
			m.tick(t)
			n := m.name(t)
			got, ok := m.table.Get(m.now, name(n[0], n[1], n[2]))
			if want, found := m.model.get(m.now, n); got != want || ok != found {
				t.Fatalf("get: %+v %v, model %+v %v", got, ok, want, found)
			}
		},
		"put": func(t *rapid.T) {
			m.tick(t)
			n := m.name(t)
			e := Entry{
				Endpoint: fmt.Sprint("e", rapid.IntRange(0, 3).Draw(t, "endpoint")), Model: n[1],
				Tokens: rapid.IntRange(0, 99).Draw(t, "tokens"), Epoch: rapid.Uint32().Draw(t, "epoch"),
				Turns: rapid.IntRange(1, 9).Draw(t, "turns"), Last: m.now.Add(time.Hour),
			}
			put := name(n[0], n[1], n[2])
			if m.model.owned {
				*put = Owned(put.key, m.model.owner(n))
			}
			m.table.Put(m.now, put, e)
			m.model.put(m.now, n, e)
		},
		"revise": func(t *rapid.T) {
			m.tick(t)
			n, changes := m.name(t), rapid.Bool().Draw(t, "changes")
			got := m.table.Revise(m.now, name(n[0], n[1], n[2]), func(e Entry) (Entry, bool) {
				e.Tokens += 7
				return e, changes
			})
			if want := m.model.revise(m.now, n, 7, changes); got != want {
				t.Fatalf("revise: %v, model %v", got, want)
			}
		},
		"delete": func(t *rapid.T) {
			n := m.name(t)
			if got, want := m.table.Delete(name(n[0], n[1], n[2])), m.model.delete(n); got != want {
				t.Fatalf("delete: %v, model %v", got, want)
			}
		},
		"sweep": func(t *rapid.T) {
			m.tick(t)
			limit := rapid.IntRange(0, 9).Draw(t, "limit")
			if got, want := m.table.Sweep(m.now, limit), m.model.sweep(m.now, limit); got != want {
				t.Fatalf("sweep: %v, model %v", got, want)
			}
		},
	}
}
