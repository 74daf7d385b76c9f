// Command warmpath is a router for self-hosted LLM engines. It owns flags, help, exit codes, the environment, and the
// wiring of the packages below, which get everything they need as parameters. Commands that show figures leave
// measuring and drawing to internal/. It never decides where a request goes, and no package imports it.
//
// main and root are the top, then comes a file for each command, then router with the parts of a running router; env is
// the bottom.
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
	"time"

	"github.com/warmpath/warmpath/internal/terminal"
)

// sameSignal is how long a signal counts as the first one sent again: timeout(1) sends it to its command, and then to
// the group that the command is in.
const sameSignal = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		time.Sleep(sameSignal)
		stop() // a second signal ends the process at once
	}()
	os.Exit(Main(ctx, os.Args[1:], os.Environ(), os.Stdin, terminal.Guard(os.Stdout), terminal.Guard(os.Stderr)))
}

// Main runs one command and returns the exit code. It is the whole program, so that tests can run it.
func Main(ctx context.Context, args, vars []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := env{
		vars: vars, stdin: stdin, stdout: stdout, stderr: stderr, version: thisBuild(), terminal: terminal.Is(stdout),
	}
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
