package route

import "time"

// Keeping prompts in line is right only where an engine computes one after the other. One that only pretends to compute, or an address that
// many engines are behind, answers all of them at once, and would stand idle meanwhile. Nobody says which it is, but it shows: where
// prompts are computed in turn, a token of another one takes about half as long as a token of one's own, as it may go before or after; where all
// are computed at once it takes no time. How long one's own take is known from prompts that came alone. Of the others it could not be told:
// when an even stream of them takes two seconds each, four at a time, they may as well take half a second in turn.
//
// Others are those in front and those that came soon after: llama-server computes the prompts of its lower slots first, or several in a
// batch, so that what comes last may be done first. What comes soon is told by how long a prompt is expected to take, not by how long it
// took: those that take long by chance have more company, wherever they are computed.

// serial is what is learnt of that: sums of least-squares lines through the origin, older prompts weighing less.
type serial struct {
	alone  bool    // some came alone
	oo, oy float64 // of these: own², and own × what it took in ms. Until one comes, of those that had none in front
	cc, oc float64 // of those with others: others², own × others
	cy     float64 // and others × what it took
}

const (
	keepSerial  = 0.95 // share of its sums that is kept with each prompt
	leastOthers = 1024 // tokens: others² that it takes to tell
	fewOthers   = 16   // a prompt with so many times less of others than it is long has none
	serialShare = 0.25 // of the time for a token of its own, what one of others takes at least where prompts are computed in turn
	ringCame    = 16   // prompts that may come soon after one and count
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

// by is where the queue ended at a time.
func (c *came) by(t time.Time) (end int64) {
	for i, at := range &c.at {
		if !at.After(t) {
			end = max(end, c.end[i])
		}
	}
	return end
}

// learnSerial takes in how long a prompt took from when the engine got it. One that may have waited for a place tells nothing, nor does one
// that is computed elsewhere.
func (s *speed) learnSerial(f *flight, own, fixed float64) {
	y := ms(f.first.Sub(f.sent)) - fixed
	if f.held || f.leg == LegDecode || y <= 0 {
		return
	}
	half := time.Duration(float64(float64(f.prefill)*f.msPerToken) / 2 * 1e6)
	soon := max(0, float64(s.came.by(f.sent.Add(half))-f.end))
	a, others := &s.serial, f.front+soon
	weight := bounded(own + others)
	sum := func(have *float64, x float64) { *have = float64(*have*keepSerial) + float64(weight*x) }
	if alone := float64(fewOthers*others) <= own; alone || !a.alone && float64(fewOthers*f.front) <= own {
		if alone && !a.alone {
			a.alone, a.oo, a.oy = true, 0, 0
		}
		sum(&a.oo, float64(own*own))
		sum(&a.oy, float64(own*y))
	}
	if float64(fewOthers*others) > own {
		sum(&a.cc, float64(others*others))
		sum(&a.oc, float64(own*others))
		sum(&a.cy, float64(others*y))
	}
}

// inTurn reports whether the endpoint is known to compute one prompt after the other.
func (s *speed) inTurn() bool {
	a := &s.serial
	if a.oo == 0 || a.cc < leastOthers*leastOthers {
		return false
	}
	each := a.oy / a.oo
	return a.cy-float64(each*a.oc) >= float64(float64(serialShare*each)*a.cc)
}
