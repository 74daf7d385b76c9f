package backlog

import (
	"iter"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// mostLength is how many times the expected duration of the longest requested answer one that is not streamed may take.
const mostLength = 2

// overdueAt is when a job's answer becomes overdue if its endpoint gives no sign of life: after fit.Outlier times the
// predicted time to first token, or fit.Bound times before any sample of the endpoint. It is zero for never, if its
// duration cannot be predicted.
func (t *Table) overdueAt(j *Job) time.Time {
	if t.cfg.Silent < 0 || j.Class != fleet.Turn || j.TTFTMs <= 0 {
		return time.Time{}
	}
	known, times := t.rates.Known(j.Slot), float64(fit.Outlier)
	if !known.Own {
		if times = fit.Bound; !known.Any {
			return time.Time{}
		}
	}
	patience := float64(times * j.TTFTMs)
	if !j.Stream {
		if j.MaxTokens <= 0 || known.MsPerAnswer == 0 {
			return time.Time{}
		}
		patience += float64(float64(mostLength*float64(j.MaxTokens)) * known.MsPerAnswer)
	}
	return j.Sent.Add(t.cfg.Silent + fleet.Duration(min(patience, 1e9)))
}

// Late reports whether the job's answer is overdue.
func (j *Job) Late(now time.Time) bool {
	switch {
	case j.overdue.IsZero():
		return false
	case j.Leg != fleet.LegDecode:
		return !now.Before(j.overdue)
	}
	// A decode leg waits for its prefiller until its KV cache is handed over.
	return !j.Handed.IsZero() && !now.Before(j.overdue.Add(max(0, j.Handed.Sub(j.due))))
}

// Unanswered describes the jobs of one endpoint that were sent and have no answer yet, without auxiliary ones.
type Unanswered struct {
	Jobs       int
	Since      time.Time // when the oldest was sent
	Late       bool      // an answer is overdue
	LateSince  time.Time // when the oldest of those was sent
	MostTokens int       // the largest limit of a client on the length of a non-streamed answer
}

// Overdue examines an endpoint's jobs without an answer: those sent from a moment on, and the older ones.
func (r Reader) Overdue(now time.Time, slot int, from time.Time) (recent, older Unanswered) {
	recent.Since, older.Since, recent.LateSince, older.LateSince = now, now, now, now
	for j := range r.t.unanswered(slot) {
		w := &recent
		if j.Sent.Before(from) {
			w = &older
		}
		w.Jobs++
		if j.Late(now) {
			w.Late = true
			w.LateSince = fleet.Earlier(w.LateSince, j.Sent)
		}
		if !j.Stream {
			w.MostTokens = max(w.MostTokens, j.MaxTokens)
		}
		w.Since = fleet.Earlier(w.Since, j.Sent)
	}
	return recent, older
}

// unanswered goes through an endpoint's jobs that were sent and have no answer yet, without auxiliary ones.
func (t *Table) unanswered(slot int) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for i := range t.jobs.Len() {
			j := t.jobs.Get(i)
			if j.open && !j.computed && !j.Queued && j.Slot == slot && j.Class != fleet.Auxiliary && !yield(j) {
				return
			}
		}
	}
}

// NonStreamingBefore counts an endpoint's unanswered jobs sent up to a moment whose answers are not streamed and not
// overdue.
func (r Reader) NonStreamingBefore(now time.Time, slot int, moment time.Time) (n int) {
	for j := range r.t.unanswered(slot) {
		if !j.Stream && !j.Late(now) && !j.Sent.After(moment) {
			n++
		}
	}
	return n
}

// longestAnswer is the longest answer expected where its client states no limit, in tokens: a reasoning model's.
const longestAnswer = 16_384

// LongestMs is how long the longest answer of an endpoint may take that is not streamed, 0 where its speed is unknown:
// most is the largest limit that a client has stated, context the engine's, 0 for none.
func (r Reader) LongestMs(slot, most, context int) float64 {
	tokens := max(most, longestAnswer)
	if context > 0 {
		tokens = min(tokens, context)
	}
	return float64(mostLength*float64(tokens)) * r.t.rates.Known(slot).MsPerAnswer
}
