package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

//go:embed simulate_report.html
var reportPage string

// reportData is what the page shows.
type reportData struct {
	Trace, Fleet   string
	Ideal          string
	Rows           []figures.Figures
	TTFT, Hits     template.HTML
	Policies       []reportPolicy
	SharedDuration string
	Notes          []string // of the trace
}

// reportPolicy is one policy's own part of the page.
type reportPolicy struct {
	Name, Colour string
	Border       string // of its key, as its lines are drawn
	Work         template.HTML
	Reasons      []figures.ReasonFigure
	Split        *figures.SplitFigures // nil in fleets without roles
	Moves        []move
	Moved, Later int
}

// move is how many turns left their conversation's endpoint for another, for one reason.
type move struct {
	From, To, Reason string
	Turns            int
}

const (
	chartWidth, chartHeight = 760.0, 260.0
	buckets                 = 80
	mostMoves               = 20
)

// colours tell policies apart, for the colour-blind too (Okabe and Ito).
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

// short is a name that fits beside a row, the middle left out.
func short(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	front := (most - 1) / 2
	return string(r[:front]) + "…" + string(r[len(r)-(most-1-front):])
}

// htmlReport is the page. It loads nothing from anywhere.
func htmlReport(runs []*simulation) ([]byte, error) {
	page, err := template.New("report").Funcs(template.FuncMap{"percent": percent, "ms": whole, "mb": megabytes, "f1": func(x float64) string { return fmt.Sprintf("%.1f", x) }, "f2": func(x float64) string { return fmt.Sprintf("%.2f", x) }, "f3": func(x float64) string { return fmt.Sprintf("%.3f", x) }}).Parse(reportPage)
	if err != nil {
		return nil, err
	}
	first := runs[0]
	until := horizon(runs)
	d := reportData{
		Trace: filepath.Base(first.replay.Trace.Name), Ideal: percent(first.figures.IdealHitRate), SharedDuration: until.Round(time.Second).String(),
		Fleet: fmt.Sprintf("%d endpoints, load %.2f, seed %d", first.figures.Endpoints, first.figures.Load, first.figures.Seed),
		Notes: first.replay.Trace.Notes,
	}
	var ttft, hits chart
	for i, s := range runs {
		f := s.figures
		f.PerEndpoint, f.Policy = nil, s.title()
		d.Rows = append(d.Rows, f)
		border, strokes := dash(i)
		ttft.lines = append(ttft.lines, line2{s.title(), colour(i), strokes, distribution(s)})
		hits.lines = append(hits.lines, line2{s.title(), colour(i), strokes, hitsOverTime(s, until)})
		part := policyPart(s, until)
		part.Colour, part.Border = colour(i), border
		d.Policies = append(d.Policies, part)
	}
	ttft.logX, ttft.xName, ttft.yName = true, "time to first token, ms", "share of turns"
	hits.xName, hits.yName = "time, s", "share of prompt tokens found"
	d.TTFT, d.Hits = ttft.svg(), hits.svg()
	var out bytes.Buffer
	err = page.Execute(&out, d)
	return out.Bytes(), err
}

// horizon is when nearly all turns of every run have been sent: sessions that go on for a day would squeeze the rest.
func horizon(runs []*simulation) time.Duration {
	var until time.Duration = 1
	for _, s := range runs {
		if turns := s.outcome.Turns; len(turns) > 0 {
			until = max(until, turns[len(turns)*95/100].Sent)
		}
	}
	return until
}

// distribution is the share of turns whose first token came within a time.
func distribution(s *simulation) [][2]float64 {
	var all []time.Duration
	for i := range s.outcome.Turns {
		if t := &s.outcome.Turns[i]; !t.Failed {
			all = append(all, t.TTFT)
		}
	}
	slices.Sort(all)
	var out [][2]float64
	for i := range 201 {
		if len(all) > 0 {
			at := min(i*len(all)/200, len(all)-1)
			out = append(out, [2]float64{max(all[at].Seconds()*1000, 1), float64(at+1) / float64(len(all))})
		}
	}
	return out
}

