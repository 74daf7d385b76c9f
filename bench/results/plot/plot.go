// Package plot is the pictures that go into documents: panels of lines over a common legend, as SVG. They have a
// background of their own, so that a page in light and one in dark shows them alike.
package plot

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a picture: panels in rows, and what the lines are called.
type Figure struct {
	Title  string
	Names  []string // of the lines, by Line.Style; shown once for all panels
	Panels [][]Panel
}

// Panel is one pair of axes.
type Panel struct {
	Title  string
	X, Y   string // what the axes show
	LogX   bool   // the axis is logarithmic; points that are not above 0 are left out
	LogY   bool
	ZeroY  bool // the y axis begins at 0
	TopY   float64
	TicksX []float64 // where the x axis is marked; nil for round numbers
	Lines  []Line
	Heat   *Heat // drawn in place of lines
}

// Heat is rows of cells, each the darker the more: one row for each name, from the top.
type Heat struct {
	Names    []string
	Rows     [][]float64 // not negative; all of one length
	From, To float64     // of the x axis
	Most     float64     // what is darkest
}

// Line is a row of points, joined. Style picks its name, colour and dashes; lines of the same style look alike.
type Line struct {
	Style  int
	Strong bool // thicker, and on top of others
	Points []Point
}

// Point is a place on a line; Low and High, when they differ, are the ends of an interval that is drawn through it.
type Point struct{ X, Y, Low, High float64 }

// Sizes of a picture.
const (
	panelWidth  vg.Length = 300 // points
	panelHeight vg.Length = 200
	edge        vg.Length = 12
	titleHeight vg.Length = 26
	legendRow   vg.Length = 16
	textSize    vg.Length = 10
)

// WriteSVG writes the picture as SVG. Its text stays text.
func (f *Figure) WriteSVG(w io.Writer) error {
	width, height, err := f.size()
	if err != nil {
		return err
	}
	c := vgsvg.New(width, height)
	if err := f.draw(draw.New(c)); err != nil {
		return err
	}
	var text strings.Builder
	if _, err := c.WriteTo(&text); err != nil {
		return err
	}
	_, err = io.WriteString(w, portable(legible(text.String())))
	return err
}

// legible puts a sign in the place of each character that must not stand in XML, escaped or not (XML 1.0, section 2.2):
// names of files and engines may hold any.
func legible(svg string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r // of a byte that is no UTF-8 strings.Map makes the same sign
	}, svg)
}

// portable lets a reader without the fonts that sizes were measured with see others of the same widths.
func portable(svg string) string {
	return strings.ReplaceAll(svg, "font-family:Liberation Sans",
		"font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif")
}

// mostPanels bounds a picture.
const mostPanels = 400

func (f *Figure) size() (width, height vg.Length, err error) {
	columns, all := 0, 0
	for _, row := range f.Panels {
		columns, all = max(columns, len(row)), all+len(row)
	}
	if all == 0 || all > mostPanels {
		return 0, 0, fmt.Errorf("plot: a figure has 1..%d panels, got %d", mostPanels, all)
	}
	for _, row := range f.Panels {
		for i := range row {
			if err := row[i].check(len(f.Names)); err != nil {
				return 0, 0, err
			}
		}
	}
	width = vg.Length(columns)*panelWidth + 2*edge
	height = vg.Length(len(f.Panels))*panelHeight + 2*edge + titleHeight + f.legendHeight(width)
	return width, height, nil
}

func (p *Panel) check(names int) error {
	if h := p.Heat; h != nil {
		if len(h.Rows) == 0 || len(h.Names) != len(h.Rows) || !(h.To > h.From) || !(h.Most > 0) {
			return fmt.Errorf("plot: %s: %d rows with %d names from %v to %v, the darkest %v",
				p.Title, len(h.Rows), len(h.Names), h.From, h.To, h.Most)
		}
	}
	for _, l := range p.Lines {
		if l.Style < 0 || l.Style >= names {
			return fmt.Errorf("plot: %s: a line of style %d, of which there are %d", p.Title, l.Style, names)
		}
		for _, q := range l.Points {
			for _, v := range []float64{q.X, q.Y, q.Low, q.High} {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return errors.New("plot: " + p.Title + ": a point that is no number")
				}
			}
		}
	}
	return nil
}
