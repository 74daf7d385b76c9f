package jinja

import (
	"errors"
	"math/big"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	const perStep = 1024 // bytes allocated, of which most are garbage at once
	small := Budget{Steps: 100_000, Output: 10_000}
	rows := []struct{ name, source string }{
		{
			"turns of a loop that do nothing",
			`{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}`,
		},
		{
			"turns of a loop that are left out",
			`{% for a in range(1000) %}{% for b in range(1000) if b < 0 %}{% endfor %}{% endfor %}`,
		},
		{"loops in loops", `{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% endfor %}`},
		{"a macro that calls itself", `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`},
		{"macros that call each other", `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% if true %}{{ a() }}{% endif %}{% endmacro %}{{ a() }}`},
		{"much output", `{% for i in range(100) %}{{ 'x' * 1000 }}{% endfor %}`},
		{"captured output", `{% for i in range(100) %}{% set x %}{{ 'x' * 1000 }}{% endset %}{% endfor %}`},
		{"a text times a number", `{% set x = 'x' * 1000000000000 %}`},
		{"a list times a number", `{% set x = [1] * 1000000000000 %}`},
		{"a list times a number that its items alone allow", `{% set x = [1] * 5000 %}`},
		{"batches that are filled up", `{% set x = [1] | batch(1000000000, 0) | list %}`},
		{"many batches that are filled up", `{% set x = range(1000) | batch(600, 0) | list %}{% for i in range(1000) %}{% set y = [1] | batch(600, 0) | list %}{% endfor %}`},
		{
			"doubling a text",
			`{% set n = namespace(x='x') %}{% for i in range(1000) %}{% set n.x = n.x + n.x %}{% endfor %}`,
		},
		{
			"doubling by ~",
			`{% set n = namespace(x='x') %}{% for i in range(1000) %}{% set n.x = n.x ~ n.x %}{% endfor %}`,
		},
		{
			"doubling a list",
			`{% set n = namespace(x=[1]) %}{% for i in range(1000) %}{% set n.x = n.x + n.x %}{% endfor %}`,
		},
		{"replacing nothing", `{% set n = namespace(x='xx') %}{% for i in range(1000) %}{% set n.x = n.x | replace('x', 'xxxx') %}{% endfor %}`},
		{"joining", `{% set n = namespace(x='xx') %}{% for i in range(1000) %}{% set n.x = [n.x, n.x, n.x] | join('y') %}{% endfor %}`},
		{
			"writing JSON",
			`{% set n = namespace(x='"') %}{% for i in range(1000) %}{% set n.x = n.x | tojson %}{% endfor %}`,
		},
		{
			"nesting lists",
			`{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}`,
		},
		{"comparing nested lists", `{% set n = namespace(x=[], y=[]) %}{% for i in range(150) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}`},
		{
			"a list of lists",
			`{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}`,
		},
		{
			"long chains of filters",
			"{% for i in range(100000) %}{{ 'x'" + strings.Repeat("|e|upper|trim", 100) + " }}{% endfor %}",
		},
		{"dictionaries", `{% for i in range(100000) %}{% set d = {'a': i, 'b': [i], 'c': {'d': i}} %}{% for k, v in d | items %}{% endfor %}{% endfor %}`},
		{
			"splitting",
			`{% for i in range(100000) %}{% set d = ('a b' * 100).split(' ') | map('upper') | list %}{% endfor %}`,
		},
		{
			"sorting",
			`{% for i in range(100000) %}{% set d = range(1000) | sort(reverse=true) | unique | list %}{% endfor %}`,
		},
		{"slicing", `{% set l = range(1000) | list %}{% for i in range(100000) %}{% set d = l[::-1] %}{% endfor %}`},
		{"texts by their characters", `{% set l = 'abcd' * 2000 %}{% for i in range(100000) %}{% for c in l %}{% endfor %}{% set d = l[::-1] %}{% endfor %}`},
		{
			"formatting",
			`{% for i in range(100000) %}{% set d = '%s%s%s' % (i, i, i) ~ '{} {}'.format(i, i) %}{% endfor %}`,
		},
		{"padding", `{{ 'x'.ljust(1000000000000) }}`},
		{"indenting", `{{ ('x\n' * 5000) | indent(100000) }}`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			tpl, err := Parse(r.source)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if text, err := tpl.Render(nil, time.Now(), small); err == nil ||
				!errors.Is(err, ErrBudget) && !strings.Contains(err.Error(), "too deep") {
				t.Errorf("got %d bytes and %v, want ErrBudget", len(text), err)
			}
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / uint64(small.Steps); got > perStep {
				t.Errorf("%d bytes allocated for each step of the budget, at most %d wanted", got, perStep)
			}
		})
	}
}

