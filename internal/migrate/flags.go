package migrate

import (
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// flag is one flag of a command line.
type flag struct {
	name string // without dashes
	// takes is how many words may follow: 0 for a switch, 1, 2 of which the second may be left out, or many.
	takes int
	// do acts on the values; nil lists the flag with why.
	do  func(line int, values []string)
	why string
}

// many lets a flag take all words up to the next flag.
const many = 1 << 20

// one is a flag with one value.
func one(name string, do func(line int, value string)) flag {
	return flag{name: name, takes: 1, do: func(line int, values []string) { do(line, values[0]) }}
}

// none is a flag without an equivalent.
func none(why string, names ...string) []flag {
	var out []flag
	for _, n := range names {
		out = append(out, flag{name: n, takes: many, why: why})
	}
	return out
}

// nothing is a flag that needs no equivalent, with values or without.
func nothing(names ...string) []flag {
	var out []flag
	for _, n := range names {
		out = append(out, flag{name: n, takes: many, do: func(int, []string) {}})
	}
	return out
}

// read goes through a command line. What stands in front of the first flag is the program.
func (d *draft) read(words []word, known []flag) {
	known = append(known, flag{name: "version", do: func(int, []string) {}},
		flag{name: "help", do: func(int, []string) {}})
	from := slices.IndexFunc(words, func(w word) bool { return strings.HasPrefix(w.text, "--") })
	for i := max(from, 0); i < len(words); {
		i = d.readFlag(words, i, known)
	}
}

// readFlag takes in the flag at i and returns where the next one is.
func (d *draft) readFlag(words []word, i int, known []flag) int {
	w := words[i]
	name, value, joined := strings.Cut(strings.TrimPrefix(w.text, "--"), "=")
	name = strings.ReplaceAll(name, "_", "-")
	next := i + 1
	var values []string
	if joined {
		values = []string{value}
	}
	follow := func(most int) {
		for next < len(words) && len(values) < most && !isFlag(words[next].text) {
			values = append(values, words[next].text)
			next++
		}
	}
	at := slices.IndexFunc(known, func(f flag) bool { return f.name == name })
	if at < 0 {
		follow(many)
		d.miss(w.line, written(name, values), "not known here"+nearest(name, known))
		return next
	}
	f := known[at]
	if !joined || f.takes == many {
		follow(f.takes)
	}
	switch {
	case f.do == nil:
		d.miss(w.line, written(name, values), f.why)
	case f.takes > 0 && f.takes != many && len(values) == 0:
		d.miss(w.line, "--"+name, "it needs a value")
	default:
		f.do(w.line, values)
	}
	for f.takes < many && next < len(words) && !isFlag(words[next].text) {
		d.miss(words[next].line, words[next].text, "it belongs to no flag")
		next++
	}
	return next
}

// nearest asks whether a flag was meant that begins as an unknown one does.
func nearest(name string, known []flag) string {
	var names []string
	begin := name[:min(len(name), 3)]
	for _, f := range known {
		if strings.HasPrefix(f.name, begin) {
			names = append(names, f.name)
		}
	}
	return strictyaml.DidYouMean(name, names)
}

// isFlag tells a flag from a value; a negative number is a value.
func isFlag(text string) bool {
	return strings.HasPrefix(text, "--") && strings.Trim(text, "-") != ""
}

// written is a flag as it was given, its value cut where it is long, and hidden where it is a secret.
func written(name string, values []string) string {
	text := strings.Join(values, " ")
	for _, secret := range []string{"key", "token", "password", "secret", "dsn"} {
		if text != "" && strings.Contains(name, secret) && !strings.HasSuffix(name, "-header") {
			text = "(hidden)"
		}
	}
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return strings.TrimSpace("--" + name + " " + text)
}
