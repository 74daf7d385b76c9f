// Command results measures policies on a grid of cells, and writes the pages docs/results.md and docs/results-disagg.md
// about it with their plots. `go run ./results -h` says how. It owns flags and exit codes; what is measured, and what a
// page says of it, is grid's.
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
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/warmpath/warmpath/bench/results/grid"
	"github.com/warmpath/warmpath/internal/fleetfile"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
)

// options are the command line: what is measured, which cells of the grid, and what is written.
type options struct {
	grid.Config
	full    bool
	only    []string
	summary bool
	disagg  bool
}

const usage = `Replays three traces on fleets of 4, 8 and 32 endpoints, all alike or a quarter of them
at a third of the speed, at loads of 0.4, 0.7 and 0.9, with several seeds, under each
policy, all with the router's queue and all without, and writes a page with its plots:
who is best where, and by how much.

Each run's figures are kept, so that an interrupted command goes on where it was. What
another build of this program has measured is measured again, unless -trust names its
policy or both builds are given the same -tag. The default policy is told no
conversation ids.

  go run ./results -traces DIR
  go run ./results -traces DIR -summary -only trace=coding_agent,endpoints=8,load=0.7
  go run ./results -traces DIR -half 1 -summary -trust others   # tune the default policy
  go run ./results -traces DIR -disagg

Exit code: 1 if a run failed or was interrupted, 2 for a mistake on the command line.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, out, log io.Writer) int {
	o, err := parseFlags(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err == nil:
		err = o.check()
	}
	code := 2
	if err == nil {
		code, err = o.measure(ctx, out)
	}
	if err == nil {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(log, "results: "+strings.TrimRight(line, "\n"))
	}
	return code
}

func parseFlags(args []string, out io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("results", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(out, usage)
		fs.PrintDefaults()
	}
	list := func(to *[]string, name, meaning string) {
		fs.Func(name, meaning+"; several with commas between", func(s string) error {
			*to = append(*to, strings.Split(s, ",")...)
			return nil
		})
	}
	fs.StringVar(&o.Folder, "traces", "", "`folder` of "+strings.Join(grid.Traces(), ".jsonl, ")+".jsonl")
	list(&o.Policies, "policy", "policies to measure (default "+strings.Join(grid.Policies(), ", ")+")")
	fs.BoolVar(&o.full, "full", false, "measure every policy")
	list(&o.only, "only",
		"cells of the grid to measure, as trace=, endpoints=, load=, fleet=; of several of one kind any")
	fs.IntVar(&o.Half, "half", 2, "1 or 2: play one half of the conversations, to tune on the other; 0 plays all")
	fs.IntVar(&o.Seeds, "seeds", 3, "runs of each cell, with seeds from 1")
	fs.IntVar(&o.Repeat, "repeat", 1, "how often each session of agents is played, as different conversations")
	fs.DurationVar(&o.MaxDelay, "max-delay", 0, "longest time between turns of a session; 0 as recorded")
	fs.StringVar(&o.Kind, "engine", "reference", "kind of engine: "+strings.Join(fleetfile.Kinds(), ", "))
	fs.IntVar(&o.Jobs, "jobs", runtime.GOMAXPROCS(0), "runs at a time")
	fs.StringVar(&o.Store, "store", "", "`folder` that keeps the figures of each run "+
		"(default warmpath/results in the user's cache folder)")
	fs.StringVar(&o.Tag, "tag", "", "name of this build; empty takes a hash of the program")
	list(&o.Trust, "trust", "policies whose figures are taken as kept, whatever build measured them; "+
		"others for all but "+policy.Default+", all for every one")
	fs.BoolVar(&o.summary, "summary", false, "print a compact table and write no page")
	fs.BoolVar(&o.disagg, "disagg", false, "measure disaggregated serving instead: a page of its own")
	fs.StringVar(&o.Out, "out", "", "`page` to write; its plots go to a folder of the same name without .md "+
		"(default ../docs/results.md, with -disagg ../docs/results-disagg.md)")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.Out == "" {
		o.Out = filepath.Join("..", "docs", "results.md")
		if o.disagg {
			o.Out = filepath.Join("..", "docs", "results-disagg.md")
		}
	}
	return o, nil
}

// check reports every fault of the flags.
func (o *options) check() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(o.Folder == "", "-traces is needed: the folder with the traces")
	fault(o.full && o.Policies != nil, "give either -policy or -full")
	fault(o.disagg && (o.full || o.Policies != nil || o.only != nil),
		"-disagg measures its own cells with %s: -policy, -full and -only have no meaning with it", policy.Default)
	for _, name := range slices.Concat(o.Policies, o.Trust) {
		if name != drive.OracleName && name != grid.TrustAll && name != grid.TrustOthers {
			errs = append(errs, policy.Config{Name: name}.Validate())
		}
		fault(name == "", "-policy or -trust has an empty name")
	}
	for i, name := range o.Policies {
		fault(slices.Contains(o.Policies[:i], name), "-policy names %s twice", name)
	}
	fault(slices.Contains(o.Policies, grid.TrustAll) || slices.Contains(o.Policies, grid.TrustOthers),
		"-policy wants names; -full takes every policy")
	_, err := grid.Cells(o.only)
	errs = append(errs, err)
	fault(o.Half < 0 || o.Half > 2, "-half must be 0, 1 or 2, got %d", o.Half)
	fault(o.Seeds < 1 || o.Seeds > 1000, "-seeds must be in 1..1000, got %d", o.Seeds)
	fault(o.Repeat < 1 || o.Repeat > 1000, "-repeat must be in 1..1000, got %d", o.Repeat)
	fault(o.MaxDelay < 0, "-max-delay must not be negative")
	fault(o.Jobs < 1, "-jobs must be at least 1, got %d", o.Jobs)
	if _, err := fleetfile.Kind(o.Kind); err != nil {
		errs = append(errs, fmt.Errorf("-engine: %w", err))
	}
	if !o.summary {
		if filepath.Ext(o.Out) != ".md" {
			fault(true, "-out: want a file that ends in .md, got %q", o.Out)
		} else if err := wholefile.Check(o.Out); err != nil {
			fault(true, "-out: %w", err)
		}
	}
	return errors.Join(errs...)
}

// complete fills in what the flags leave open. check has validated them.
func (o *options) complete() error {
	var err error
	if o.Engine, err = fleetfile.Kind(o.Kind); err != nil {
		return err
	}
	switch {
	case o.full:
		o.Policies = grid.Everyone()
	case o.Policies == nil:
		o.Policies = grid.Policies()
	}
	if o.Store == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("-store: %w", err)
		}
		o.Store = filepath.Join(cache, "warmpath", "results")
	}
	if o.Tag == "" {
		if o.Tag, err = grid.ProgramHash(); err != nil {
			return fmt.Errorf("-tag: %w", err)
		}
	}
	return nil
}

// measure does what the flags ask for. With an error comes the exit code: 2 if nothing ran.
func (o *options) measure(ctx context.Context, out io.Writer) (int, error) {
	if err := o.complete(); err != nil {
		return 2, err
	}
	live := terminal.Is(out)
	if o.disagg {
		return 1, grid.Disaggregation(ctx, out, live, o.Config, o.summary)
	}
	cells, err := grid.Cells(o.only)
	if err != nil {
		return 2, err
	}
	g, err := grid.Open(o.Config, cells)
	if err != nil {
		return 2, err
	}
	if err := g.Run(ctx, out, live); err != nil {
		return 1, err
	}
	if o.summary {
		g.WriteSummary(out)
		return 0, nil
	}
	return 1, g.WritePage()
}
