package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// sample is a figure of every kind of panel.
func sample() *Figure {
	return &Figure{
		Title: "a & b", Names: []string{
			"one", "two <2>", strings.Repeat("a name too long for one row ", 4), strings.Repeat("and another ", 4),
		},
		Panels: [][]Panel{
			{
				{Title: "lines", X: "x", Y: "y", LogX: true, LogY: true, Lines: []Line{
					{Style: 0, Strong: true, Points: []Point{{1, 10, 8, 12}, {10, 100, 90, 110}}},
					{Style: 1, Points: []Point{{X: -1, Y: 5}, {X: 3, Y: 0}, {X: 2, Y: 20}}}, // two have no logarithm
				}},
				{Title: "heat", X: "s", Heat: &Heat{
					Names: []string{"e0", "e1"}, Rows: [][]float64{{0, 1, 2}, {2, 1, 0}}, To: 30, Most: 2,
				}},
			},
			{{Title: "nothing"}, {Title: "a point", TicksX: []float64{3}, ZeroY: true, Lines: []Line{
				{Style: 3, Points: []Point{{X: 3, Y: 4, Low: 4, High: 4}}},
			}}},
		},
	}
}

func svg(t *testing.T, f *Figure) string {
	t.Helper()
	var out bytes.Buffer
	if err := f.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// textsOf reads a picture as XML and gives the text in it.
func textsOf(t *testing.T, svg string) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts = append(texts, string(text))
		}
	}
}

// TestNamesOfAnyBytes: it is XML whatever things are called.
func TestNamesOfAnyBytes(t *testing.T) {
	const odd, want = "a\x00\x1b[31m\xff\uffff<b>&\u0085é", "a\ufffd\ufffd[31m\ufffd\ufffd<b>&\u0085é"
	f := &Figure{Title: odd, Names: []string{odd}, Panels: [][]Panel{{
		{Title: odd, X: odd, Y: odd, Lines: []Line{{Points: []Point{{X: 1, Y: 1}, {X: 2, Y: 2}}}}},
		{Heat: &Heat{Names: []string{odd}, Rows: [][]float64{{1}}, To: 1, Most: 1}},
	}}}
	seen := 0
	for _, text := range textsOf(t, svg(t, f)) {
		if text == want {
			seen++
		}
	}
	if seen != 6 {
		t.Errorf("%q is there %d times, want 6: of the figure, its line, a panel and its axes, and a row", want, seen)
	}
}

// TestSVG: it is XML, all text is there as text, and it loads nothing.
func TestSVG(t *testing.T) {
	got := svg(t, sample())
	texts := textsOf(t, got)
	for _, want := range []string{"a & b", "one", "two <2>", "lines", "heat", "e0", "e1", "nothing", "a point", "3"} {
		if !slices.Contains(texts, want) {
			t.Errorf("no text %q", want)
		}
	}
	if strings.Contains(got, "href") || strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
		t.Error("it has a link or a place that is no number")
	}
	if got != svg(t, sample()) {
		t.Error("the same figure is written in two ways")
	}
}

// TestIntervals: a line through intervals has a bar for each.
func TestIntervals(t *testing.T) {
	count := func(high float64) int {
		f := &Figure{Names: []string{"one"}, Panels: [][]Panel{
			{{Lines: []Line{{Points: []Point{{1, 2, 2, high}, {2, 3, 3, 3 + high - 2}}}}}},
		}}
		return strings.Count(svg(t, f), "<path")
	}
	if with, without := count(4), count(2); with < without+2 {
		t.Errorf("%d paths with intervals, %d without", with, without)
	}
}

func TestFaults(t *testing.T) {
	for name, f := range map[string]*Figure{
		"no panel":         {},
		"too many":         {Panels: [][]Panel{make([]Panel, mostPanels+1)}},
		"no name of style": {Names: []string{"a"}, Panels: [][]Panel{{{Lines: []Line{{Style: 1}}}}}},
		"negative style":   {Names: []string{"a"}, Panels: [][]Panel{{{Lines: []Line{{Style: -1}}}}}},
		"not a number": {
			Names: []string{"a"}, Panels: [][]Panel{{{Lines: []Line{{Points: []Point{{X: 1, Y: math.NaN()}}}}}}},
		},
		"infinite": {Names: []string{"a"}, Panels: [][]Panel{
			{{Lines: []Line{{Points: []Point{{X: 1, Y: 1, High: math.Inf(1)}}}}}},
		}},
		"heat of nothing": {Panels: [][]Panel{{{Heat: &Heat{To: 1, Most: 1}}}}},
		"heat unnamed":    {Panels: [][]Panel{{{Heat: &Heat{Rows: [][]float64{{1}}, To: 1, Most: 1}}}}},
		"heat of no time": {Panels: [][]Panel{{{Heat: &Heat{Names: []string{"e"}, Rows: [][]float64{{1}}, Most: 1}}}}},
	} {
		if err := f.WriteSVG(io.Discard); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
}

func TestDecades(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		want      []string
	}{
		{0.5, 60, []string{"0.5", "1", "2", "5", "10", "20", "50"}},
		{0.001, 100, []string{"0.001", "0.01", "0.1", "1", "10", "100"}},
		{10, 20, []string{"10", "12.5", "15", "20"}},
		{0, 1, nil},
		{2, 2, nil},
	} {
		var got []string
		for _, tick := range (decades{}).Ticks(tt.low, tt.high) {
			got = append(got, tick.Label)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v to %v: %v, want %v", tt.low, tt.high, got, tt.want)
		}
	}
}
