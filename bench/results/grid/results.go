// Package grid measures policies in virtual time on a grid of traces, fleets and loads, and writes the pages about it:
// docs/results.md, and docs/results-disagg.md about requests that are split. It owns the grids, the folder that keeps
// the figures of each run, the statistics over seeds, what is asked of the default policy, and the words of the pages.
// It promises that an interrupted measurement goes on where it was, and that the same figures give the same page. It
// never decides how a replay is run (internal/simrun).
package grid

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// Config says what is measured, and how.
type Config struct {
	Folder   string   // of the traces
	Policies []string // to measure
	Half     int      // 1 or 2: one half of the conversations; 0 all
	Seeds    int      // runs of each cell, with seeds from 1
	Repeat   int      // how often each session of agents is played, as different conversations
	MaxDelay time.Duration
	Kind     string // of engine, as the page names it
	Engine   engine.Config
	Jobs     int      // runs at a time
	Store    string   // folder that keeps the figures of each run
	Tag      string   // of this build
	Trust    []string // policies whose figures are taken as kept, whatever build measured them
	Out      string   // page to write
}

// Words that Trust takes besides names of policies.
const (
	TrustAll    = "all"
	TrustOthers = "others"
)

// Policies are those that a reader of the results needs: ours, the simple ones, one of each kind of rival, the
// reference.
func Policies() []string {
	return []string{
		policy.Default, "round_robin", "least_tokens", "session", "vllmrouter.sticky_least_loaded", "smg.cache_aware",
		"dynamo.kv", "llmd.default", "preble.e2", "lmetric", drive.OracleName,
	}
}

// Everyone is all policies, and the reference.
func Everyone() []string { return append(policy.Names(), drive.OracleName) }

// valid says whether kept figures are as good as new ones.
func (c *Config) valid(k *kept) bool {
	name := k.Conditions.Policy
	switch {
	case k.Build == c.Tag, slices.Contains(c.Trust, name), slices.Contains(c.Trust, TrustAll):
		return true
	default:
		return slices.Contains(c.Trust, TrustOthers) && name != policy.Default
	}
}

func (c *Config) repeats(t *simtrace.Trace) int {
	if t.Closed {
		return c.Repeat
	}
	return 1
}

// longest is the longest delay between turns that matters to a trace.
func (c *Config) longest(t *simtrace.Trace) time.Duration {
	if t.Closed {
		return c.MaxDelay
	}
	return 0
}

// played is a trace as all its cells play it.
type played struct {
	hash  string
	trace *simtrace.Trace
}

// library is the traces of the folder, each read once.
type library struct {
	*Config
	traces map[string]*played // by name
}

func newLibrary(c *Config) library { return library{Config: c, traces: map[string]*played{}} }

// get returns a trace of the folder.
func (l *library) get(name string) (*played, error) {
	if t := l.traces[name]; t != nil {
		return t, nil
	}
	path := filepath.Join(l.Folder, name+".jsonl")
	hash, err := fileHash(path)
	if err != nil {
		return nil, fmt.Errorf("-traces: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := simtrace.Read(path, f, simtrace.FormatAuto)
	if err != nil {
		return nil, err
	}
	if l.Half > 0 {
		t = t.Half(l.Half)
	}
	p := &played{hash: hash, trace: t.Repeat(l.repeats(t))}
	l.traces[name] = p
	return p, nil
}
