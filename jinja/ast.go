package jinja

// expr is an expression.
type expr interface {
	eval(f *frame) any
}

// stmt is a statement; its result says whether to break out of a loop or continue it.
type stmt interface {
	exec(f *frame) flow
}

type flow uint8

const (
	onward flow = iota
	breakLoop
	continueLoop
)

type (
	constant  struct{ v any }
	name      struct{ name string }
	attribute struct {
		of   expr
		name string
	}
	item    struct{ of, key expr }
	slice   struct{ of, from, to, step expr } // nil where left out
	listOf  struct{ items []expr }
	tupleOf struct{ items []expr }
	dictOf  struct{ keys, values []expr }
	choice  struct{ test, yes, no expr } // no may be nil
	binary  struct {
		op          string
		left, right expr
	}
	logic struct {
		and         bool
		left, right expr
	}
	negation struct{ of expr } // not
	sign     struct {
		minus bool
		of    expr
	} // - and +
	compare struct {
		first expr
		ops   []string
		rest  []expr
	}
	concat struct{ parts []expr }
	call   struct {
		fn   expr
		args arguments
	}
	filter struct {
		name string
		of   expr
		args arguments
	}
	test struct {
		name string
		of   expr
		args arguments
	}
)

// arguments are the arguments of a call as written.
type arguments struct {
	positional []expr
	names      []string // of keywords
	keywords   []expr
	rest, more expr // *rest and **more; may be nil
}

type (
	output struct{ of expr }
	text   struct{ text string }
	ifStmt struct {
		tests  []expr
		bodies [][]stmt
		no     []stmt
	}
	forStmt struct {
		targets []string // several unpack each item
		apart   bool
		over    expr
		cond    expr // may be nil
		body    []stmt
		no      []stmt
	}
	setStmt struct {
		targets []target
		apart   bool
		value   expr
	}
	setBlock struct {
		target  target
		filters []*filter
		body    []stmt
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr // as params; nil where there is none
		body     []stmt
	}
	callStmt struct {
		call  *call
		block *macroStmt
	}
	filterStmt struct {
		filters []*filter
		body    []stmt
	}
	withStmt struct {
		names  []string
		values []expr
		body   []stmt
	}
	scopeStmt struct{ body []stmt } // generation
	leave     struct{ how flow }
)

// target is the target of an assignment: a variable, or a field of a namespace.
type target struct{ name, field string }
