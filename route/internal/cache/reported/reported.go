// Package reported keeps what engines reported by KV cache events: which blocks each of them holds, and which
// conversation's prompt those blocks make up.
//
// It owns an index of the reported blocks, under the names of package kvstream, the bindings of conversations and of
// common beginnings to chains of such names, and how far each endpoint's events can be trusted. Each of them is
// bounded. A Reader changes nothing. The package never estimates: what an endpoint may hold beyond what its engine
// reported is the business of package cache.
//
// find.go says what the events tell of a prompt, by its text or its token ids, trust.go whether that holds. Whose
// blocks are whose (bindings.go) comes from labels and order of events, from token ids (leases.go), or from the counts
// of answers (runs.go).
package reported

import (
	"time"

	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/slot"
)

// Table is what KV events say, over all endpoints.
type Table struct {
	Reader
	index     *prefix.Index // by endpoint, the blocks that its engine reported; nil before the first event
	endpoints slot.Table[endpoint]
	leases    slot.Table[lease]
	bindings  bindings
	loose     loose
	runs      runs
	finished  finished
	chain     []uint64 // scratch
	any       bool     // an endpoint has events
	tenants   bool     // there was a request of a tenant
	tokens    bool     // token ids were reported
}

// New makes a table without endpoints.
func New() *Table {
	t := &Table{}
	t.Reader = Reader{t}
	return t
}

// Reader reads a Table. None of its methods changes the table.
type Reader struct{ t *Table }

// AddEndpoint begins the row of an endpoint. born is a number that no other endpoint ever has.
func (t *Table) AddEndpoint(slot int, born uint32) { *t.endpoints.Grow(slot) = endpoint{born: born} }

// RemoveEndpoint forgets an endpoint.
func (t *Table) RemoveEndpoint(slot int) {
	t.endpoints.Reset(slot)
	if t.index != nil {
		t.index.Drop(slot)
	}
}

func (t *Table) open() {
	if t.index == nil {
		t.index = prefix.New(prefix.Config{Capacity: kvstream.DefaultBlocks})
		b := &t.bindings
		b.byKey, b.used.prev, b.used.next = map[uint64]*binding{}, &b.used, &b.used
	}
	t.any = true
}

// Batch is what one endpoint's event stream brought.
type Batch struct {
	Ops    *kvstream.Ops
	Blocks int // cached by the engine, as far as it is known
	Size   int // tokens of a block; 0 unknown
}

// Apply takes in a batch of events. only is the conversation of the one request that can have caused blocks without a
// label, 0 where several can. cleared is how often the engine emptied its cache, news what changed about the endpoint's
// events.
func (t *Table) Apply(slot int, b *Batch, only uint64) (cleared int, news []string) {
	e := t.endpoints.Get(slot)
	t.open()
	if e.base == kvstream.None {
		e.base = kvstream.Partial
	}
	if b.Size > 0 && b.Size != e.block {
		e.block = b.Size
	}
	e.tiers = e.tiers || b.Ops.Tiers
	t.index.SetCapacity(slot, max(b.Blocks+1024, kvstream.DefaultBlocks))
	late := false
	for i := range b.Ops.List {
		op := &b.Ops.List[i]
		names := b.Ops.Of(op)
		switch op.Kind {
		case kvstream.Stored:
			news = e.arrived(len(names), news)
			t.index.Store(slot, op.Parent, names)
			label, alone := uint64(0), only
			if op.Session != "" {
				label, alone = t.labelled(op.Session), 0
			}
			if t.attachBlocks(label, alone, op.Parent, names) {
				e.Tied += uint64(len(names))
			} else {
				e.Untied += uint64(len(names))
				t.noteRun(slot, op.Parent, names)
				late = true
			}
		case kvstream.Removed:
			t.index.Remove(slot, names)
			e.full = max(e.full, e.Blocks)
		case kvstream.Cleared:
			t.index.Clear(slot)
			cleared++
			e.base, e.misses, e.hits = kvstream.Exact, 0, 0 // whatever was there before it began is gone
			e.State = kvstream.Exact
		}
	}
	e.Blocks = b.Blocks
	if late {
		for end := range t.finished.Latest(mostLate) {
			if end.slot == slot {
				t.matchRun(end) // its prompt's blocks are reported only now
			}
		}
	}
	return cleared, news
}

// SetStreamState takes in the state of an endpoint's event stream. changed is false when it is what it was.
func (t *Table) SetStreamState(slot int, state kvstream.State) (changed bool) {
	t.open()
	if state == kvstream.None {
		t.Void(slot)
	}
	e := t.endpoints.Get(slot)
	if trusted(state) || state == kvstream.None {
		e.base = state
	}
	changed = e.State != state
	e.State = state
	return changed
}

// Void forgets what an endpoint's events have reported.
func (t *Table) Void(slot int) {
	t.open()
	t.index.Clear(slot)
	e := t.endpoints.Get(slot)
	e.Blocks, e.misses, e.hits, e.owed = 0, 0, 0, time.Time{}
}
