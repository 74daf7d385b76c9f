// Command arena plays the same conversations, overhead and faults through warmpath and through the routers that public
// registries have, in one run, and writes what it found as Markdown. `go run ./arena -h` says how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/warmpath/warmpath/bench/arena/rivals"
)

// options are the command line.
type options struct {
	only, parts, home, warmpath, root string
	jsonPath, from, page              string
	engines                           []string // real ones
	with                              []string // NAME=WORDS
	model                             string
	rounds                            int
	seed                              uint64
	short, offline, install           bool
	work                              workload
}

// The parts of a run.
const (
	conversations = "conversations"
	overhead      = "overhead"
	brokenEngines = "faults"
)

var allParts = []string{conversations, overhead, brokenEngines}

func (o *options) has(part string) bool { return slices.Contains(strings.Split(o.parts, ","), part) }

const usage = `Plays the same conversations, overhead and faults through warmpath and through other
routers, in one run, and prints what it found as Markdown. Routers from the Python
package index are installed into virtual environments of their own, with pinned
versions; nginx and HAProxy are used where the system has them. What is missing is
left out, with a line that says how to get it. Needs Linux, Go, and Python 3.11.

  go run ./arena                             # all of it, about 10 minutes
  go run ./arena -short                      # a minute, with what is installed
  go run ./arena -only warmpath,smg -parts conversations -rounds 5
  go run ./arena -page ../docs/arena.md      # write the figures into the page
  go run ./arena -engines http://127.0.0.1:8001,http://127.0.0.1:8002 -model tiny

Exit code: 1 if warmpath failed a turn or a request that it should not, 2 for a
mistake on the command line.

`

func main() {
	o, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "arena:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if failed {
		fmt.Fprintln(os.Stderr, "arena: warmpath failed where it should not: see the report")
		os.Exit(1)
	}
}

func parseFlags(args []string, out io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("arena", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(out, usage)
		fs.PrintDefaults()
	}
	engines := ""
	fs.StringVar(&o.only, "only",
		"", "routers, separated by commas; empty means all: "+strings.Join(names(rivals.All("")), ", "))
	fs.StringVar(&o.parts, "parts", strings.Join(allParts, ","), "what to do, separated by commas")
	fs.StringVar(&o.home, "home", defaultHome(), "where routers are installed")
	fs.StringVar(&o.warmpath, "warmpath", "", "path of the warmpath binary; built from -root when empty")
	fs.StringVar(&o.root, "root", "..", "root of warmpath's source")
	fs.StringVar(&o.jsonPath, "json", "", "also write everything to this file")
	fs.StringVar(&o.from, "from", "", "run nothing: report what an earlier run wrote with -json")
	fs.StringVar(&o.page, "page", "",
		"write the figures into this page, between its marks, instead of to standard output")
	fs.StringVar(&engines, "engines", "",
		"real engines to play conversations on, separated by commas, instead of simulated ones")
	fs.StringVar(&o.model, "model", "", "model of the real engines")
	fs.Func("with", "more words for a router's command line, as smg='--balance-abs-threshold 8'; may be given again",
		func(s string) error {
			o.with = append(o.with, s)
			return nil
		})
	fs.IntVar(&o.rounds, "rounds", 2, "rounds of conversations; medians are reported")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the conversations")
	fs.BoolVar(&o.short, "short", false, "a look of a minute, not a measurement: few conversations, one round, "+
		"the quick faults; installs nothing, and leaves LiteLLM out unless -only names it")
	fs.BoolVar(&o.offline, "offline", false, "install nothing")
	fs.BoolVar(&o.install, "install", false, "only install")
	w := fullWorkload()
	fs.IntVar(&w.Conversations, "conversations", w.Conversations, "conversations of one play")
	fs.Float64Var(&w.Rate, "rate", w.Rate, "conversations that begin a second")
	fs.Float64Var(&w.Turns, "turns", w.Turns, "mean number of turns after the first")
	fs.IntVar(&w.System, "system-tokens", w.System, "tokens of the system prompt that all share")
	fs.Float64Var(&w.User, "user-tokens", w.User, "typical tokens of a user's turn")
	fs.Float64Var(&w.Answer, "answer-tokens", w.Answer, "typical tokens of an answer")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	o.work = w
	if o.short {
		o.rounds, o.offline = 1, true
		o.work.Conversations, o.work.Turns = min(w.Conversations, 10), min(w.Turns, 2)
	}
	if engines != "" {
		o.engines = strings.Split(engines, ",")
		o.parts = conversations
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.rounds < 1 || o.rounds > 100:
		return nil, fmt.Errorf("-rounds %d is not between 1 and 100", o.rounds)
	case len(o.engines) == 1:
		return nil, errors.New("-engines needs two at least: with one there is nothing to choose")
	case len(o.engines) > 0 && o.model == "":
		return nil, errors.New("-engines needs -model")
	}
	for _, e := range o.engines {
		if !strings.HasPrefix(e, "http://") || strings.Count(e, ":") != 2 {
			return nil, fmt.Errorf("-engines: %q is not like http://host:port", e)
		}
	}
	for part := range strings.SplitSeq(o.parts, ",") {
		if !slices.Contains(allParts, part) {
			return nil, fmt.Errorf("-parts: %q is none of %s", part, strings.Join(allParts, ", "))
		}
	}
	_, err := o.picked("")
	return o, err
}

// picked are the routers that take part, with what the command line adds to them.
func (o *options) picked(warmpath string) ([]rivals.Rival, error) {
	all, err := rivals.Pick(rivals.All(warmpath), o.only)
	for _, words := range o.with {
		if err == nil {
			err = rivals.With(all, words)
		}
	}
	return all, err
}

func names(all []rivals.Rival) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.Name)
	}
	return out
}

// defaultHome is $WARMPATH_ARENA, or a folder in the user's cache.
func defaultHome() string {
	if dir := os.Getenv("WARMPATH_ARENA"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "warmpath-arena")
}
