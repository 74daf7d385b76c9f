package grid

import (
	"fmt"

	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// mixedTrace is the drawn workload of the part about disaggregation: short chats among which every tenth begins with a
// long document.
const mixedTrace = "mixed"

// mixedSettings are what it is drawn by.
const mixedSettings = "conversations=1500,turns=4,system=1000,prefixes=20,user=200,answer=400,think=5s,long=0.1," +
	"long_tokens=16000"

// splitEndpoints is the size of its fleets, and splitThreshold that of production-stack PR 890's example.
const (
	splitEndpoints = 8
	splitThreshold = 4096
)

// The ways that are compared, in order of the tables.
const (
	wayAggregated = "aggregated"
	wayAlways     = "always"
	wayTokens     = "4096 tokens"
	wayTime       = "time"
	wayFree       = "free"
)

func splitWays() []string { return []string{wayAggregated, wayAlways, wayTokens, wayTime, wayFree} }

// splitLinks are the links that KV cache goes over: that of simrig.DefaultTransfer and, where few prompts have to be
// moved, 10 Gbit/s. Where most of the work is prompts, no way to split could get them through that.
func splitLinks(trace string) []simrig.Transfer {
	fast := simrig.DefaultTransfer()
	if trace != mixedTrace {
		return []simrig.Transfer{fast}
	}
	slow := fast
	slow.Bandwidth = 1.25e9
	return []simrig.Transfer{fast, slow}
}

// splitCell is one place of the grid.
type splitCell struct {
	trace    string
	load     float64
	link     simrig.Transfer
	pre, dec int
}

func (c splitCell) String() string {
	return fmt.Sprintf("%s, %dP%dD, load %g, %s", c.trace, c.pre, c.dec, c.load, linkName(c.link))
}

func linkName(t simrig.Transfer) string { return fmt.Sprintf("%g GB/s", t.Bandwidth/1e9) }

// splitJudged is a place of the grid with what was measured there, by way.
type splitJudged struct {
	cell splitCell
	ways []*measured
}

// splitMargin is how far above the best way the default may be.
const splitMargin = 1.03

func ttft90(f *figures.Figures) float64 { return f.TTFT.P90 }
func gap90(f *figures.Figures) float64  { return f.Gap.P90 }
func gap99(f *figures.Figures) float64  { return f.Gap.P99 }
func e2eMean(f *figures.Figures) float64 {
	return f.E2E.Mean
}

// standing is how many times as much one of the ways takes as the best of those before it; pools leaves out the
// aggregated fleet.
func (j *splitJudged) standing(way int, what func(f *figures.Figures) float64, pools bool) interval {
	ours := j.ways[way]
	var best *measured
	for i, m := range j.ways[:way] {
		if pools && i == 0 {
			continue
		}
		if best == nil || m.mean(what) < best.mean(what) {
			best = m
		}
	}
	return ratioOf(ours.of(what), best.of(what))
}
