package simreport

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/warmpath/warmpath/internal/plot"
	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/policy"
)

// picture is what a run of simulate looks like in a document: how TTFTs are distributed and how many tokens are found over time
// under each policy, and then for each policy what its endpoints compute over time.
func picture(runs []*simrun.Run) *plot.Figure {
	first := runs[0]
	f := &plot.Figure{Title: fmt.Sprintf("%s, %d endpoints, load %.2f", filepath.Base(first.Replay.Trace.Name), first.Figures.Endpoints, first.Figures.Load)}
	until := horizon(runs)
	ttft := plot.Panel{Title: "Time to first token", X: "s", Y: "% of turns within", LogX: true, ZeroY: true, TopY: 100}
	hits := plot.Panel{Title: "Prompt tokens found in a cache", X: "time, s", Y: "%", ZeroY: true, TopY: 100}
	for i, s := range runs {
		f.Names = append(f.Names, s.Title())
		strong := s.Replay.PolicyName == policy.Default
		ttft.Lines = append(ttft.Lines, plot.Line{Style: i, Strong: strong, Points: points(distribution(s), 0.001, 100)})
		hits.Lines = append(hits.Lines, plot.Line{Style: i, Strong: strong, Points: points(hitsOverTime(s, until), 1, 100)})
	}
	f.Panels = [][]plot.Panel{{ttft, hits}}
	most := 1e-9
	var work []plot.Panel
	for _, s := range runs {
		h := &plot.Heat{To: until.Seconds()}
		for e, row := range workOverTime(s, until) {
			h.Names, h.Rows = append(h.Names, short(s.Replay.Fleet.Endpoints[e].Name, 20)), append(h.Rows, row[:])
			most = max(most, slices.Max(row[:]))
		}
		work = append(work, plot.Panel{Title: s.Title() + ": work sent to each endpoint", X: "time, s", Heat: h})
	}
	for i := range work {
		work[i].Heat.Most = most // one measure for all
		if i%2 == 0 {
			f.Panels = append(f.Panels, nil)
		}
		last := len(f.Panels) - 1
		f.Panels[last] = append(f.Panels[last], work[i])
	}
	return f
}

// points are pairs in other units.
func points(pairs [][2]float64, x, y float64) []plot.Point {
	out := make([]plot.Point, len(pairs))
	for i, p := range pairs {
		out[i] = plot.Point{X: p[0] * x, Y: p[1] * y}
	}
	return out
}

// SVG is the picture as SVG.
func SVG(runs []*simrun.Run) ([]byte, error) {
	var out bytes.Buffer
	err := picture(runs).WriteSVG(&out)
	return out.Bytes(), err
}

// PNG is the picture as PNG.
func PNG(runs []*simrun.Run) ([]byte, error) {
	var out bytes.Buffer
	err := picture(runs).WritePNG(&out)
	return out.Bytes(), err
}
