package jinja

import (
	"errors"
	"strings"
)

// Budget bounds one rendering.
type Budget struct {
	Steps   int         // statements, calls, loop turns, and one for each 16 bytes or items copied or examined
	Output  int         // bytes written, and bytes or items made by repetition
	Expired func() bool // called every 4096 steps to ask whether to stop; nil never stops
}

// DefaultBudget is enough for chats of megabytes. It bounds no time, since some steps take longer than others: set
// Expired for that.
func DefaultBudget() Budget { return Budget{Steps: 10_000_000, Output: 64 << 20} }

// ErrBudget ends a rendering that exceeds its Budget.
var ErrBudget = errors.New("the template does more than one rendering may")

// rendering is one rendering of a template, by one goroutine.
type rendering struct {
	most  Budget
	steps int
	depth int
	bytes int // written, here and in captured output
	out   *strings.Builder
}

// spend counts the steps for n bytes or items.
func (r *rendering) spend(n int) {
	if r == nil {
		return // outside a rendering, where values are small
	}
	before := r.steps
	r.steps -= 1 + n/16
	if r.steps < 0 || before>>12 != r.steps>>12 && r.most.Expired != nil && r.most.Expired() {
		panic(fault{ErrBudget})
	}
}

// itemBytes is what an item of a list takes.
const itemBytes = 16

// spendItems is spend of a new list of n items, which takes no more than the output may: a step pays for 16 of them.
func (r *rendering) spendItems(n int) {
	if r != nil && n > r.most.Output/itemBytes {
		panic(fault{ErrBudget})
	}
	r.spend(n)
}

// spendTimes is spend of size things n times.
func (r *rendering) spendTimes(size, n int) {
	if size > 0 && n > r.most.Output/size {
		panic(fault{ErrBudget})
	}
	r.spend(size * max(n, 0))
}

// enter begins a construct that can be nested, leave ends it.
func (r *rendering) enter() {
	if r.depth++; r.depth > 4*mostDepth {
		panic(fault{ErrBudget})
	}
}

func (r *rendering) leave() { r.depth-- }

func (r *rendering) write(s string) {
	if r.bytes += len(s); r.bytes > r.most.Output {
		panic(fault{ErrBudget})
	}
	r.spend(len(s))
	r.out.WriteString(s)
}
