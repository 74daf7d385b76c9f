package send

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
)

// Via names this router to those behind it, in the header of that name (RFC 9110, section 7.6.3). A request that has it
// already has come back: an endpoint leads to the router again, under an address that the configuration does not show
// as its own, or through another router that has it as an endpoint. Such a request would go round until no file
// descriptor is left.
type Via struct {
	name string
	line []string // the header of a request that has passed no other proxy
}

// NewVia draws the router's name, which a client cannot guess.
func NewVia() *Via {
	name := "warmpath-" + strings.ToLower(rand.Text()[:12])
	return &Via{name: name, line: []string{"1.1 " + name}}
}

// Passed reports whether a request has passed this router before.
func (v *Via) Passed(h http.Header) bool {
	return slices.ContainsFunc(h["Via"], func(line string) bool { return strings.Contains(line, v.name) })
}

// After is the header of a request that this router sends on, after the proxies that it has passed.
func (v *Via) After(passed []string) []string {
	if len(passed) == 0 {
		return v.line
	}
	return append(slices.Clip(passed), v.line...)
}
