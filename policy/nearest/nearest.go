// Package nearest finds what somebody meant who misspelt a name.
//
// It answers with the valid name that takes the fewest edits. Its work is bounded, whatever was typed.
package nearest

import "strings"

// longestTypo bounds what Name compares, since the work grows with the length of what was typed.
const longestTypo = 64

// Name is the name that takes the fewest edits (insert, delete, replace: Levenshtein's distance) to reach from
// what was typed, case and the choice between - and _ aside. The first wins among equals.
func Name(typed string, names []string) string {
	typed = strings.ReplaceAll(strings.ToLower(typed), "-", "_")
	if len(typed) > longestTypo {
		typed = typed[:longestTypo]
	}
	best, fewest := "", -1
	for _, name := range names {
		if d := edits(typed, name); fewest < 0 || d < fewest {
			best, fewest = name, d
		}
	}
	return best
}

// edits is Levenshtein's distance between two strings in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // distance from the part of a read so far to each beginning of b
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
