package jinja

import (
	"errors"
	"strings"
)

// Budget is the most that one rendering may do.
type Budget struct {
	Steps   int         // statements, calls, turns of loops, and one for each 16 bytes or items that are copied or looked at
	Output  int         // bytes written, and bytes of a text or items of a list that is made by repetition
	Expired func() bool // asked every 4096 steps whether to stop; nil: never
}

// DefaultBudget is enough for chats of megabytes. It has no clock: set Expired for a bound on time too, since some steps take longer than others.
func DefaultBudget() Budget { return Budget{Steps: 10_000_000, Output: 64 << 20} }

// ErrBudget is the end of a rendering that would have done more than its Budget allows.
var ErrBudget = errors.New("the template does more than one rendering may")

// rendering is one rendering of a template. One goroutine uses it.
type rendering struct {
	most  Budget
	steps int
	depth int
	bytes int // written, here and in what is captured
	out   *strings.Builder
}

// spend takes n bytes' or items' worth of steps.
func (r *rendering) spend(n int) {
	if r == nil {
		return // outside of a rendering, where values are small
	}
	before := r.steps
	r.steps -= 1 + n/16
	if r.steps < 0 || before>>12 != r.steps>>12 && r.most.Expired != nil && r.most.Expired() {
		panic(fault{ErrBudget})
	}
}

// spendTimes is spend of size things n times.
func (r *rendering) spendTimes(size, n int) {
	if size > 0 && n > r.most.Output/size {
		panic(fault{ErrBudget})
	}
	r.spend(size * max(n, 0))
}

// enter begins something that may hold itself, leave ends it.
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
