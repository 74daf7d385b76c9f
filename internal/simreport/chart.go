package simreport

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"

	simrig "github.com/warmpath/warmpath/sim/rig"
)

const chartWidth, chartHeight = 760.0, 260.0

// colour tells policies apart, for the colour-blind too (Okabe and Ito).
func colour(i int) string {
	all := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"}
	return all[i%len(all)]
}

// dash tells policies apart that have the same colour: as a border of a key, and as the strokes of a line.
func dash(i int) (border, strokes string) {
	switch i / 8 {
	case 0:
		return "solid", "none"
	case 1:
		return "dashed", "7 3"
	default:
		return "dotted", "2 3"
	}
}

// short cuts the middle out of a name that is longer than most.
func short(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	front := (most - 1) / 2
	return string(r[:front]) + "…" + string(r[len(r)-(most-1-front):])
}

// heat draws the tokens computed by each endpoint over time: the darker, the more.
func heat(work [][buckets]float64, names []simrig.Endpoint) g.Node {
	most := 1.0
	for i := range work {
		most = max(most, slices.Max(work[i][:]))
	}
	const left, row = 90.0, 14.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="work over time by endpoint">`, chartWidth, row*float64(len(work))+4)
	cell := (chartWidth - left) / buckets
	for i := range work {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.1f" text-anchor="end">%s<title>%s</title></text>`, left-6, row*float64(i)+11,
			html.EscapeString(short(names[i].Name, 13)), html.EscapeString(names[i].Name))
		for k, w := range work[i] {
			if w > 0 {
				fmt.Fprintf(&b, `<rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="#0072b2" fill-opacity="%.2f"/>`, left+cell*float64(k), row*float64(i), cell, row-1, w/most)
			}
		}
	}
	b.WriteString("</svg>")
	return g.Raw(b.String())
}

// chart is a line chart.
type chart struct {
	lines        []line2
	logX         bool
	xName, yName string
}

type line2 struct {
	name, colour string
	strokes      string       // stroke-dasharray
	points       [][2]float64 // y is 0..1
}

func (c *chart) svg() g.Node {
	low, high := math.Inf(1), math.Inf(-1)
	x := func(v float64) float64 {
		if c.logX {
			return math.Log10(v)
		}
		return v
	}
	for _, l := range c.lines {
		for _, p := range l.points {
			low, high = min(low, x(p[0])), max(high, x(p[0]))
		}
	}
	if !(high > low) {
		low, high = 0, 1
	}
	const left, bottom = 50.0, 36.0
	px := func(v float64) float64 { return left + (x(v)-low)/(high-low)*(chartWidth-left-10) }
	py := func(v float64) float64 { return 10 + (1-v)*(chartHeight-bottom-10) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, chartWidth, chartHeight, html.EscapeString(c.yName+" by "+c.xName))
	for _, y := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" class="grid"/><text x="%.0f" y="%.1f" text-anchor="end">%.2f</text>`, left, chartWidth-10, py(y), py(y), left-6, py(y)+4, y)
	}
	for _, v := range c.ticks(low, high) {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="10" y2="%.1f" class="grid"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, px(v), px(v), py(0), px(v), chartHeight-bottom+16, strconv.FormatFloat(v, 'f', -1, 64))
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`, chartWidth/2, chartHeight-4, html.EscapeString(c.xName))
	for _, l := range c.lines {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-dasharray="%s" stroke-width="1.6" points="`, l.colour, l.strokes)
		for _, p := range l.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", px(p[0]), py(p[1]))
		}
		fmt.Fprintf(&b, `"><title>%s</title></polyline>`, html.EscapeString(l.name))
	}
	b.WriteString("</svg>")
	return g.Raw(b.String())
}

// ticks are round numbers between the ends of the x axis.
func (c *chart) ticks(low, high float64) []float64 {
	var out []float64
	if c.logX {
		for e := math.Ceil(low); e <= high; e++ {
			out = append(out, math.Pow(10, e))
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10(high-low)))
	if (high-low)/step < 4 {
		step /= 2
	}
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		out = append(out, v)
	}
	return out
}
