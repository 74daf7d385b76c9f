package plot

import (
	"image/color"
	"math"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// colourOf tells styles apart, for the colour-blind too (Okabe and Ito, "Color Universal Design", 2008; its yellow, too
// pale for a line, is an olive here).
func colourOf(style int) color.Color {
	all := [...]color.RGBA{
		{0x00, 0x72, 0xb2, 0xff},
		{0xd5, 0x5e, 0x00, 0xff},
		{0x00, 0x9e, 0x73, 0xff},
		{0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff},
		{0x56, 0xb4, 0xe9, 0xff},
		{0x33, 0x33, 0x33, 0xff},
		{0x99, 0x99, 0x33, 0xff},
	}
	return all[style%len(all)]
}

// dashesOf tells styles of one colour apart.
func dashesOf(style int) []vg.Length {
	return [][]vg.Length{nil, {5, 3}, {1.5, 2.5}, {7, 2, 1.5, 2}}[style/8%4]
}

func grey(level uint8) color.Color { return color.RGBA{level, level, level, 0xff} }

func ink(size vg.Length) text.Style {
	return text.Style{
		Color: grey(0x33), Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: gonum.DefaultTextHandler,
	}
}

func (f *Figure) draw(c draw.Canvas) error {
	size := c.Size()
	c.SetColor(grey(0xff))
	c.Fill(c.Rectangle.Path())
	c.SetColor(grey(0xcc))
	c.SetLineWidth(1)
	c.Stroke(c.Rectangle.Path())
	title := ink(textSize * 1.3)
	title.YAlign = text.YTop
	c.FillText(title, vg.Point{X: edge, Y: size.Y - edge}, f.Title)
	f.legend(c, size.Y-edge-titleHeight)
	top := size.Y - edge - titleHeight - f.legendHeight(size.X)
	for r, row := range f.Panels {
		for i := range row {
			p, err := row[i].plot()
			if err != nil {
				return err
			}
			x, y := edge+vg.Length(i)*panelWidth, top-vg.Length(r+1)*panelHeight
			p.Draw(draw.Crop(c, x+4, x+panelWidth-8-size.X, y+4, y+panelHeight-8-size.Y))
		}
	}
	return nil
}

// names places what the legend shows: rows as wide as the picture allows.
func (f *Figure) names(width vg.Length, at func(style, row int, x vg.Length)) (rows int) {
	style := ink(textSize)
	x := edge
	for i, name := range f.Names {
		need := style.Width(name) + 40
		if x > edge && x+need > width-edge {
			rows++
			x = edge
		}
		if at != nil {
			at(i, rows, x)
		}
		x += need
	}
	return rows + 1
}

func (f *Figure) legendHeight(width vg.Length) vg.Length {
	if len(f.Names) == 0 {
		return 0
	}
	return vg.Length(f.names(width, nil))*legendRow + 6
}

func (f *Figure) legend(c draw.Canvas, top vg.Length) {
	style := ink(textSize)
	style.YAlign = text.YCenter
	f.names(c.Size().X, func(i, row int, x vg.Length) {
		y := top - vg.Length(row)*legendRow - legendRow/2
		c.StrokeLine2(stroke(i, false), x, y, x+20, y)
		c.FillText(style, vg.Point{X: x + 25, Y: y}, f.Names[i])
	})
}

func stroke(style int, strong bool) draw.LineStyle {
	width := vg.Points(1.2)
	if strong {
		width = vg.Points(2.4)
	}
	return draw.LineStyle{Color: colourOf(style), Width: width, Dashes: dashesOf(style)}
}

// plot is the panel as gonum draws it.
func (p *Panel) plot() (*gonum.Plot, error) {
	g := gonum.New()
	g.BackgroundColor = grey(0xff)
	g.Title.Text = p.Title
	g.Title.TextStyle.Font = ink(textSize).Font
	g.Title.TextStyle.Color = grey(0x33)
	g.Title.Padding = 4
	if p.Heat != nil {
		p.Heat.plot(g, p.X)
		return g, nil
	}
	axis(&g.X, p.X, p.LogX)
	axis(&g.Y, p.Y, p.LogY)
	if p.TicksX != nil {
		g.X.Tick.Marker = gonum.ConstantTicks(marks(p.TicksX))
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = grey(0xe4), grey(0xe4)
	g.Add(grid)
	low, high := math.Inf(1), math.Inf(-1)
	for _, strong := range []bool{false, true} {
		for i := range p.Lines {
			if p.Lines[i].Strong != strong {
				continue
			}
			l, h, err := p.line(g, &p.Lines[i])
			if err != nil {
				return nil, err
			}
			low, high = min(low, l), max(high, h)
		}
	}
	if high < low { // nothing drawn
		low, high = 1, 10
		g.X.Min, g.X.Max = 1, 10
	}
	if g.X.Max == g.X.Min {
		g.X.Max, g.X.Min = g.X.Max*1.1+1e-9, g.X.Min*0.9
	}
	p.bounds(g, low, high)
	return g, nil
}

// bounds sets the y axis around what is drawn.
func (p *Panel) bounds(g *gonum.Plot, low, high float64) {
	switch {
	case p.LogY:
		g.Y.Min, g.Y.Max = low/1.08, high*1.08
	case p.ZeroY:
		g.Y.Min, g.Y.Max = 0, max(high*1.04, 1e-9)
	default:
		room := max((high-low)*0.04, 1e-9)
		g.Y.Min, g.Y.Max = low-room, high+room
	}
	if p.TopY > 0 {
		g.Y.Max = p.TopY
	}
}

// line adds a line and its intervals, and says between which heights they lie.
func (p *Panel) line(g *gonum.Plot, l *Line) (low, high float64, err error) {
	low, high = math.Inf(1), math.Inf(-1)
	var points plotter.XYs
	var bars []draw.LineStyle
	style := stroke(l.Style, l.Strong)
	for _, q := range l.Points {
		if p.LogX && q.X <= 0 || p.LogY && q.Y <= 0 {
			continue
		}
		points = append(points, plotter.XY{X: q.X, Y: q.Y})
		low, high = min(low, q.Y), max(high, q.Y)
		if q.Low == q.High || p.LogY && q.Low <= 0 {
			continue
		}
		bar := plotter.Line{XYs: plotter.XYs{{X: q.X, Y: q.Low}, {X: q.X, Y: q.High}}, LineStyle: style}
		bar.Dashes, bar.Width = nil, style.Width*0.6
		bars = append(bars, bar.LineStyle)
		g.Add(&bar)
		low, high = min(low, q.Low), max(high, q.High)
	}
	if len(points) == 0 {
		return low, high, nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return low, high, err
	}
	line.LineStyle = style
	g.Add(line)
	if len(bars) > 0 || len(points) == 1 {
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return low, high, err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: style.Width * 1.2, Shape: draw.CircleGlyph{}}
		g.Add(dots)
	}
	return low, high, nil
}

func axis(a *gonum.Axis, label string, log bool) {
	a.Label.Text = label
	a.Label.TextStyle.Font = ink(textSize * 0.9).Font
	a.Label.TextStyle.Color = grey(0x33)
	a.Tick.Label.Font = ink(textSize * 0.85).Font
	a.Tick.Label.Color = grey(0x33)
	a.Color, a.Tick.LineStyle.Color = grey(0x88), grey(0x88)
	a.Tick.Length = 3
	a.Padding = 2
	if log {
		a.Scale, a.Tick.Marker = gonum.LogScale{}, decades{}
	}
}
