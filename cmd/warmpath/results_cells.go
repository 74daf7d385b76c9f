package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
	simengine "github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// cell is one place of the grid: everything that a policy is measured under but the seed.
type cell struct {
	Trace     string  `json:"trace"`
	Endpoints int     `json:"endpoints"`
	Fleet     string  `json:"fleet"` // even or mixed
	Load      float64 `json:"load"`
}

// The kinds of fleet.
const (
	fleetEven  = "even"
	fleetMixed = "mixed"
)

// resultsTraces are the traces of the grid, those soonest measured first.
func resultsTraces() []string {
	return []string{"mooncake_synthetic", "mooncake_conversation", "coding_agent"}
}

func resultsEndpoints() []int { return []int{4, 8, 32} }

func resultsLoads() []float64 { return []float64{0.4, 0.7, 0.9} }

// String is the cell in a line.
func (c cell) String() string {
	return fmt.Sprintf("%s, %d endpoints, %s, load %g", c.Trace, c.Endpoints, c.Fleet, c.Load)
}

func (c cell) fleet(engine simengine.Config) simrig.Fleet {
	if c.Fleet == fleetMixed {
		return simrig.Mixed(c.Endpoints, engine)
	}
	return simrig.Even(c.Endpoints, engine)
}

// cellsOf are the cells that --only lets through, in the order of the page.
func cellsOf(only []string) ([]cell, error) {
	wanted := map[string][]string{}
	for _, o := range only {
		key, value, ok := strings.Cut(o, "=")
		if !ok {
			return nil, fmt.Errorf("--only: want kind=value, got %q", o)
		}
		known := gridValues(key)
		if known == nil {
			return nil, fmt.Errorf("--only: no kind %q%s; want trace, endpoints, load or fleet", key, strictyaml.DidYouMean(key, []string{"trace", "endpoints", "load", "fleet"}))
		}
		if !slices.Contains(known, value) {
			return nil, fmt.Errorf("--only: no %s %q in the grid; want %s", key, value, strings.Join(known, ", "))
		}
		wanted[key] = append(wanted[key], value)
	}
	in := func(key, value string) bool { return wanted[key] == nil || slices.Contains(wanted[key], value) }
	var out []cell
	for _, trace := range resultsTraces() {
		for _, fleet := range []string{fleetEven, fleetMixed} {
			for _, n := range resultsEndpoints() {
				for _, load := range resultsLoads() {
					if in("trace", trace) && in("fleet", fleet) && in("endpoints", strconv.Itoa(n)) && in("load", fmt.Sprint(load)) {
						out = append(out, cell{trace, n, fleet, load})
					}
				}
			}
		}
	}
	return out, nil
}

// gridValues are what a kind of --only may be, nil when there is no such kind.
func gridValues(kind string) []string {
	var out []string
	switch kind {
	case "trace":
		return resultsTraces()
	case "fleet":
		return []string{fleetEven, fleetMixed}
	case "endpoints":
		for _, n := range resultsEndpoints() {
			out = append(out, strconv.Itoa(n))
		}
	case "load":
		for _, l := range resultsLoads() {
			out = append(out, fmt.Sprint(l))
		}
	}
	return out
}
