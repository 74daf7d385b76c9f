package route

import (
	"slices"
	"time"
)

// Of an answer that comes as a whole nobody sees when its prompt was computed. Engines compute prompts in order of arrival, so that much
// is known of it: when a prompt behind it is computed, or when its own answer has come, all prompts in front of it are computed too.

// longAnswer is how many times as long as expected an answer may be without being late.
const longAnswer = 3

// wholes are the prompts of such answers in an endpoint's queue.
type wholes struct {
	queued  int64     // uncached tokens of all prompts that were ever put into the queue
	open    []uint32  // flights whose prompts are not known to be computed, in order of the queue
	tokens  int64     // of these
	between int64     // of those that were computed since the latest first byte of a stream
	passed  int64     // where the last prompt ends that is known to be computed,
	at      time.Time // and when about it was
	blurred bool      // some were in the queue behind that stream, and may have been computed in one step with it
}

// enter puts a flight's prompt at the end of the queue, with so many ms of others in front of it by what was expected of them.
func (s *speed) enter(now time.Time, f *flight, front float64) {
	w := &s.wholes
	if f.stream && s.prompts == 0 {
		// Its first byte tells the time of what is computed from now on. What was in front is done, as far as can be told.
		w.between, w.blurred = 0, false
		if front <= 0 {
			w.open, w.tokens = w.open[:0], 0
		}
	}
	w.queued += f.prefill
	f.end, f.front = w.queued, float64(front/max(f.msPerToken, leastPerToken))
	s.came.note(now, f.end)
	if !f.stream {
		w.open = append(w.open, f.index)
		w.tokens += f.prefill
		f.ready = s.until.Add(time.Duration(float64(float64(f.prefill)*f.msPerToken) * 1e6))
	}
}

// delay puts off when those are expected to be computed that wait in the queue, since those in front of them took longer than expected.
func (r *Router) delay(s *speed, perToken float64) {
	for _, i := range s.wholes.open {
		f := &r.flights[i]
		if t := s.until.Add(-time.Duration(float64(float64(s.wholes.queued-f.end)*perToken) * 1e6)); t.After(f.ready) {
			f.ready = t
		}
	}
}

// pass takes those out that are known to be computed when the prompt is that ends so far in the queue, and returns their tokens.
func (r *Router) pass(s *speed, end int64) (tokens int64) {
	w, n := &s.wholes, 0
	for n < len(w.open) && r.flights[w.open[n]].end <= end {
		tokens += r.flights[w.open[n]].prefill
		n++
	}
	w.open = slices.Delete(w.open, 0, n)
	w.tokens -= tokens
	return tokens
}

// leaves takes a prompt whose answer comes as a whole out of the queue: the answer is there, or there will be none.
func (r *Router) leaves(now time.Time, f *flight) {
	s := &f.ep.speed
	w := &s.wholes
	if f.prefilled {
		w.between += r.pass(s, f.end)
	} else if i := slices.Index(w.open, f.index); i >= 0 {
		w.open = slices.Delete(w.open, i, i+1)
		w.tokens -= f.prefill
	}
	perToken, _ := r.speedOf(f.ep)
	if most := now.Add(time.Duration(float64(float64(s.ahead+w.tokens)*perToken) * 1e6)); s.until.After(most) {
		s.until = most
	}
	if f.prefilled {
		behind, left := float64(w.queued-f.end), max(0, ms(s.until.Sub(now)))
		f.behind = max(0, behind-float64(left/max(perToken, leastPerToken)))
	}
}

// lateWhole is how late the first answer is that comes as a whole and whose prompt is not known to be computed, in ms: the prompts behind
// it may be as late. An answer of thrice the length that was expected is not late.
func (r *Router) lateWhole(e *endpoint, now time.Time, perToken float64) float64 {
	s := &e.speed
	w := &s.wholes
	if len(w.open) == 0 {
		return 0
	}
	f := &r.flights[w.open[0]]
	each := float64(s.perAnswer)
	if each == 0 {
		if each = r.speeds.perAnswer; each == 0 {
			each = firstPace
		}
	}
	return min(ms(now.Sub(f.ready))-float64(longAnswer*float64(f.decode)*each), float64(float64(outlier*w.tokens)*perToken))
}

// prompts is how many are being computed or wait to be, when all of them are computed in left ms, and when the first of them is.
func (r *Router) prompts(s *speed, left, perToken float64) (n int, first float64) {
	first = max(0, left-float64(float64(s.ahead-s.head)*perToken))
	n, w := s.prompts, &s.wholes
	computed := w.queued - int64(left/max(perToken, leastPerToken))
	for i := len(w.open) - 1; i >= 0; i-- {
		end := r.flights[w.open[i]].end
		if end <= computed {
			break
		}
		n, first = n+1, min(first, float64(float64(end-computed)*perToken))
	}
	return n, first
}
