// Command warmpath is a router for self-hosted LLM engines. Flags, files and the environment are read here and nowhere
// else; everything below is handed what it needs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/warmpath/warmpath/internal/terminal"
)

// The exit codes.
const (
	exitOK      = 0
	exitRuntime = 1 // it ran and failed
	exitUsage   = 2 // it never ran: wrong flags, a configuration with faults, a port that is taken
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	os.Exit(Main(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

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

// Main runs one command and returns the exit code. It is the whole program, so that tests can run it.
func Main(ctx context.Context, args, vars []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := env{vars: vars, stdin: stdin, stdout: stdout, stderr: stderr, version: thisBuild(), terminal: terminal.Is(stdout)}
	root := newRoot(e)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(root.ExecuteContext(ctx), stderr)
}

// report prints an error as "warmpath: ...", one line for each fault, and turns it into the exit code.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, "warmpath: "+strings.TrimRight(line, "\n"))
	}
	if usage := (*startError)(nil); errors.As(err, &usage) {
		return exitUsage
	}
	return exitRuntime
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
