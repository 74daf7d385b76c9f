package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Keeping prompts in line is right only where an engine computes one after the other. One that only pretends to compute, or an address that
// many engines are behind, answers all of them at once, and would stand idle meanwhile. Nobody says which it is, but it shows: where
// prompts are computed in turn, a token of another one takes as long as a token of one's own, and where all are computed at once it takes no time. How
// long one's own take is known from prompts that came alone. Of the others it could not be told: when an even stream of them takes two
// seconds each, four at a time, they may as well take half a second in turn.
//
// Others are those in front and those that came soon after: llama-server computes the prompts of its lower slots first, or several in a
// batch, so that what comes last may be done first. What comes soon is told by how long a prompt is expected to take, not by how long it
// took: those that take long by chance have more company, wherever they are computed.

// serial is what is learnt of that: sums of least-squares lines through the origin, older prompts weighing less.
type serial struct {
	oo, oy float64 // of prompts that came alone: own², and own × what it took in ms
	nn, ny float64 // the same of all that had none in front, which is as good where prompts are computed in order of arrival
	// Of those with others, products of what was in front, what came soon, own, and what it took.
	ff, fs, ss, of, os, fy, sy float64
}

const (
	keepSerial  = 0.95 // share of its sums that is kept with each prompt
	leastOthers = 1024 // tokens: others² that it takes to tell
	fewOthers   = 16   // a prompt with so many times less of others than it is long has none
	serialShare = 0.4  // of the time for a token of its own, what one in front and one that came soon take together at least where prompts are computed in turn
	ridge       = 0.01 // of what there is of others, added to each kind: there may be only one kind
	ringCame    = 64   // prompts that may come soon after one and count
)

// came is when prompts were put into the queue, the latest ones.
type came struct {
	at   [ringCame]time.Time
	end  [ringCame]int64 // where each ends in the queue, see wholes
	next int
}

// note enters one.
func (c *came) note(now time.Time, end int64) {
	c.at[c.next], c.end[c.next] = now, end
	c.next = (c.next + 1) % ringCame
}

// by is where the queue ended at a time; false for one before all that are known.
func (c *came) by(t time.Time) (end int64, ok bool) {
	for i, at := range &c.at {
		if !at.After(t) {
			end, ok = max(end, c.end[i]), true
		}
	}
	return end, ok
}

// learnSerial takes in how long a prompt took from when the engine got it. One that may have waited for a place tells nothing, nor does one
// that is computed elsewhere.
func (s *speed) learnSerial(f *flight, own, fixed float64) {
	y := ms(f.first.Sub(f.sent)) - fixed
	if f.held || f.leg == fleet.LegDecode || y <= 0 {
		return
	}
	half := time.Duration(float64(float64(f.prefill)*f.msPerToken) / 2 * 1e6)
	end, ok := s.came.by(f.sent.Add(half))
	if !ok {
		return
	}
	soon := max(0, float64(end-f.end))
	a, others := &s.serial, f.front+soon
	weight := bounded(own + others)
	sum := func(have *float64, x float64) { *have = float64(*have*keepSerial) + float64(weight*x) }
	if float64(fewOthers*f.front) <= own {
		sum(&a.nn, float64(own*own))
		sum(&a.ny, float64(own*y))
	}
	if float64(fewOthers*others) <= own {
		sum(&a.oo, float64(own*own))
		sum(&a.oy, float64(own*y))
		return
	}
	sum(&a.ff, float64(f.front*f.front))
	sum(&a.fs, float64(f.front*soon))
	sum(&a.ss, float64(soon*soon))
	sum(&a.of, float64(own*f.front))
	sum(&a.os, float64(own*soon))
	sum(&a.fy, float64(f.front*y))
	sum(&a.sy, float64(soon*y))
}

// inTurn reports whether the endpoint is known to compute one prompt after the other: by the plane through what prompts took beyond their own
// time over what was in front of them and what came soon.
func (s *speed) inTurn() bool {
	a := &s.serial
	if a.nn == 0 || a.ff+a.ss < leastOthers*leastOthers {
		return false
	}
	each := a.ny / a.nn
	if a.oo > 0 {
		each = min(each, a.oy/a.oo)
	}
	fy, sy := a.fy-float64(each*a.of), a.sy-float64(each*a.os)
	little := float64(ridge * (a.ff + a.ss))
	ff, ss := a.ff+little, a.ss+little
	det := float64(ff*ss) - float64(a.fs*a.fs)
	front := (float64(fy*ss) - float64(sy*a.fs)) / det
	soon := (float64(sy*ff) - float64(fy*a.fs)) / det
	return front+soon >= float64(serialShare*each)
}
