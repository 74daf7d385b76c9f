package plot

import (
	"image/color"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// plot sets a panel up to show the cells.
func (h *Heat) plot(g *gonum.Plot, x string) {
	axis(&g.X, x, false)
	axis(&g.Y, "", false)
	g.X.Min, g.X.Max = h.From, h.To
	g.Y.Min, g.Y.Max = 0, float64(len(h.Rows))
	var rows []gonum.Tick
	every := max(1, (len(h.Names)+11)/12) // names that fit one above the other
	for i := 0; i < len(h.Names); i += every {
		rows = append(rows, gonum.Tick{Value: float64(len(h.Rows)-i) - 0.5, Label: h.Names[i]})
	}
	g.Y.Tick.Marker = gonum.ConstantTicks(rows)
	g.Y.Tick.Length = 0
	g.Y.Color = color.Transparent
	g.Add(cells{h})
}

// cells draws them.
type cells struct{ *Heat }

// Plot implements gonum's Plotter.
func (h cells) Plot(c draw.Canvas, g *gonum.Plot) {
	x, y := g.Transforms(&c)
	for r, row := range h.Rows {
		low, high := y(float64(len(h.Rows)-r-1)), y(float64(len(h.Rows)-r))
		step := (h.To - h.From) / float64(len(row))
		for i, v := range row {
			if v <= 0 {
				continue
			}
			left, right := x(h.From+float64(i)*step), x(h.From+float64(i+1)*step)
			c.SetColor(shade(min(v/h.Most, 1)))
			c.Fill(rectangle(left, low, right, high-min(1, (high-low)/4)))
		}
	}
}

func rectangle(left, low, right, high vg.Length) vg.Path {
	var p vg.Path
	p.Move(vg.Point{X: left, Y: low})
	p.Line(vg.Point{X: right, Y: low})
	p.Line(vg.Point{X: right, Y: high})
	p.Line(vg.Point{X: left, Y: high})
	p.Close()
	return p
}

// shade is from nearly white to a dark blue.
func shade(share float64) color.Color {
	part := func(from, to float64) uint8 { return uint8(from + share*(to-from) + 0.5) }
	return color.RGBA{part(0xef, 0x08), part(0xf5, 0x30), part(0xfb, 0x6b), 0xff}
}
