package strictyaml

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// Fault is one thing wrong at one place. Line and Column count from 1; 0 is unknown.
type Fault struct {
	File         string
	Line, Column int
	Path         string // of the value, such as endpoints[2].url
	Err          error
}

// Error is "file:line:column: what is wrong".
func (f *Fault) Error() string {
	switch {
	case f.Line == 0:
		return f.File + ": " + f.Err.Error()
	case f.Column == 0:
		return fmt.Sprintf("%s:%d: %v", f.File, f.Line, f.Err)
	}
	return fmt.Sprintf("%s:%d:%d: %v", f.File, f.Line, f.Column, f.Err)
}

// Unwrap returns what is wrong.
func (f *Fault) Unwrap() error { return f.Err }

// Fault places err at the value with that path, or at the nearest one around it that the file has.
func (p *Places) Fault(path string, err error) error {
	f := &Fault{File: p.file, Path: path, Err: err}
	if at, ok := p.position(path); ok {
		f.Line, f.Column = at.Line, at.Column
	}
	return f
}

// Has says whether the file holds a value at path or around it, "" aside.
func (p *Places) Has(path string) bool {
	for ; path != ""; path = Parent(path) {
		if _, ok := p.at[path]; ok {
			return true
		}
	}
	return false
}

// Wrong says whether a further fault at path may only follow from one that decoding found: at path itself, or at a key
// beside it when the file has nothing at path.
func (p *Places) Wrong(path string) bool {
	_, there := p.at[path]
	return p.wrong[path] || path != "" && !there && p.wrong[Parent(path)]
}

func (p *Places) position(path string) (token.Position, bool) {
	for {
		if at, ok := p.at[path]; ok {
			return at, true
		}
		if path == "" {
			return token.Position{}, false
		}
		path = Parent(path)
	}
}

// Join adds a key to a path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Parent is the path of what holds the value; that of a top-level key is "".
func Parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}

// Flatten is the single faults of a joined error, however deeply joined; nil has none.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range list.Unwrap() {
			out = append(out, Flatten(e)...)
		}
		return out
	}
	return []error{err}
}

// Sorted is the faults of err in the order of their places, those without a line last.
func Sorted(err error) []error {
	faults := Flatten(err)
	sortStable(faults)
	return faults
}

func placeOf(err error) (line, column int) {
	var f *Fault
	if errors.As(err, &f) && f.Line > 0 {
		return f.Line, f.Column
	}
	return math.MaxInt, 0
}

func label(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}
