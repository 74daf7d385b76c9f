package slot

import (
	"slices"
	"testing"
)

func TestTable(t *testing.T) {
	var table Table[int]
	if table.Peek(3, 7) != nil {
		t.Error("an empty table has a row")
	}
	*table.At(3, 7) = 5
	if got := table.Peek(3, 7); got == nil || *got != 5 {
		t.Errorf("found %v", got)
	}
	if table.Peek(3, 8) != nil {
		t.Error("a row is found for another endpoint")
	}
	if got := *table.At(3, 7); got != 5 {
		t.Errorf("Peek for another endpoint left %d", got)
	}
	if got := *table.At(3, 8); got != 0 || table.Peek(3, 7) != nil {
		t.Errorf("the next endpoint of the slot begins with %d", got)
	}
	*table.At(0, 1), *table.At(3, 8) = 2, 4
	var rows []int
	table.Each(func(row *int) { rows = append(rows, *row) })
	if !slices.Equal(rows, []int{2, 0, 0, 4}) {
		t.Errorf("rows are %v", rows)
	}
	table.Reset(3)
	table.Reset(99)
	if table.Peek(3, 8) != nil {
		t.Error("a row is found after Reset")
	}
}

func TestOrder(t *testing.T) {
	o := Order{3, 1, 2}
	o.Remove(1)
	o.Remove(7)
	if !slices.Equal(o, Order{3, 2}) {
		t.Errorf("slots are %v", o)
	}
}
