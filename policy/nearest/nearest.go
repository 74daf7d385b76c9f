// Package nearest suggests a name for a misspelt one.
//
// It suggests only likely names: those that contain the typed text, or the one within few edits. Its work is bounded
// for any input.
package nearest

import (
	"fmt"
	"strings"
)

const (
	longestTypo = 64 // bytes compared, since the work grows with the length
	leastPart   = 2  // minimum length in bytes of a part that identifies a name
	mostParts   = 4  // most names listed that contain the typed text
)

// Hint is "; did you mean "x"?" for a wrong name, or lists the names that contain it. It is empty when Names has none.
func Hint(typed string, names []string) string { return Ask(Names(typed, names)) }

// Ask is "; did you mean "x" or "y"?", or empty without names.
func Ask(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(`; did you mean "%s"?`, strings.Join(names, `" or "`))
}

// Names are the name within a third of the typed letters, or else the few names that contain what was typed. Case and
// the choice between - and _ are ignored.
func Names(typed string, names []string) []string {
	typed = strings.ReplaceAll(strings.ToLower(typed), "-", "_")
	if len(typed) > longestTypo {
		return nil
	}
	best, fewest := "", max(1, len(typed)/3)+1
	var parts []string
	for _, name := range names {
		if len(typed) >= leastPart && strings.Contains(name, typed) {
			parts = append(parts, name)
		}
		if d := edits(typed, name); d < fewest && d < len(typed) {
			best, fewest = name, d
		}
	}
	switch {
	case best != "":
		return []string{best}
	case len(parts) <= mostParts:
		return parts
	}
	return nil
}

// OrValid is Hint with the list of valid names after it.
func OrValid(typed string, near, valid []string) string {
	hint := Hint(typed, near)
	if hint == "" {
		hint = ";"
	}
	return hint + " valid: " + strings.Join(valid, ", ")
}

// edits is the Levenshtein distance of two strings in bytes: insert, delete, replace.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // distance from the part of a read so far to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
