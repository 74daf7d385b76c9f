package main

import (
	"io"
	"strings"
)

// The exit codes.
const (
	exitOK      = 0
	exitRuntime = 1 // it ran and failed
	exitUsage   = 2 // it did not run: wrong flags, an invalid configuration, a port in use
)

// env is the environment of a command.
type env struct {
	vars           []string // "NAME=value"
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool // stdout is a terminal
	version        build
}

// lookup finds an environment variable; an empty one counts as unset. Of duplicates the last counts.
func (e env) lookup(name string) (string, bool) {
	value := ""
	for _, v := range e.vars {
		if n, text, _ := strings.Cut(v, "="); n == name {
			value = text
		}
	}
	return value, value != ""
}

// startError is a failure before the command ran. Every other error of a command is a failure at run time.
type startError struct{ err error }

// Error is the cause's message.
func (e *startError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *startError) Unwrap() error { return e.err }

// usageError marks err as a mistake of the user before the command ran. nil stays nil.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &startError{err}
}
