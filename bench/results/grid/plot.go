package grid

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/warmpath/warmpath/bench/results/plot"
	"github.com/warmpath/warmpath/policy"
)

// drawTTFT draws p90s by load, a panel for each fleet.
func drawTTFT(trace string, cells []*judged) ([]byte, error) {
	return drawByLoad(trace+": p90 of the time to first token", "s", true, cells, func(m *measured) interval {
		return interval{m.p90.mean / 1000, m.p90.low / 1000, m.p90.high / 1000}
	})
}

// drawHits draws hit rates by load, a panel for each fleet.
func drawHits(trace string, cells []*judged) ([]byte, error) {
	return drawByLoad(trace+": prompt tokens found in a cache", "%", false, cells, func(m *measured) interval {
		return interval{100 * m.hit.mean, 100 * m.hit.low, 100 * m.hit.high}
	})
}

// mostTimes is how far above the lowest a plot of times goes: policies that cannot carry a load would squeeze the
// others.
const mostTimes = 20

func drawByLoad(title, unit string, log bool, cells []*judged, of func(m *measured) interval) ([]byte, error) {
	f := plot.Figure{Title: title}
	for _, j := range cells {
		for _, m := range j.policies {
			if !slices.Contains(f.Names, m.policy) {
				f.Names = append(f.Names, m.policy)
			}
		}
	}
	slices.SortFunc(f.Names, byRank)
	for _, fleet := range []string{fleetEven, fleetMixed} {
		var row []plot.Panel
		for _, n := range endpoints() {
			p := plot.Panel{Title: fmt.Sprintf("%d endpoints, %s", n, fleet), X: "load", Y: unit, LogY: log}
			at := slices.DeleteFunc(slices.Clone(cells), func(j *judged) bool {
				return j.cell.Fleet != fleet || j.cell.Endpoints != n
			})
			if fillPanel(&p, at, f.Names, of); len(p.Lines) > 0 {
				row = append(row, p)
			}
		}
		if len(row) > 0 {
			f.Panels = append(f.Panels, row)
		}
	}
	var out bytes.Buffer
	err := f.WriteSVG(&out)
	return out.Bytes(), err
}

// fillPanel draws a line for each policy through the cells, which differ in load alone.
func fillPanel(p *plot.Panel, cells []*judged, names []string, of func(m *measured) interval) {
	lowest, highest := math.Inf(1), 0.0
	for style, name := range names {
		l := plot.Line{Style: style, Strong: name == policy.Default}
		for _, j := range cells {
			at := slices.IndexFunc(j.policies, func(m *measured) bool { return m.policy == name })
			if at < 0 {
				continue
			}
			i := of(j.policies[at])
			lowest, highest = min(lowest, i.mean), max(highest, i.mean)
			l.Points = append(l.Points, plot.Point{
				X: j.cell.Load, Y: i.mean, Low: max(i.low, i.mean/100), High: i.high,
			})
			if !slices.Contains(p.TicksX, j.cell.Load) {
				p.TicksX = append(p.TicksX, j.cell.Load)
			}
		}
		if len(l.Points) > 0 {
			p.Lines = append(p.Lines, l)
		}
	}
	if p.LogY && highest > mostTimes*lowest {
		p.TopY = mostTimes * lowest
	}
}
