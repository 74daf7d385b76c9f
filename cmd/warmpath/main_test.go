package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/terminal"
)

// TestMain lets more tests run side by side than there are processors: most of them wait for engines that work in real
// time. -parallel on the command line still wins, since flags are parsed later.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(tests{m}, map[string]func(){"warmpath": main})
}

// tests removes the program that built has made.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	_ = os.RemoveAll(program.folder)
	return code
}

var program struct {
	once   sync.Once
	folder string
	err    error
}

// built is the program, made once for all tests. It is built as the tests are, with or without cgo, so that its
// packages are not compiled a second time.
func built(t *testing.T) string {
	t.Helper()
	program.once.Do(func() {
		if program.folder, program.err = os.MkdirTemp("", "warmpath-test"); program.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", program.folder, ".").CombinedOutput(); err != nil {
			program.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return filepath.Join(program.folder, "warmpath")
}

// TestScripts plays the command line from outside. $TAKEN is an address that somebody else listens on.
func TestScripts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("TAKEN", taken.Addr().String())
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs warmpath and compares its exit code: exits CODE ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	code := "0"
	if err := ts.Exec("warmpath", args[1:]...); err != nil {
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = fmt.Sprint(exit.ExitCode())
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// TestServeStartsAndEnds runs the real thing on a free port, asks it, and stops it.
func TestServeStartsAndEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	var log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--admin", "off", "--log-level", "error"}, nil,
			strings.NewReader(""), in, &log)
		_ = in.Close()
	}()
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	url := first[strings.LastIndex(first, " ")+1 : len(first)-1]
	client := &http.Client{Timeout: aWhile}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		res, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
	client.CloseIdleConnections()
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, log.String())
	}
}

// TestHangupReloads: SIGHUP has the configuration read again, and ends nothing.
func TestHangupReloads(t *testing.T) {
	seen := make(chan os.Signal, 1)
	signal.Notify(seen, syscall.SIGHUP) // so that it does not end the test
	defer signal.Stop(seen)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	logged, log, err := os.Pipe() // it has room, so that nobody waits for who reads
	if err != nil {
		t.Fatal(err)
	}
	defer logged.Close()
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--admin", "off"}, nil,
			strings.NewReader(""), in, log)
		_ = in.Close()
		_ = log.Close()
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGHUP)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = logged.SetReadDeadline(time.Now().Add(aWhile))
	said := ""
	for lines := bufio.NewScanner(logged); !strings.Contains(said, "configuration reloaded") && lines.Scan(); {
		said += lines.Text() + "\n"
	}
	if !strings.Contains(said, "configuration reloaded") {
		t.Errorf("the log says %q; want a word about the configuration", said)
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
}

// TestEveryCommandHelps holds each command to a short description, examples that parse, help of 80 columns, no
// arguments by accident, and --json, where it prints figures.
func TestEveryCommandHelps(t *testing.T) {
	// they print no figures
	silent := []string{
		"warmpath", "warmpath serve", "warmpath extproc", "warmpath engine", "warmpath init", "warmpath man",
		"warmpath completion",
	}
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no description or no example", c.CommandPath())
		}
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			checkExample(t, line)
		}
		if slices.Contains(silent, c.CommandPath()) == (c.Flags().Lookup("json") != nil) {
			t.Errorf("%s: --json is there or not, other than expected", c.CommandPath())
		}
		var help strings.Builder
		c.SetOut(&help)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(help.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > terminal.Columns {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		if c.Name() == "completion" {
			return // its shells are cobra's, as help is
		}
		for _, below := range c.Commands() {
			all(below)
		}
	}
	all(newRoot(env{}))
}

// checkExample parses the flags of an example's line as the program would.
func checkExample(t *testing.T, line string) {
	line, _, _ = strings.Cut(strings.TrimSpace(line), " #") // a comment after the command
	line, _, _ = strings.Cut(line, " && ")
	line, _, _ = strings.Cut(line, " | ")
	_, args, ok := strings.Cut(" "+line, " warmpath ")
	if !ok || strings.HasPrefix(line, "#") {
		return
	}
	if strings.HasPrefix(args, "demo ") {
		args, _, _ = strings.Cut(args, "   ") // a word on it follows
	}
	root := newRoot(env{})
	var cmd *cobra.Command
	cmd, rest, err := root.Find(strings.Fields(args))
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || cmd == root || cmd.Args(cmd, cmd.Flags().Args()) != nil {
		t.Errorf("the example %q does not run: %v", line, err)
	}
}

func TestVersionJSON(t *testing.T) {
	var out, log bytes.Buffer
	if code := Main(t.Context(), []string{"version", "--json"}, nil, nil, &out, &log); code != exitOK {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	var b build
	if err := json.Unmarshal(out.Bytes(), &b); err != nil || b.Version == "" || !strings.HasPrefix(b.Go, "go1.") {
		t.Errorf("got %s, %v", out.String(), err)
	}
}
