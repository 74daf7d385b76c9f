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

// Hint is "; did you mean "x"?" for a wrong name, or lists the names that contain it. It is empty when no name is
// within a third of the typed letters. Case and the choice between - and _ are ignored.
func Hint(typed string, names []string) string {
	typed = strings.ReplaceAll(strings.ToLower(typed), "-", "_")
	if len(typed) > longestTypo {
		return ""
	}
	best, fewest := "", max(1, len(typed)/3)+1
	var parts []string
	for _, name := range names {
		if len(typed) >= leastPart && strings.Contains(name, typed) {
			parts = append(parts, fmt.Sprintf("%q", name))
		}
		if d := edits(typed, name); d < fewest && d < len(typed) {
			best, fewest = name, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %q?", best)
	case len(parts) > 0 && len(parts) <= mostParts:
		return "; did you mean " + strings.Join(parts, " or ") + "?"
	}
	return ""
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
