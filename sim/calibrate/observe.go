package calibrate

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/sim/trace"
)

// ramp is an amount that grows over time: a sum of pieces that each grow linearly from a start to an end, in seconds.
type ramp struct {
	turns []rampTurn
	sums  []float64 // amount at each turn
	rates []float64 // growth after each turn
}

type rampTurn struct{ at, by float64 }

func (r *ramp) add(from, to, amount float64) {
	if amount > 0 && to > from {
		rate := amount / (to - from)
		r.turns = append(r.turns, rampTurn{from, rate}, rampTurn{to, -rate})
	}
}

func (r *ramp) ready() {
	slices.SortStableFunc(r.turns, func(a, b rampTurn) int { return cmp.Compare(a.at, b.at) })
	r.sums, r.rates = make([]float64, len(r.turns)), make([]float64, len(r.turns))
	sum, rate := 0.0, 0.0
	for i, t := range r.turns {
		if i > 0 {
			sum += float64(rate * (t.at - r.turns[i-1].at))
		}
		rate += t.by
		r.sums[i], r.rates[i] = sum, rate
	}
}

// by is the amount at a time.
func (r *ramp) by(t float64) float64 {
	i, _ := slices.BinarySearchFunc(r.turns, t, func(x rampTurn, t float64) int {
		if x.at <= t {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return r.sums[i-1] + float64(r.rates[i-1]*(t-r.turns[i-1].at))
}

// between is the growth between two times.
func (r *ramp) between(from, to float64) float64 { return r.by(to) - r.by(from) }

// prefill is a period of uninterrupted prefill at the endpoint.
type prefill struct {
	from, to float64 // s
	fresh    bool    // it was idle before: no prompt waited
	tokens   float64
	groups   []float64 // tokens of prompts whose first tokens came together
	beside   float64   // mean number of running answers meanwhile
	begun    int       // and at its beginning
}

// busy finds the prefill periods: from an arrival with no prompt in front to the first token after which none is left.
// Long ones are cut at a first token.
func (f *fit) busy() {
	arrivals := slices.Clone(f.requests)
	slices.SortStableFunc(arrivals, func(a, b trace.Recorded) int { return cmp.Compare(a.Sent, b.Sent) })
	for i := 0; i < len(arrivals); {
		until, j := arrivals[i].First, i+1
		for j < len(arrivals) && arrivals[j].Sent < until {
			until = max(until, arrivals[j].First)
			j++
		}
		f.cut(arrivals[i:j])
		i = j
	}
	for i := range f.prefills {
		p := &f.prefills[i]
		f.prefilled.add(p.from, p.to, p.tokens)
	}
	f.prefilled.ready()
	f.meet()
	if f.slots > 0 { // prompts that wait for a slot are not computed meanwhile
		free := slices.DeleteFunc(slices.Clone(f.prefills), func(p prefill) bool {
			return max(p.begun, f.active(p.to)) >= f.slots
		})
		if len(free) >= leastFit {
			f.prefills = free
		} else if len(free) < len(f.prefills) {
			f.note("all its slots were nearly always in use, so prompts waited for them and its rate is uncertain")
		}
	}
}

// sameMoment is the largest distance in s between first tokens of one step.
const sameMoment = 0.0005

// cut makes prefill periods of the requests of one busy period.
func (f *fit) cut(busy []trace.Recorded) {
	from := busy[0].Sent.Seconds()
	slices.SortStableFunc(busy, func(a, b trace.Recorded) int { return cmp.Compare(a.First, b.First) })
	p := prefill{from: from, fresh: true}
	last := -1.0
	for i := range busy {
		q := &busy[i]
		first, tokens := q.First.Seconds(), float64(max(q.Prompt-q.Cached, 1))
		if len(p.groups) > 0 && first-last < sameMoment {
			p.groups[len(p.groups)-1] += tokens
		} else {
			if p.tokens >= fitCut {
				p = f.close(p, last)
			}
			p.groups = append(p.groups, tokens)
		}
		p.tokens += tokens
		last = first
	}
	f.close(p, last)
}

// close ends a prefill and begins the next.
func (f *fit) close(p prefill, at float64) prefill {
	if p.to = at; p.to > p.from {
		f.prefills = append(f.prefills, p)
	}
	return prefill{from: at}
}

// gather records which answers run when.
func (f *fit) gather() {
	f.running, f.ends = ramp{}, append(f.ends[:0], f.upto...)
	for i, first := range f.firsts {
		f.running.add(first, f.upto[i], f.upto[i]-first)
	}
	slices.Sort(f.ends)
	f.running.ready()
}

// meet counts the answers beside each prefill period.
func (f *fit) meet() {
	for i := range f.prefills {
		p := &f.prefills[i]
		p.beside, p.begun = f.running.between(p.from, p.to)/(p.to-p.from), f.active(p.from)
	}
}

// late is the factor over an answer's fitted duration above which its end is attributed to a slow client instead of the
// engine.
const late = 1.5

// company recounts concurrent answers without the time of those that ended much later than the fit explains.
func (f *fit) company() {
	for i := range f.answers {
		a := &f.answers[i]
		q := &f.requests[a.of]
		want := float64(a.steps*(f.base+float64(f.perSeq*a.beside))) + float64(a.prefilled*f.perToken)
		first := q.First.Seconds()
		f.upto[a.of] = q.End.Seconds()
		if a.took > float64(late*want) {
			f.upto[a.of] = first + want
		}
	}
	f.gather()
	f.meet()
	for i := range f.answers {
		a := &f.answers[i]
		first, end := f.firsts[a.of], f.upto[a.of]
		if end > first {
			a.beside = max(f.running.between(first, end)/(end-first), 1)
		}
	}
}

// answer is an answer's time from its first token to its last.
type answer struct {
	of          int // index in fit.requests
	steps, took float64
	beside      float64 // mean number of running answers meanwhile, including itself
	prefilled   float64 // prompt tokens computed meanwhile
}

// windows finds the answers that can be used for the fit of steps.
func (f *fit) windows() {
	for i := range f.requests {
		q := &f.requests[i]
		first, end := q.First.Seconds(), q.End.Seconds()
		if !q.Known || !q.Whole || q.Output < 3 || end <= first {
			continue
		}
		f.answers = append(f.answers, answer{
			of: i, steps: float64(q.Output - 1), took: end - first,
			beside: max(f.running.between(first, end)/(end-first), 1), prefilled: f.prefilled.between(first, end),
		})
	}
}
