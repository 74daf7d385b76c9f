package guard

import (
	"errors"
	"fmt"
	"strings"
)

// Paths is a set of paths, each for one method or for any.
type Paths struct {
	exact    map[string]bool // by method, space and path; the method is empty for any
	prefixes []string        // the same
}

// ErrPath says that a text names no paths.
var ErrPath = errors.New(`is not "/path", "/prefix*" or "*", with or without a method before it`)

// ParsePaths reads patterns: a path, or a prefix of paths with * behind it, after a method and a space where only that
// one is meant.
func ParsePaths(patterns []string) (*Paths, error) {
	p := &Paths{exact: map[string]bool{}}
	for _, text := range patterns {
		method, path, ok := strings.Cut(text, " ")
		if !ok {
			method, path = "", text
		}
		prefix, wild := strings.CutSuffix(path, "*")
		if !strings.HasPrefix(path, "/") && path != "*" || strings.ContainsAny(prefix, " *?#") ||
			ok && (method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
			return nil, fmt.Errorf("%q %w", text, ErrPath)
		}
		if wild {
			p.prefixes = append(p.prefixes, method+" "+prefix)
		} else {
			p.exact[method+" "+path] = true
		}
	}
	return p, nil
}

// Has reports whether a pattern names the path for the method. A nil *Paths has none.
func (p *Paths) Has(method, path string) bool {
	if p == nil {
		return false
	}
	for _, of := range [...]string{method + " " + path, " " + path} {
		if p.exact[of] {
			return true
		}
		for _, prefix := range p.prefixes {
			if strings.HasPrefix(of, prefix) {
				return true
			}
		}
	}
	return false
}
