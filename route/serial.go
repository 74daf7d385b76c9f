package route

import (
	"time"

	"github.com/warmpath/warmpath/fit"
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
	alone fit.Ratio // of prompts that came alone: ms over their own tokens
	first fit.Ratio // the same of all that had none in front, which is as good where prompts are computed in order of arrival

	others      fit.Plane // of those with others: ms over the tokens in front and those that came soon
	front, soon fit.Sum   // own tokens × those in front, and × those that came soon
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
	if float64(fewOthers*f.front) <= own {
		a.first.Add(keepSerial, weight, own, y)
	}
	if float64(fewOthers*others) <= own {
		a.alone.Add(keepSerial, weight, own, y)
		return
	}
	a.others.Add(keepSerial, weight, f.front, soon, y)
	a.front.Add(keepSerial, weight, float64(own*f.front))
	a.soon.Add(keepSerial, weight, float64(own*soon))
}

// inTurn reports whether the endpoint is known to compute one prompt after the other: by the plane through what prompts took beyond their own
// time over what was in front of them and what came soon.
func (s *speed) inTurn() bool {
	a := &s.serial
	if a.first.XX == 0 || a.others.AA+a.others.BB < leastOthers*leastOthers {
		return false
	}
	each := a.first.Slope()
	if a.alone.XX > 0 {
		each = min(each, a.alone.Slope())
	}
	beyond := a.others // what prompts took beyond their own time
	beyond.AY -= fit.Sum(each * float64(a.front))
	beyond.BY -= fit.Sum(each * float64(a.soon))
	little := fit.Sum(ridge * (beyond.AA + beyond.BB))
	beyond.AA += little
	beyond.BB += little
	front, soon := beyond.Slopes()
	return front+soon >= float64(serialShare*each)
}