func hitsOverTime(s *simulation, until time.Duration) [][2]float64 {
	var prompt, cached [buckets]float64
	for i := range s.outcome.Turns {
		t := &s.outcome.Turns[i]
		if t.Failed || t.Sent >= until {
			continue
		}
		b := int(int64(t.Sent) * buckets / int64(until))
		prompt[b] += float64(s.replay.Trace.Turns[t.Turn].Prompt)
		cached[b] += float64(t.Cached)
	}
	var out [][2]float64
	for b := range buckets {
		if prompt[b] > 0 {
			out = append(out, [2]float64{(float64(b) + 0.5) / buckets * until.Seconds(), cached[b] / prompt[b]})
		}
	}
	return out
}

// policyPart is what the page says about one policy.
func policyPart(s *simulation, until time.Duration) reportPolicy {
	p := reportPolicy{Name: s.title(), Reasons: s.figures.Reasons, Split: s.figures.Split}
	names := s.replay.Fleet.Endpoints
	home := make([]int, len(s.replay.Trace.Sessions)) // 1 + endpoint
	count := map[move]int{}
	for i := range s.outcome.Turns {
		t := &s.outcome.Turns[i]
		turn := &s.replay.Trace.Turns[t.Turn]
		if t.Failed {
			continue
		}
		if from := home[turn.Session]; from > 0 {
			p.Later++
			if from-1 != t.Endpoint {
				p.Moved++
				count[move{From: names[from-1].Name, To: names[t.Endpoint].Name, Reason: string(t.Reason)}]++
			}
		}
		home[turn.Session] = t.Endpoint + 1
	}
	for m, n := range count {
		m.Turns = n
		p.Moves = append(p.Moves, m)
	}
	slices.SortFunc(p.Moves, func(a, b move) int {
		if a.Turns != b.Turns {
			return b.Turns - a.Turns
		}
		return strings.Compare(a.From+" "+a.To+" "+a.Reason, b.From+" "+b.To+" "+b.Reason)
	})
	p.Moves = p.Moves[:min(len(p.Moves), mostMoves)]
	p.Work = heat(workOverTime(s, until), names)
	return p
}

// workOverTime is the tokens that each endpoint had to compute of the turns sent in each part of the time: the prompt's where it was
// computed, the answer's where that was made.
func workOverTime(s *simulation, until time.Duration) [][buckets]float64 {
	work := make([][buckets]float64, len(s.replay.Fleet.Endpoints))
	for i := range s.outcome.Turns {
		t := &s.outcome.Turns[i]
		if turn := &s.replay.Trace.Turns[t.Turn]; !t.Failed && t.Sent < until {
			b := int(int64(t.Sent) * buckets / int64(until))
			work[t.Computed()][b] += float64(turn.Prompt - t.Cached)
			work[t.Endpoint][b] += float64(turn.Output)
		}
	}
	return work
}

// heat draws the tokens computed by each endpoint over time: the darker, the more.
func heat(work [][buckets]float64, names []simrig.Endpoint) template.HTML {
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
			template.HTMLEscapeString(short(names[i].Name, 13)), template.HTMLEscapeString(names[i].Name))
		for k, w := range work[i] {
			if w > 0 {
				fmt.Fprintf(&b, `<rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="#0072b2" fill-opacity="%.2f"/>`, left+cell*float64(k), row*float64(i), cell, row-1, w/most)
			}
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
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

func (c *chart) svg() template.HTML {
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
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, chartWidth, chartHeight, template.HTMLEscapeString(c.yName+" by "+c.xName))
	for _, y := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" class="grid"/><text x="%.0f" y="%.1f" text-anchor="end">%.2f</text>`, left, chartWidth-10, py(y), py(y), left-6, py(y)+4, y)
	}
	for _, v := range c.ticks(low, high) {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="10" y2="%.1f" class="grid"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, px(v), px(v), py(0), px(v), chartHeight-bottom+16, strconv.FormatFloat(v, 'f', -1, 64))
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`, chartWidth/2, chartHeight-4, template.HTMLEscapeString(c.xName))
	for _, l := range c.lines {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-dasharray="%s" stroke-width="1.6" points="`, l.colour, l.strokes)
		for _, p := range l.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", px(p[0]), py(p[1]))
		}
		fmt.Fprintf(&b, `"><title>%s</title></polyline>`, template.HTMLEscapeString(l.name))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
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
