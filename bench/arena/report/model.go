// Package report is what a run of the arena found: its model, which is also its JSON, and the page.
package report

import (
	"slices"

	"github.com/warmpath/warmpath/bench/arena/faults"
)

// Run is everything that a run found.
type Run struct {
	Time    string   `json:"time"`
	CPUs    int      `json:"cpus"`
	CPU     string   `json:"cpu"`
	Engines string   `json:"engines"` // in words
	Real    bool     `json:"real"`
	Rounds  int      `json:"rounds"`
	Seed    uint64   `json:"seed"`
	Took    string   `json:"took"`
	Routers []Router `json:"routers"`
	LeftOut []string `json:"left_out,omitempty"` // with the reason

	Scenarios []Scenario `json:"scenarios,omitempty"`
	Plays     []Play     `json:"plays,omitempty"`
	Costs     []Cost     `json:"costs,omitempty"`
	Faults    []Faults   `json:"faults,omitempty"`
}

// Ours is the name of the router that the others are compared with.
const Ours = "warmpath"

// Router is one contestant.
type Router struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	From    string            `json:"from"`
	Setting map[string]string `json:"setting"` // in words, by job
	Config  map[string]string `json:"config"`  // exact, by job
}

// Scenario is one way of playing conversations.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Job   string `json:"job"`
}

// Latency is a distribution of times in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// Play is one router in one scenario in one round, as clients and engines saw it.
type Play struct {
	Router   string  `json:"router"`
	Scenario string  `json:"scenario"`
	Round    int     `json:"round"`
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	TTFT     Latency `json:"ttft_ms"`
	Took     Latency `json:"took_ms"` // until the end of the answer
	HitRate  float64 `json:"hit_rate"`
	WorkCV   float64 `json:"work_cv"`    // over the engines; -1 unknown
	CPUMs    float64 `json:"cpu_ms"`     // of the router for each request
	Example  string  `json:"last_error"` // of a failed turn
}

// Cost is what a router takes for one kind of request.
type Cost struct {
	Router    string  `json:"router"`
	Request   string  `json:"request"`
	CPUMicros float64 `json:"cpu_us"`
	PerSecond float64 `json:"requests_per_second"`
	Errors    int     `json:"errors"`
	MemoryMB  float64 `json:"memory_mb"` // after the whole measurement
}

// Faults are the outcomes of one router.
type Faults struct {
	Router   string           `json:"router"`
	Outcomes []faults.Outcome `json:"outcomes"`
}

// Line is one router in one scenario over all rounds: medians of the figures, and of the ratios to ours in the same
// round.
type Line struct {
	Play
	Ratio    float64 // of mean time to first token; 0 unknown
	RatioP90 float64
	Low      float64 // smallest and largest ratio of a round
	High     float64
}

// Lines sums up a scenario, in the order of the routers.
func (r *Run) Lines(scenario string) []Line {
	ours := map[int]Play{}
	for _, p := range r.Plays {
		if p.Scenario == scenario && p.Router == Ours {
			ours[p.Round] = p
		}
	}
	var out []Line
	for _, router := range r.Routers {
		var rounds []Play
		var ratios, tails []float64
		for _, p := range r.Plays {
			if p.Scenario != scenario || p.Router != router.Name {
				continue
			}
			rounds = append(rounds, p)
			if o, ok := ours[p.Round]; ok && o.TTFT.Mean > 0 && o.TTFT.P90 > 0 && p.TTFT.Mean > 0 {
				ratios = append(ratios, p.TTFT.Mean/o.TTFT.Mean)
				tails = append(tails, p.TTFT.P90/o.TTFT.P90)
			}
		}
		if len(rounds) == 0 {
			continue
		}
		pick := func(f func(Play) float64) float64 {
			var values []float64
			for _, p := range rounds {
				values = append(values, f(p))
			}
			return Median(values)
		}
		l := Line{Play: Play{
			Router: router.Name, Scenario: scenario,
			TTFT: Latency{
				Mean: pick(func(p Play) float64 { return p.TTFT.Mean }),
				P50:  pick(func(p Play) float64 { return p.TTFT.P50 }),
				P90:  pick(func(p Play) float64 { return p.TTFT.P90 }),
				P99:  pick(func(p Play) float64 { return p.TTFT.P99 }),
			},
			Took:    Latency{Mean: pick(func(p Play) float64 { return p.Took.Mean })},
			HitRate: pick(func(p Play) float64 { return p.HitRate }),
			WorkCV:  pick(func(p Play) float64 { return p.WorkCV }),
			CPUMs:   pick(func(p Play) float64 { return p.CPUMs }),
		}, Ratio: Median(ratios), RatioP90: Median(tails)}
		if len(ratios) > 0 {
			l.Low, l.High = slices.Min(ratios), slices.Max(ratios)
		}
		for _, p := range rounds {
			l.Requests += p.Requests
			l.Failed += p.Failed
			if p.Example != "" {
				l.Example = p.Example
			}
		}
		out = append(out, l)
	}
	return out
}

// Failed reports whether anything of ours failed that should not: a conversation's turn, or a measured request.
func (r *Run) Failed() bool {
	for _, p := range r.Plays {
		if p.Router == Ours && p.Failed > 0 {
			return true
		}
	}
	for _, c := range r.Costs {
		if c.Router == Ours && c.Errors > 0 {
			return true
		}
	}
	for _, f := range r.Faults {
		for _, o := range f.Outcomes {
			if f.Router == Ours && o.Error != "" {
				return true
			}
		}
	}
	return false
}

// Median of values, which it does not change; 0 when there are none.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
