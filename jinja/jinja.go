package jinja

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// mostSource is the largest template in bytes.
const mostSource = 1 << 20

// Template is a parsed template. It is immutable, and safe for concurrent use.
type Template struct {
	body  []stmt
	known *library
}

// Parse parses a template. Errors have the line and what is unknown there.
func Parse(source string) (t *Template, err error) {
	defer recovered(&err)
	if len(source) > mostSource {
		return nil, fmt.Errorf("jinja: the template has more than %d KiB", mostSource>>10)
	}
	t = &Template{known: &library{filters: filterFuncs(), tests: testFuncs()}}
	p := &parser{toks: lex(source), known: t.known}
	t.body, _ = p.body()
	return t, nil
}

// Render renders a template with variables, whose values are nil, bool, int, *big.Int, float64, string, *List, Tuple
// and *Dict. strftime_now formats now.
func (t *Template) Render(vars map[string]any, now time.Time, most Budget) (text string, err error) {
	defer recovered(&err)
	r := &rendering{most: most, steps: most.Steps, out: &strings.Builder{}}
	globals := &frame{r: r, known: t.known, vars: builtins(now)}
	outer := globals.inner()
	maps.Copy(outer.vars, vars)
	run(outer, t.body)
	return r.out.String(), nil
}
