package route

import (
	"math/bits"
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/session"
)

// Most turns that come to an endpoint soon are those of the conversations that are at home there. How many come while a prompt is computed depends on
// how long each has rested since its last answer: an agent that waits for a tool is back in seconds, and one whose user went home is not. What
// share of conversations comes back after each length of rest is learnt, of all together, and of each endpoint is counted how many have rested
// there for how long.

const (
	restTick     = 250 * time.Millisecond // in which rests are counted
	mostRest     = 1 << 15                // ticks, 2.3 hours; nobody is waited for beyond
	longRest     = 1 << 10                // ticks, 4 minutes; who has rested for longer is waited for so little that his age need not be known well
	restAges     = 30                     // lengths of rest that are told apart, see restAge
	returnsKept  = 512                    // conversations that tell of a length of rest, before the earlier ones count half
	likelyReturn = 0.1                    // share of those that have just come to rest which is thought to come back within a tick, while nothing is known
	assumedRests = 4                      // conversations that what is assumed of a length of rest counts for
	leastLeft    = 1e-9                   // share that is thought to rest for any time at least
)

// restAge is the length of rest that so many ticks are: 0, 1, 2, 3, 4 and 5, 6 and 7, 8 to 11, two to each power of two.
func restAge(ticks uint32) int {
	if ticks < 2 {
		return int(ticks)
	}
	octave := bits.Len32(ticks) - 1
	return 2*octave + int(ticks>>(octave-1)&1)
}

// restSpan is the first tick of a length of rest, and how many it has.
func restSpan(age int) (from, width uint32) {
	if age < 2 {
		return uint32(age), 1
	}
	width = 1 << (age/2 - 1)
	return (2 + uint32(age&1)) * width, width
}

// returns is what share of those who have rested for so long comes back before they have rested for longer than that.
type returns struct {
	back, passed [restAges]float64      // who came back then, and who did not
	lines        [restAges + 1]restLine // the share of all that still rests, within each age
	at           uint32                 // tick for which they are
}

// restLine is a share that falls with each tick.
type restLine struct{ share, perTick float64 }

func (s *returns) count(age int, back, passed float64) {
	s.back[age] += back
	s.passed[age] += passed
	if s.back[age]+s.passed[age] > returnsKept {
		s.back[age] /= 2
		s.passed[age] /= 2
	}
}

// learn reckons with what has been counted, at most once a tick. A length of rest that little is known of is like the one before.
func (s *returns) learn(now uint32) {
	if s.at == now {
		return
	}
	s.at = now
	left, share := 1.0, likelyReturn
	for k := range restAges {
		share = (s.back[k] + float64(assumedRests*share)) / (s.back[k] + s.passed[k] + assumedRests)
		from, width := restSpan(k)
		perTick := float64(left*share) / float64(width)
		s.lines[k] = restLine{left + float64(perTick*float64(from)), perTick}
		left -= float64(left * share)
	}
	s.lines[restAges] = restLine{share: left}
}

// resting is the share that still rests after so many ticks. Within a length of rest it falls along a line.
func (s *returns) resting(ticks float64) float64 {
	l := &s.lines[restAge(uint32(min(ticks, mostRest)))]
	return l.share - float64(l.perTick*ticks)
}

// rests counts the conversations that rest at an endpoint.
type rests struct {
	spans []span // oldest first; their number is bounded, see advance
	at    uint32 // tick of the latest advance
	busy  int    // turns of conversations that are outstanding
}

// span is how many came to rest in the ticks from and before to.
type span struct {
	from, to, n uint32
	age         int     // the length of rest that has been counted for them
	rested      float64 // ticks, on average, at the latest advance
	each        float64 // 1 / the share of all that rest for so long
}

// add has a conversation rest from now on.
func (r *rests) add(now uint32, s *returns) {
	r.advance(now, s)
	if n := len(r.spans); n > 0 && r.spans[n-1].to > now {
		r.spans[n-1].n++
		return
	}
	r.spans = append(r.spans, span{from: now, to: now + 1, n: 1, each: 1})
}

// leave takes out one that rested from since on. It is counted as having come back unless it only rests anew.
func (r *rests) leave(now, since uint32, back bool, s *returns) {
	r.advance(now, s)
	for i := len(r.spans) - 1; i >= 0 && r.spans[i].to > since; i-- {
		p := &r.spans[i]
		if p.from > since || p.n == 0 {
			continue
		}
		p.n--
		if !back {
			return
		}
		age := max(p.age, restAge(now-since))
		for k := p.age; k < min(age, restAges); k++ { // what is counted of its span goes by the last that came
			s.count(k, 0, 1)
		}
		if age < restAges {
			s.count(age, 1, 0)
		}
		return
	}
}

