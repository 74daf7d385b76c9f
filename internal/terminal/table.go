package terminal

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Style is how a table is framed.
type Style int

// The styles.
const (
	Capitals Style = iota // lines around it and between columns, headings in capitals
	Framed                // lines around it and between columns, headings as written
	Wide                  // lines around it and none between columns, for many of them
	Bare                  // no lines
)

// Table is rows under headings.
type Table struct {
	w     table.Writer
	right []table.ColumnConfig

	columns int // with headings
}

// NewTable begins a table with its headings.
func NewTable(s Style, headings ...string) *Table {
	t := &Table{w: table.NewWriter(), columns: len(headings)}
	t.w.SetStyle(table.StyleLight)
	if s != Capitals {
		t.w.Style().Format.Header = text.FormatDefault
	}
	switch s {
	case Wide:
		t.w.Style().Options.SeparateColumns = false
	case Bare:
		t.w.Style().Options = table.OptionsNoBordersAndSeparators
	}
	row := make(table.Row, len(headings))
	for i, h := range headings {
		row[i] = h
	}
	t.w.AppendHeader(row)
	return t
}

// Right aligns columns to the right. The first column is number 1.
func (t *Table) Right(columns ...int) {
	for _, n := range columns {
		t.right = append(t.right, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.w.SetColumnConfigs(t.right)
}

// RightFrom aligns the columns from that number on to the right.
func (t *Table) RightFrom(first int) {
	for n := first; n <= t.columns; n++ {
		t.Right(n)
	}
}

// Row adds a row.
func (t *Table) Row(cells ...any) { t.w.AppendRow(cells) }

// Separator adds a line between rows.
func (t *Table) Separator() { t.w.AppendSeparator() }

// String draws the table, without a line break at its end.
func (t *Table) String() string { return t.w.Render() }