func TestTimeIsBounded(t *testing.T) {
	tpl, err := Parse(`{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	expired := func() bool { asked++; return asked == 3 }
	if _, err := tpl.Render(nil, time.Now(), Budget{Steps: 1 << 60, Output: 10, Expired: expired}); !errors.Is(err,
		ErrBudget) || asked != 3 {
		t.Errorf("got %v after %d questions, want ErrBudget after 3", err, asked)
	}
}

func TestParseRefuses(t *testing.T) {
	rows := []struct{ source, want string }{
		{"{{ a", "line 1: a tag does not end"},
		{"\n\n{% if %}", "line 3: expected an expression"},
		{"{% if a %}", "not closed by endif"},
		{"{% endif %}", `the statement "endif" is not supported`},
		{"{# a", "a comment does not end"},
		{"{% raw %}a", "a raw block does not end"},
		{"{{ 'a }}", "does not end"},
		{"{{ a | nofilter }}", `the filter "nofilter" is not supported`},
		{"{{ a is notest }}", `the test "notest" is not supported`},
		{"{{ a ] }}", "unexpected"},
		{"{{ (a] }}", "unexpected"},
		{"{{ a ! b }}", "unexpected"},
		{"{% for a in b recursive %}{% endfor %}", "recursive loops are not supported"},
		{"{% include 'a' %}", "not supported"},
		{"{% import 'a' as b %}", "not supported"},
		{"{% extends 'a' %}", "not supported"},
		{"{% continue %}", "outside of a loop"},
		{"{% for a in b %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "outside of a loop"},
		{"{{ " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + " }}", "too deep"},
		{"{{ " + strings.Repeat("-", 5000) + "1 }}", "too deep"},
		{"{{ " + strings.Repeat("not ", 5000) + "1 }}", "too deep"},
		{strings.Repeat("{% if a %}", 5000), "too deep"},
		{strings.Repeat("x", mostSource+1), "more than 1024 KiB"},
		{"{% macro m(a=1, b) %}{% endmacro %}", "without a default"},
		{`{{ "\N{DASH}" }}`, "by name"},
		{`{{ "\ud800" }}`, "no character"},
	}
	for _, r := range rows {
		if _, err := Parse(r.source); err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%.40q: got %v, want %q", r.source, err, r.want)
		}
	}
}

// TestParsingIsLinear holds the memory that is allocated while a template is read to its length: what is copied again
// and again shows there.
func TestParsingIsLinear(t *testing.T) {
	rows := []struct{ name, begin, again, end string }{
		{"texts side by side", "{{ ", "'a'", " }}"},
		{"a text that is long", "{{ '", "a", "' }}"},
		{"escapes", "{{ '", `\n`, "' }}"},
		{"a sum", "{{ 1", "+1", " }}"},
		{"texts joined", "{{ 1", "~1", " }}"},
		{"attributes", "{{ a", ".a", " }}"},
		{"filters", "{{ a", "|e", " }}"},
		{"calls", "{{ a", "()", " }}"},
		{"a list", "{{ [1", ",1", "] }}"},
		{"comparisons", "{{ 1", "<1", " }}"},
		{"tags", "", "{{a}}", ""},
		{"statements", "", "{% set a=1 %}", ""},
		{"branches", "{% if a %}", "{% elif a %}", "{% endif %}"},
		{"comments", "", "{##}", ""},
		{"raw blocks that do not end", "{% raw %}", "{% ", "{% endraw %}"},
		{"braces", "", "{ ", ""},
		{"line breaks", "", "\r\n", ""},
	}
	const perByte = 1024 // allocated while reading, of which less than half stays
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			source := r.begin + strings.Repeat(r.again, (mostSource/8)/len(r.again)) + r.end
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := Parse(source); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / uint64(len(source)); got > perByte {
				t.Errorf("%d bytes allocated for each byte of the template, at most %d wanted", got, perByte)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	tpl, err := Parse(`{{ raise_exception('roles must ' ~ 'alternate') }}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tpl.Render(nil, time.Now(), DefaultBudget())
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Text != "roles must alternate" {
		t.Errorf("got %v", err)
	}
}

func TestTimeNow(t *testing.T) {
	tpl, err := Parse(`{{ strftime_now('%d %b %Y, %-d.%-m. %A %H:%M:%S %p %j 100%%') }}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tpl.Render(nil, time.Date(2025, 3, 7, 14, 5, 9, 0, time.UTC), DefaultBudget())
	if want := "07 Mar 2025, 7.3. Friday 14:05:09 PM 066 100%"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if tpl, err = Parse(`{{ strftime_now('%Q') }}`); err != nil {
		t.Fatal(err)
	}
	if _, err := tpl.Render(nil, time.Now(), DefaultBudget()); err == nil {
		t.Error("an unknown directive is no error")
	}
}

func TestDecode(t *testing.T) {
	v, err := Decode([]byte(`{"b": 1, "a": [1.0, 1e2, 12345678901234567890, "x", null, true], "b": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (*rendering)(nil).repr(v, 0),
		"{'b': 2, 'a': [1.0, 100.0, 12345678901234567890, 'x', None, True]}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a, _ := v.(*Dict).Get("a")
	if n, ok := a.(*List).Items[2].(*big.Int); !ok || n.String() != "12345678901234567890" {
		t.Errorf("got %v", a)
	}
	for _, bad := range []string{
		``, `{`, `[1,]`, `1 2`, `{"a"}`, strings.Repeat("9", 5000), strings.Repeat("[", 20000),
	} {
		if v, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%.20s: got %v", bad, v)
		}
	}
}

// TestTemplateIsForAll renders one template from several goroutines, on values that they share.
func TestTemplateIsForAll(t *testing.T) {
	g := readGolden(t)
	vars := variables(t, g.Vars)
	var all sync.WaitGroup
	for _, c := range g.Cases {
		tpl, err := Parse(c.Template)
		if err != nil || c.Text == nil {
			continue
		}
		for range 2 {
			all.Go(func() {
				if got, err := tpl.Render(vars, time.Now(), DefaultBudget()); err == nil && got != *c.Text {
					t.Errorf("%s: got %q", c.Template, got)
				}
			})
		}
	}
	all.Wait()
}

func FuzzRender(f *testing.F) {
	g := readGolden(f)
	for _, c := range g.Cases {
		f.Add(c.Template)
	}
	vars := variables(f, g.Vars)
	before := (*rendering)(nil).repr(vars["nested"], 0) + (*rendering)(nil).repr(vars["d"], 0) +
		(*rendering)(nil).repr(vars["list"], 0)
	f.Fuzz(func(t *testing.T, source string) {
		tpl, err := Parse(source)
		if err != nil {
			return
		}
		most := Budget{Steps: 100_000, Output: 100_000}
		text, err := tpl.Render(vars, time.Unix(0, 0), most)
		if len(text) > most.Output {
			t.Fatalf("%d bytes", len(text))
		}
		again, err2 := tpl.Render(vars, time.Unix(0, 0), most)
		if text != again || (err == nil) != (err2 == nil) {
			t.Fatalf("%q, %v and then %q, %v", text, err, again, err2)
		}
		if after := (*rendering)(nil).repr(vars["nested"], 0) + (*rendering)(nil).repr(vars["d"], 0) +
			(*rendering)(nil).repr(vars["list"], 0); after != before {
			t.Fatalf("the template changed its variables: %s", after)
		}
	})
}
