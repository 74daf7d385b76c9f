package trace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/sim/chance"
)

// Plan is the start times of a replay.
type Plan struct {
	Load     float64         // share of the fleet's capacity taken by the work left with an unlimited cache
	Stretch  float64         // factor on recorded times (open loop)
	Gap      time.Duration   // mean time between starts of sessions (closed loop, not timed)
	Begin    float64         // factor on recorded starts of sessions (timed)
	Demand   Demand          // of the trace
	Arrivals []time.Duration // of each turn (open loop) or session (closed loop; those with a parent start by it)
}

// Plan sets the arrivals for a fleet with this capacity, in turns of that demand per second with an unlimited cache. A
// load above 0 sets the rate to that share of the capacity; load 0 uses the recorded times divided by speed. In a
// closed loop sessions arrive at random (Poisson) at the rate of the load, and speed divides the times between their
// turns; a Timed trace uses the recorded starts of sessions, scaled by load or speed.
func (t *Trace) Plan(d Demand, capacity, load, speed float64, seed uint64) (Plan, error) {
	switch {
	case len(t.Turns) == 0:
		return Plan{}, errors.New("the trace has no turn")
	case !(load >= 0) || load > 100:
		return Plan{}, fmt.Errorf("load must be above 0 and at most 100, got %v", load)
	case !(speed >= 0) || math.IsInf(speed, 0):
		return Plan{}, fmt.Errorf("speed must be above 0, got %v", speed)
	case t.Closed && load == 0 && !t.Timed:
		return Plan{}, errors.New("sessions of this trace have no common clock: how often they begin is set by load")
	}
	p := Plan{Load: load, Stretch: 1, Demand: d}
	rng := rand.New(rand.NewPCG(seed, 0x6172726976616c))
	if t.Timed {
		err := t.timed(&p, load, speed, capacity)
		return p, err
	}
	if t.Closed {
		if speed > 0 {
			p.Stretch = 1 / speed
		}
		window := float64(len(t.Turns)) / (load * capacity)
		p.Arrivals, p.Gap = t.beginnings(window, rng)
		return p, nil
	}
	last := t.Turns[len(t.Turns)-1].At.Seconds()
	span := last + last/float64(max(len(t.Turns)-1, 1)) // including one more interval
	recorded := float64(len(t.Turns)) / max(span, 1e-9) / capacity
	switch {
	case load > 0 && last > 0:
		p.Stretch = recorded / load
	case load > 0:
		return p, errors.New("all requests of the trace have the same time; its load cannot be scaled, use speed")
	default:
		if speed > 0 {
			p.Stretch = 1 / speed
		}
		p.Load = recorded / p.Stretch
	}
	p.Arrivals = t.smeared(rng)
	for i := range p.Arrivals {
		p.Arrivals[i] = stretched(p.Arrivals[i], p.Stretch)
	}
	return p, nil
}

// timed plans sessions with recorded starts.
func (t *Trace) timed(p *Plan, load, speed, capacity float64) error {
	if speed > 0 {
		p.Stretch = 1 / speed
	}
	var last time.Duration
	for i := range t.Turns {
		last = max(last, t.Sessions[t.Turns[i].Session].begins+t.Turns[i].At)
	}
	span := last.Seconds() + last.Seconds()/float64(max(len(t.Turns)-1, 1)) // including one more interval
	recorded := float64(len(t.Turns)) / max(span, 1e-9) / capacity
	p.Begin = p.Stretch
	switch {
	case load > 0 && last == 0:
		return errors.New("all requests of the trace have the same time; its load cannot be scaled, use speed")
	case load > 0:
		p.Begin = recorded / load
	default:
		p.Load = recorded / p.Begin
	}
	p.Arrivals = make([]time.Duration, len(t.Sessions))
	for i := range t.Sessions {
		p.Arrivals[i] = stretched(t.Sessions[i].begins, p.Begin)
	}
	return nil
}

func stretched(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// burstShare is the share of time taken by bursts, and burstsInAll their number.
const (
	burstShare  = 0.2
	burstsInAll = 10
)

// beginnings draws the starts of sessions without a parent: in random order, at random times, over about this many
// seconds.
func (t *Trace) beginnings(window float64, rng *rand.Rand) ([]time.Duration, time.Duration) {
	var roots []int
	for i := range t.Sessions {
		if t.Sessions[i].Parent < 0 {
			roots = append(roots, i)
		}
	}
	out := make([]time.Duration, len(t.Sessions))
	mean := window / float64(len(roots))
	at := 0.0
	for _, i := range rng.Perm(len(roots)) {
		if share := t.Sessions[roots[i]].together; share >= 0 {
			out[roots[i]] = time.Duration(float64(window*share) * 1e9)
			continue
		}
		at += float64(mean * chance.Exponential(rng))
		out[roots[i]] = time.Duration(t.gathered(at/window) * window * 1e9)
	}
	return out, time.Duration(mean * 1e9)
}

// gathered moves a start time, as a share of the window, so that in a fifth of each tenth sessions start burst times as
// often as in the rest.
func (t *Trace) gathered(at float64) float64 {
	if t.burst <= 1 {
		return at
	}
	whole, part := math.Modf(float64(at * burstsInAll))
	inside := float64(burstShare * t.burst)
	inside /= float64(inside + (1 - burstShare)) // share of sessions that begin in a burst
	if part < inside {
		part = float64(part/inside) * burstShare
	} else {
		part = burstShare + float64(float64(part-inside)/(1-inside)*(1-burstShare))
	}
	return (whole + part) / burstsInAll
}

// smeared is the recorded times. If the clock is so coarse that at least two requests share a time on average, each
// request gets a random time before the next tick.
func (t *Trace) smeared(rng *rand.Rand) []time.Duration {
	out := make([]time.Duration, len(t.Turns))
	moments := 1
	for i := range t.Turns {
		out[i] = t.Turns[i].At
		if i > 0 && out[i] != out[i-1] {
			moments++
		}
	}
	if len(out) < 2*moments || moments < 2 {
		return out
	}
	tick := out[len(out)-1] / time.Duration(moments-1)
	for from := 0; from < len(out); {
		to := from
		for to < len(out) && out[to] == out[from] {
			to++
		}
		until := out[from] + tick
		if to < len(out) {
			until = out[to]
		}
		for i := to - 1; i >= from; i-- {
			out[i] += time.Duration(rng.Int64N(int64(until - out[from])))
		}
		slices.Sort(out[from:to])
		from = to
	}
	return out
}
