package speed

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/backlog"
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

// order is what is learnt of that: sums of least-squares lines through the origin, older prompts weighing less.
type order struct {
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
)

// learn takes in how long a prompt took from when the engine got it. One that may have waited for a place tells nothing, nor does one
// that is computed elsewhere.
func (a *order) learn(j *backlog.Job, own, fixed float64) {
	y := ms(j.First.Sub(j.Sent)) - fixed
	if j.Held || j.Leg == fleet.LegDecode || y <= 0 || !j.SoonKnown {
		return
	}
	others := j.Front + j.Soon
	weight := bounded(own + others)
	if float64(fewOthers*j.Front) <= own {
		a.first.Add(keepSerial, weight, own, y)
	}
	if float64(fewOthers*others) <= own {
		a.alone.Add(keepSerial, weight, own, y)
		return
	}
	a.others.Add(keepSerial, weight, j.Front, j.Soon, y)
	a.front.Add(keepSerial, weight, float64(own*j.Front))
	a.soon.Add(keepSerial, weight, float64(own*j.Soon))
}

// known reports whether the endpoint is known to compute one prompt after the other: by the plane through what prompts took beyond their own
// time over what was in front of them and what came soon.
func (a *order) known() bool {
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
