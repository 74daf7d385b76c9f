package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/fleetfile"
	"github.com/warmpath/warmpath/internal/results"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
)

// resultsOptions are the flags of simulate results.
type resultsOptions struct {
	traces   string // folder
	policies []string
	full     bool
	only     []string
	half     int
	seeds    int
	repeat   int
	maxDelay time.Duration
	engine   string
	jobs     int
	store    string
	tag      string
	trust    []string
	summary  bool
	disagg   bool
	out      string
}

func resultsCommand(e env) *cobra.Command {
	o := resultsOptions{half: 2, seeds: 3, repeat: 1, engine: "reference", jobs: runtime.GOMAXPROCS(0), out: filepath.Join("docs", "results.md")}
	c := &cobra.Command{
		Use:   "results --traces DIR",
		Short: "Measure policies on a grid of cells, and write a page",
		Long: `Replays three traces on fleets of 4, 8 and 32 endpoints, all alike or a quarter of them at a third of the speed, at loads of 0.4, 0.7 and 0.9,
with several seeds, under each policy, and writes a page with its plots: who is best where, and by how much.

Each run's figures are kept, so that an interrupted command goes on where it was. What another build of warmpath has measured is measured
again, unless --trust names its policy or both builds are given the same --tag. The default policy is told no conversation ids.`,
		Example: `  warmpath simulate results --traces traces
  warmpath simulate results --traces traces --summary \
    --only trace=coding_agent,endpoints=8,load=0.7

  # Tune the default policy
  warmpath simulate results --traces traces --half 1 --summary --trust others`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.disagg && !c.Flags().Changed("out") {
				o.out = filepath.Join("docs", "results-disagg.md")
			}
			return runResults(c.Context(), e, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.traces, "traces", "", "folder of "+strings.Join(results.Traces(), ".jsonl, ")+".jsonl")
	f.StringSliceVar(&o.policies, "policy", nil, "policies to measure (default "+strings.Join(results.Policies(), ", ")+")")
	f.BoolVar(&o.full, "full", false, "measure every policy")
	f.StringSliceVar(&o.only, "only", nil, "cells of the grid to measure, as trace=, endpoints=, load=, fleet=; of several of one kind any")
	f.IntVar(&o.half, "half", o.half, "1 or 2: play one half of the conversations, to tune on the other; 0 plays all")
	f.IntVar(&o.seeds, "seeds", o.seeds, "runs of each cell, with seeds from 1")
	f.IntVar(&o.repeat, "repeat", o.repeat, "how often each session of agents is played, as different conversations")
	f.DurationVar(&o.maxDelay, "max-delay", 0, "longest time between turns of a session; 0 as recorded")
	f.StringVar(&o.engine, "engine", o.engine, "kind of engine: "+strings.Join(fleetfile.Kinds(), ", "))
	f.IntVar(&o.jobs, "jobs", o.jobs, "runs at a time")
	f.Lookup("jobs").DefValue = "processors" // the same in help and manual on every machine
	f.StringVar(&o.store, "store", "", "folder that keeps the figures of each run (default warmpath/results in the user's cache folder)")
	f.StringVar(&o.tag, "tag", "", "name of this build; empty takes a hash of the program")
	f.StringSliceVar(&o.trust, "trust", nil, "policies whose figures are taken as kept, whatever build measured them; others for all but "+policy.Default+", all for every one")
	f.BoolVar(&o.summary, "summary", false, "print a compact table and write no page")
	f.BoolVar(&o.disagg, "disagg", false, "measure disaggregated serving instead: a page of its own, docs/results-disagg.md unless --out is given")
	f.StringVar(&o.out, "out", o.out, "page to write; its plots go to a folder of the same name without .md")
	completePolicies(c)
	return c
}

// check reports every fault of the flags.
func (o *resultsOptions) check() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(o.traces == "", "--traces is needed: the folder with the traces")
	fault(o.full && o.policies != nil, "give either --policy or --full")
	fault(o.disagg && (o.full || o.policies != nil || o.only != nil), "--disagg measures its own cells with "+policy.Default+": --policy, --full and --only have no meaning with it")
	for _, name := range slices.Concat(o.policies, o.trust) {
		if name != drive.OracleName && name != results.TrustAll && name != results.TrustOthers {
			errs = append(errs, policy.Config{Name: name}.Validate())
		}
		fault(name == "", "--policy or --trust has an empty name")
	}
	for i, name := range o.policies {
		fault(slices.Contains(o.policies[:i], name), "--policy names %s twice", name)
	}
	fault(slices.Contains(o.policies, results.TrustAll) || slices.Contains(o.policies, results.TrustOthers), "--policy wants names; --full takes every policy")
	_, err := results.Cells(o.only)
	errs = append(errs, err)
	fault(o.half < 0 || o.half > 2, "--half must be 0, 1 or 2, got %d", o.half)
	fault(o.seeds < 1 || o.seeds > 1000, "--seeds must be in 1..1000, got %d", o.seeds)
	fault(o.repeat < 1 || o.repeat > 1000, "--repeat must be in 1..1000, got %d", o.repeat)
	fault(o.maxDelay < 0, "--max-delay must not be negative")
	fault(o.jobs < 1, "--jobs must be at least 1, got %d", o.jobs)
	if _, err := fleetfile.Kind(o.engine); err != nil {
		errs = append(errs, fmt.Errorf("--engine: %w", err))
	}
	if !o.summary {
		errs = append(errs, writable("--out", o.out))
		fault(o.out == "" || filepath.Ext(o.out) != ".md", "--out: want a file that ends in .md, got %q", o.out)
	}
	return errors.Join(errs...)
}

// names are the policies to measure.
func (o *resultsOptions) names() []string {
	switch {
	case o.full:
		return append(policy.Names(), drive.OracleName)
	case o.policies != nil:
		return o.policies
	default:
		return results.Policies()
	}
}

func runResults(ctx context.Context, e env, o resultsOptions) error {
	if err := o.check(); err != nil {
		return usageError(err)
	}
	cells, err := results.Cells(o.only)
	if err != nil { // check has validated it
		return err
	}
	if o.store == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return usageError(fmt.Errorf("--store: %w", err))
		}
		o.store = filepath.Join(cache, "warmpath", "results")
	}
	if o.tag == "" {
		if o.tag, err = results.ProgramHash(); err != nil {
			return usageError(fmt.Errorf("--tag: %w", err))
		}
	}
	c := o.config()
	if o.disagg {
		return results.Disaggregation(ctx, e.stdout, e.terminal, c, o.summary)
	}
	g, err := results.Open(c, cells)
	if err != nil {
		return usageError(err)
	}
	if err := g.Run(ctx, e.stdout, e.terminal); err != nil {
		return err
	}
	if o.summary {
		g.WriteSummary(e.stdout)
		return nil
	}
	return g.WritePage()
}

// config is the measurement that the flags ask for. check has validated them.
func (o *resultsOptions) config() results.Config {
	engine, _ := fleetfile.Kind(o.engine)
	return results.Config{
		Folder: o.traces, Policies: o.names(), Half: o.half, Seeds: o.seeds, Repeat: o.repeat, MaxDelay: o.maxDelay, Kind: o.engine, Engine: engine,
		Jobs: o.jobs, Store: o.store, Tag: o.tag, Trust: o.trust, Out: o.out,
	}
}
