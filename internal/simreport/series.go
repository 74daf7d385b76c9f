package simreport

import (
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/simrun"
)

// buckets are the parts that a run's time is cut into.
const buckets = 80

// horizon is when nearly all turns of every run have been sent, at least a second: sessions that last a day would
// squeeze the rest.
func horizon(runs []*simrun.Run) time.Duration {
	until := time.Second
	for _, s := range runs {
		if turns := s.Outcome.Turns; len(turns) > 0 {
			until = max(until, turns[len(turns)*95/100].Sent)
		}
	}
	return until
}

// grain is how many times the time to first token is looked at: about once each two or three pixels.
const grain = 320

// scale is times to first token in ms, evenly spaced by their logarithms, from the least of all runs to the most.
func scale(runs []*simrun.Run) []float64 {
	low, high := math.Inf(1), 1.0
	for _, s := range runs {
		for _, ms := range ttfts(s) {
			low, high = min(low, ms), max(high, ms)
		}
	}
	if !(high > low) { // none, or all alike
		low, high = high/2, high*2
	}
	out := make([]float64, grain+1)
	for i := range out {
		out[i] = low * math.Pow(high/low, float64(i)/grain)
	}
	out[grain] = high
	return out
}

// ttfts are the times to first token of turns that did not fail, in ms, at least one.
func ttfts(s *simrun.Run) []float64 {
	var out []float64
	for i := range s.Outcome.Turns {
		if t := &s.Outcome.Turns[i]; !t.Failed {
			out = append(out, max(t.TTFT.Seconds()*1000, 1))
		}
	}
	return out
}

// within is the share in % of turns whose first token came within each of some times, which ascend.
func within(s *simrun.Run, ms []float64) []float64 {
	all := ttfts(s)
	slices.Sort(all)
	out := make([]float64, len(ms))
	for i, n := 0, 0; i < len(ms); i++ {
		for n < len(all) && all[n] <= ms[i] {
			n++
		}
		out[i] = round(100 * float64(n) / float64(max(len(all), 1)))
	}
	return out
}

// hitsOverTime is the share in % of the prompt tokens of turns sent in each part of the time that were found in a
// cache.
func hitsOverTime(s *simrun.Run, until time.Duration) []*float64 {
	var prompt, cached [buckets]float64
	for i := range s.Outcome.Turns {
		t := &s.Outcome.Turns[i]
		if t.Failed || t.Sent >= until {
			continue
		}
		b := int(int64(t.Sent) * buckets / int64(until))
		prompt[b] += float64(s.Replay.Trace.Turns[t.Turn].Prompt)
		cached[b] += float64(t.Cached)
	}
	out := make([]*float64, buckets)
	for b := range buckets {
		if prompt[b] > 0 {
			share := round(100 * cached[b] / prompt[b])
			out[b] = &share
		}
	}
	return out
}

// workOverTime is the tokens that each endpoint had to compute of the turns sent in each part of the time: the prompt's
// where it was computed, the answer's where that was made.
func workOverTime(s *simrun.Run, until time.Duration) [][buckets]float64 {
	work := make([][buckets]float64, len(s.Replay.Fleet.Endpoints))
	for i := range s.Outcome.Turns {
		t := &s.Outcome.Turns[i]
		if turn := &s.Replay.Trace.Turns[t.Turn]; !t.Failed && t.Sent < until {
			b := int(int64(t.Sent) * buckets / int64(until))
			work[t.Computed()][b] += float64(turn.Prompt - t.Cached)
			work[t.Endpoint][b] += float64(turn.Output)
		}
	}
	return work
}
