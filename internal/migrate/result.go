package migrate

import (
	"strconv"
	"strings"
	"unicode"
)

// Missing is a setting that has no equivalent, or only nearly.
type Missing struct {
	Place   string // "disagg.yaml:12", or "" for a command line without lines
	Setting string // as it was written: a path of keys, or a flag with its value
	Why     string // why not, and what to do instead
}

// String is one line for people.
func (m Missing) String() string {
	setting := m.Setting
	if strings.ContainsFunc(setting, func(r rune) bool { return !unicode.IsPrint(r) }) {
		setting = strconv.Quote(setting) // of a file that is something else: nothing for a terminal
	}
	if m.Place == "" {
		return setting + ": " + m.Why
	}
	return m.Place + ": " + setting + ": " + m.Why
}

// Result is a configuration and what is missing in it, in the order of the source.
type Result struct {
	YAML    []byte
	Missing []Missing
}
