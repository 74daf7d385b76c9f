package terminal

import (
	"slices"
	"strings"
	"unicode"
)

// Domain is how several names all end: ".models.svc.cluster.local:8000". It is "" where they end in different ways, and
// for addresses, which are no names.
func Domain(names []string) string {
	if len(names) < 2 {
		return ""
	}
	for i := 1; i+1 < len(names[0]); i++ {
		rest := names[0][i:]
		other := func(name string) bool { return len(name) <= len(rest) || !strings.HasSuffix(name, rest) }
		if rest[0] == '.' && unicode.IsLetter(rune(rest[1])) && !slices.ContainsFunc(names, other) {
			return rest
		}
	}
	return ""
}

// Clip leaves out the middle of a name: names of pods differ at their ends.
func Clip(name string, room int) string {
	r := []rune(name)
	if len(r) <= room {
		return name
	}
	end := room / 2
	return string(r[:room-1-end]) + "…" + string(r[len(r)-end:])
}
