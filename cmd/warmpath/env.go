package main

import (
	"io"
	"strings"
)

// The exit codes.
const (
	exitOK      = 0
	exitRuntime = 1 // it ran and failed
	exitUsage   = 2 // it never ran: wrong flags, a configuration with faults, a port that is taken
)

// env is the world around a command.
type env struct {
	vars           []string // "NAME=value"
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool // stdout is one
	version        build
}

// lookup finds an environment variable; an empty one counts as not set. The last of several wins.
func (e env) lookup(name string) (string, bool) {
	value := ""
	for _, v := range e.vars {
		if n, text, _ := strings.Cut(v, "="); n == name {
			value = text
		}
	}
	return value, value != ""
}

// startError is a failure before anything ran. Every other error of a command is a failure at run time.
type startError struct{ err error }

// Error is that of the cause.
func (e *startError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *startError) Unwrap() error { return e.err }

// usageError marks err as the caller's to mend: nothing has run yet. nil stays nil.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &startError{err}
}
