package grid

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
	simengine "github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// Cell is one place of the grid: everything that a policy is measured under but the seed.
type Cell struct {
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

// Traces are the traces of the grid, those soonest measured first. Each is a file with that name and .jsonl.
func Traces() []string {
	return []string{"mooncake_synthetic", "mooncake_conversation", "coding_agent"}
}

func endpoints() []int { return []int{4, 8, 32} }

func loads() []float64 { return []float64{0.4, 0.7, 0.9} }

// String is the cell in a line.
func (c Cell) String() string {
	return fmt.Sprintf("%s, %d endpoints, %s, load %g", c.Trace, c.Endpoints, c.Fleet, c.Load)
}

// kinds are the words of -only.
func kinds() []string { return []string{"trace", "endpoints", "load", "fleet"} }

// value is what the cell has of a kind.
func (c Cell) value(kind string) string {
	switch kind {
	case "trace":
		return c.Trace
	case "endpoints":
		return strconv.Itoa(c.Endpoints)
	case "load":
		return fmt.Sprint(c.Load)
	default:
		return c.Fleet
	}
}

func (c Cell) fleet(engine simengine.Config) simrig.Fleet {
	if c.Fleet == fleetMixed {
		return simrig.Mixed(c.Endpoints, engine)
	}
	return simrig.Even(c.Endpoints, engine)
}

// Cells are the cells that -only lets through, in the order of the page.
func Cells(only []string) ([]Cell, error) {
	wanted := map[string][]string{}
	for _, o := range only {
		key, value, ok := strings.Cut(o, "=")
		if !ok {
			return nil, fmt.Errorf("-only: want kind=value, got %q", o)
		}
		known := gridValues(key)
		if known == nil {
			return nil, fmt.Errorf("-only: no kind %q%s; want trace, endpoints, load or fleet",
				key, strictyaml.DidYouMean(key, kinds()))
		}
		if !slices.Contains(known, value) {
			return nil, fmt.Errorf("-only: no %s %q in the grid; want %s", key, value, strings.Join(known, ", "))
		}
		wanted[key] = append(wanted[key], value)
	}
	var out []Cell
	for _, trace := range Traces() {
		for _, fleet := range []string{fleetEven, fleetMixed} {
			for _, n := range endpoints() {
				for _, load := range loads() {
					out = append(out, Cell{trace, n, fleet, load})
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(c Cell) bool {
		for kind, values := range wanted {
			if !slices.Contains(values, c.value(kind)) {
				return true
			}
		}
		return false
	}), nil
}

// onlyOf is what -only says to let these cells through, and no others; none for the whole grid.
func onlyOf(cells []Cell) (only []string) {
	for _, kind := range kinds() {
		all, some := gridValues(kind), []string(nil)
		for _, value := range all {
			if slices.ContainsFunc(cells, func(c Cell) bool { return c.value(kind) == value }) {
				some = append(some, kind+"="+value)
			}
		}
		if len(some) < len(all) {
			only = append(only, some...)
		}
	}
	return only
}

// gridValues are what a kind of -only may be, nil when there is no such kind.
func gridValues(kind string) []string {
	var out []string
	switch kind {
	case "trace":
		return Traces()
	case "fleet":
		return []string{fleetEven, fleetMixed}
	case "endpoints":
		for _, n := range endpoints() {
			out = append(out, strconv.Itoa(n))
		}
	case "load":
		for _, l := range loads() {
			out = append(out, fmt.Sprint(l))
		}
	}
	return out
}