// advance lets time pass. Who has rested for longer than an age has not come back in it; spans that lie together are made one as they
// age, so that an age has eight at most, and two beyond longRest; and who has rested for too long is forgotten.
func (r *rests) advance(now uint32, s *returns) {
	if now == r.at {
		return
	}
	r.at = now
	s.learn(now)
	kept := r.spans[:0]
	for _, p := range r.spans {
		for p.age < restAges && restAge(now+1-p.to) > p.age {
			s.count(p.age, 0, float64(p.n))
			p.age++
		}
		if p.age >= restAges || p.n == 0 {
			continue
		}
		from, width := restSpan(p.age)
		if from < longRest {
			width /= 4
		}
		if n := len(kept); n > 0 && kept[n-1].age == p.age && p.to-kept[n-1].from <= width {
			kept[n-1].to = p.to
			kept[n-1].n += p.n
			continue
		}
		kept = append(kept, p)
	}
	for i := range kept {
		p := &kept[i]
		p.rested = max(0, float64(now)-float64(p.from)/2-float64(p.to-1)/2) // on average
		p.each = 1 / max(s.resting(p.rested), leastLeft)
	}
	r.spans = kept
}

// expected is how many conversations are expected back in the next few ticks after the latest advance. Those that are being answered count
// as just come to rest. One that has rested since own on is left out; 0 is none.
func (r *rests) expected(own uint32, ticks float64, s *returns) float64 {
	sum := float64(float64(r.busy) * (1 - s.resting(ticks)))
	for i := range r.spans {
		p := &r.spans[i]
		n := float64(p.n)
		if p.from <= own && own < p.to {
			n = max(0, n-1)
		}
		sum += float64(n * (1 - float64(s.resting(p.rested+ticks)*p.each)))
	}
	return sum
}

// perMs is how many conversations a millisecond come back to a candidate while the request's prompt waits and is computed there. Its own
// is no longer to come.
func (r *rests) perMs(now, own uint32, v *pick.View, c *pick.Candidate, s *returns) float64 {
	r.advance(now, s)
	takes := max(1, c.WaitMs+float64(float64(v.PromptTokens-c.CachedTokens)*c.MsPerToken))
	return max(0, r.expected(own, takes/ms(restTick), s)) / takes
}

// ticking counts the ticks since it was first asked, from 1. It stands still when the clock steps back.
type ticking struct {
	began  time.Time
	latest uint32
}

func (c *ticking) tick(now time.Time) uint32 {
	if c.began.IsZero() {
		c.began = now
	}
	c.latest = max(c.latest, 1+uint32(max(0, now.Sub(c.began))/restTick))
	return c.latest
}

// findReturns fills in Candidate.ReturnsPerMs.
func (r *Router) findReturns(now time.Time, v *table, t *talk) {
	if !r.awaiting || len(v.Candidates) == 1 {
		return
	}
	at := r.ticking.tick(now)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		own := uint32(0)
		if t.entry.Endpoint == c.Name {
			own = t.entry.Rest
		}
		c.ReturnsPerMs = r.bySlot[c.Slot].rests.perMs(at, own, &v.View, c, &r.returns)
	}
}

// wakes notes that a conversation's turn goes to an endpoint. A turn that is tried again tells nothing of how long conversations rest.
func (r *Router) wakes(now time.Time, t *talk, f *flight, again bool) {
	r.unrest(now, &t.entry, !again)
	f.wakes = true
	f.ep.rests.busy++
}

// unrest takes a conversation out of those that rest.
func (r *Router) unrest(now time.Time, e *session.Entry, back bool) {
	if ep := r.byName[e.Endpoint]; ep != nil && e.Rest > 0 {
		ep.rests.leave(r.ticking.tick(now), e.Rest, back, &r.returns)
	}
	e.Rest = 0
}

// rested has the conversation of a turn that has ended rest.
func (r *Router) rested(now time.Time, f *flight, e *session.Entry) {
	r.unrest(now, e, false) // another turn of it has ended before
	e.Rest = r.ticking.tick(now)
	f.ep.rests.add(e.Rest, &r.returns)
}
