// Package slot has tables of values by endpoint, or by lease, indexed by small numbers.
//
// It owns the rows and which key each belongs to. It promises that a row is empty when its slot has a new endpoint. It
// never interprets the values. Beside the tables it has slots in an order: Order and List.
package slot

import (
	"iter"
	"slices"
)

// Table has a row for each endpoint, by its slot. The zero Table is empty.
type Table[T any] struct{ rows []row[T] }

type row[T any] struct {
	key   uint64
	value T
}

// At is the row of a slot, emptied if another endpoint has the slot now. key identifies the endpoint and is not 0. The
// pointer is valid until the table grows.
func (t *Table[T]) At(slot int, key uint64) *T {
	t.Grow(slot)
	r := &t.rows[slot]
	if r.key != key {
		*r = row[T]{key: key}
	}
	return &r.value
}

// Get is the row with a number regardless of its key: a lease's, or that of an endpoint whose changes the caller
// handles. It panics unless Grow has made the row.
func (t *Table[T]) Get(n int) *T { return &t.rows[n].value }

// Grow makes the row with a number, and those before it, if missing. Growing invalidates earlier pointers.
func (t *Table[T]) Grow(n int) *T {
	for len(t.rows) <= n {
		t.rows = append(t.rows, row[T]{})
	}
	return &t.rows[n].value
}

// Len is the number of rows.
func (t *Table[T]) Len() int { return len(t.rows) }

// Reset empties the row of a slot.
func (t *Table[T]) Reset(slot int) {
	if slot < len(t.rows) {
		t.rows[slot] = row[T]{}
	}
}

// Drop empties the rows of the endpoints for which gone is true.
func (t *Table[T]) Drop(gone func(key uint64) bool) {
	for i := range t.rows {
		if t.rows[i].key != 0 && gone(t.rows[i].key) {
			t.rows[i] = row[T]{}
		}
	}
}

// Peek is the row of a slot; nil if it is empty or another endpoint's. It changes nothing.
func (t *Table[T]) Peek(slot int, key uint64) *T {
	if slot >= len(t.rows) || t.rows[slot].key != key {
		return nil
	}
	return &t.rows[slot].value
}

// Each calls f with every row, in order of slots. Rows of free slots are empty.
func (t *Table[T]) Each(f func(*T)) {
	for i := range t.rows {
		f(&t.rows[i].value)
	}
}

// Order is slots in the order in which they were appended.
type Order []int

// Remove takes out a slot, if it is there.
func (o *Order) Remove(slot int) {
	*o = slices.DeleteFunc(*o, func(s int) bool { return s == slot })
}

// List is slots in a fixed order, to be read only.
type List struct{ slots []int32 }

// ListOf is a List of these slots, which it does not copy.
func ListOf(slots []int32) List { return List{slots} }

// Len is how many they are.
func (l List) Len() int { return len(l.slots) }

// At is the slot with an index.
func (l List) At(i int) int32 { return l.slots[i] }

// All are the slots with their indices.
func (l List) All() iter.Seq2[int, int32] { return slices.All(l.slots) }

// Index is the index of a slot; -1 if it is not in the list.
func (l List) Index(slot int32) int { return slices.Index(l.slots, slot) }
