package simreport

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/simrun"
)

// charts is what the page's script draws (report.js).
type charts struct {
	TTFT      []float64  `json:"ttft_ms"`     // where Within is taken
	Time      []float64  `json:"time_s"`      // middle of each bucket
	Until     float64    `json:"until_s"`     // end of the last
	Most      float64    `json:"most_tokens"` // of an endpoint in a bucket, under any policy: what is darkest
	Endpoints []string   `json:"endpoints"`
	Runs      []chartRun `json:"runs"`
}

// chartRun is one policy's part.
type chartRun struct {
	Name   string      `json:"name"`
	Colour string      `json:"colour"`
	Dash   []int       `json:"dash"`   // strokes and gaps in pixels; none for a whole line
	Within []float64   `json:"within"` // % of turns with a first token by then
	Hits   []*float64  `json:"hits"`   // % of prompt tokens found in each bucket; nil where none came
	Work   [][]float64 `json:"work"`   // tokens by endpoint and bucket
}

// chartsOf are the charts of runs on one fleet, until a time.
func chartsOf(runs []*simrun.Run, until time.Duration) ([]byte, error) {
	c := charts{TTFT: scale(runs), Until: until.Seconds(), Most: 1}
	for b := range buckets {
		c.Time = append(c.Time, (float64(b)+0.5)/buckets*until.Seconds())
	}
	for _, e := range runs[0].Replay.Fleet.Endpoints {
		c.Endpoints = append(c.Endpoints, e.Name)
	}
	for i, s := range runs {
		r := chartRun{
			Name: s.Title(), Colour: colour(i), Dash: dashes(i), Within: within(s, c.TTFT),
			Hits: hitsOverTime(s, until),
		}
		for _, row := range workOverTime(s, until) {
			c.Most = max(c.Most, slices.Max(row[:]))
			r.Work = append(r.Work, row[:])
		}
		c.Runs = append(c.Runs, r)
	}
	return json.Marshal(&c) // what would end a script's text is escaped
}

// colour tells policies apart, for the colour-blind too (Okabe and Ito).
func colour(i int) string {
	all := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"}
	return all[i%len(all)]
}

// dashes tells policies apart that have the same colour.
func dashes(i int) []int {
	return [][]int{{}, {8, 4}, {2, 3}}[min(i/8, 2)]
}

// round keeps one decimal.
func round(x float64) float64 { return math.Round(10*x) / 10 }
