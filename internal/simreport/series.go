package simreport

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/simrun"
)

// buckets are the parts that a run's time is cut into.
const buckets = 80

// horizon is when nearly all turns of every run have been sent: sessions that last a day would squeeze the rest.
func horizon(runs []*simrun.Run) time.Duration {
	var until time.Duration = 1
	for _, s := range runs {
		if turns := s.Outcome.Turns; len(turns) > 0 {
			until = max(until, turns[len(turns)*95/100].Sent)
		}
	}
	return until
}

// distribution is the share of turns whose first token came within a time.
func distribution(s *simrun.Run) [][2]float64 {
	var all []time.Duration
	for i := range s.Outcome.Turns {
		if t := &s.Outcome.Turns[i]; !t.Failed {
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

func hitsOverTime(s *simrun.Run, until time.Duration) [][2]float64 {
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
	var out [][2]float64
	for b := range buckets {
		if prompt[b] > 0 {
			out = append(out, [2]float64{(float64(b) + 0.5) / buckets * until.Seconds(), cached[b] / prompt[b]})
		}
	}
	return out
}

// workOverTime is the tokens that each endpoint had to compute of the turns sent in each part of the time: the prompt's where it was
// computed, the answer's where that was made.
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
