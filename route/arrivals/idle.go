package arrivals

import (
	"math/bits"
	"time"

	"github.com/warmpath/warmpath/pick"
)

const (
	tick         = 250 * time.Millisecond // in which Idles are counted
	mostIdle     = 1 << 15                // ticks, 2.3 hours; nobody is waited for beyond
	longIdle     = 1 << 10                // ticks, 4 minutes; who has idled for longer is waited for so little that his age need not be known well
	ages         = 30                     // lengths of rest that are told apart, see ageOf
	returnsKept  = 512                    // conversations that tell of a length of rest, before the earlier ones count half
	likelyReturn = 0.1                    // share of those that have just come to rest which is thought to come back within a tick, while nothing is known
	assumedIdles = 4                      // conversations that what is assumed of a length of rest counts for
	leastLeft    = 1e-9                   // share that is thought to rest for any time at least
)

// ageOf is the length of rest that so many ticks are: 0, 1, 2, 3, 4 and 5, 6 and 7, 8 to 11, two to each power of two.
func ageOf(ticks uint32) int {
	if ticks < 2 {
		return int(ticks)
	}
	octave := bits.Len32(ticks) - 1
	return 2*octave + int(ticks>>(octave-1)&1)
}

// spanOf is the first tick of a length of rest, and how many it has.
func spanOf(age int) (from, width uint32) {
	if age < 2 {
		return uint32(age), 1
	}
	width = 1 << (age/2 - 1)
	return (2 + uint32(age&1)) * width, width
}

// Returns is what share of those who have idled for so long comes back before they have idled for longer than that.
type Returns struct {
	back, passed [ages]float64  // who came back then, and who did not
	lines        [ages + 1]line // the share of all that still Idles, within each age
	at           uint32         // tick for which they are
}

// line is a share that falls with each tick.
type line struct{ share, perTick float64 }

func (s *Returns) count(age int, back, passed float64) {
	s.back[age] += back
	s.passed[age] += passed
	if s.back[age]+s.passed[age] > returnsKept {
		s.back[age] /= 2
		s.passed[age] /= 2
	}
}

// learn reckons with what has been counted, at most once a tick. A length of rest that little is known of is like the one before.
func (s *Returns) learn(now uint32) {
	if s.at == now {
		return
	}
	s.at = now
	left, share := 1.0, likelyReturn
	for k := range ages {
		share = (s.back[k] + float64(assumedIdles*share)) / (s.back[k] + s.passed[k] + assumedIdles)
		from, width := spanOf(k)
		perTick := float64(left*share) / float64(width)
		s.lines[k] = line{left + float64(perTick*float64(from)), perTick}
		left -= float64(left * share)
	}
	s.lines[ages] = line{share: left}
}

// idle is the share that still Idles after so many ticks. Within a length of rest it falls along a line.
func (s *Returns) idle(ticks float64) float64 {
	l := &s.lines[ageOf(uint32(min(ticks, mostIdle)))]
	return l.share - float64(l.perTick*ticks)
}

// Idles counts the conversations that rest at an endpoint.
type Idles struct {
	spans  []span // oldest first; their number is bounded, see advance
	at     uint32 // tick of the latest advance
	active int    // turns of conversations that are outstanding
}

// span is how many came to rest in the ticks from and before to.
type span struct {
	from, to, n uint32
	age         int     // the length of rest that has been counted for them
	idled       float64 // ticks, on average, at the latest advance
	each        float64 // 1 / the share of all that rest for so long
}

// Add has a conversation be idle from now on.
func (r *Idles) Add(now uint32, s *Returns) {
	r.advance(now, s)
	if n := len(r.spans); n > 0 && r.spans[n-1].to > now {
		r.spans[n-1].n++
		return
	}
	r.spans = append(r.spans, span{from: now, to: now + 1, n: 1, each: 1})
}

// Leave takes out one that idled from since on. It is counted as having come back unless it only Idles anew.
func (r *Idles) Leave(now, since uint32, back bool, s *Returns) {
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
		age := max(p.age, ageOf(now-since))
		for k := p.age; k < min(age, ages); k++ { // what is counted of its span goes by the last that came
			s.count(k, 0, 1)
		}
		if age < ages {
			s.count(age, 1, 0)
		}
		return
	}
}

// advance lets time pass. Who has idled for longer than an age has not come back in it; spans that lie together are made one as they
// age, so that an age has eight at most, and two beyond longIdle; and who has idled for too long is forgotten.
func (r *Idles) advance(now uint32, s *Returns) {
	if now == r.at {
		return
	}
	r.at = now
	s.learn(now)
	kept := r.spans[:0]
	for _, p := range r.spans {
		for p.age < ages && ageOf(now+1-p.to) > p.age {
			s.count(p.age, 0, float64(p.n))
			p.age++
		}
		if p.age >= ages || p.n == 0 {
			continue
		}
		from, width := spanOf(p.age)
		if from < longIdle {
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
		p.idled = max(0, float64(now)-float64(p.from)/2-float64(p.to-1)/2) // on average
		p.each = 1 / max(s.idle(p.idled), leastLeft)
	}
	r.spans = kept
}

// expected is how many conversations are expected back in the next few ticks after the latest advance. Those that are being answered count
// as just come to rest. One that has idled since own on is left out; 0 is none.
func (r *Idles) expected(own uint32, ticks float64, s *Returns) float64 {
	sum := float64(float64(r.active) * (1 - s.idle(ticks)))
	for i := range r.spans {
		p := &r.spans[i]
		n := float64(p.n)
		if p.from <= own && own < p.to {
			n = max(0, n-1)
		}
		sum += float64(n * (1 - float64(s.idle(p.idled+ticks)*p.each)))
	}
	return sum
}

// PerMs is how many conversations a millisecond come back to a candidate while the request's prompt waits and is computed there. Its own
// is no longer to come.
func (r *Idles) PerMs(now, own uint32, v *pick.View, c *pick.Candidate, s *Returns) float64 {
	r.advance(now, s)
	takes := max(1, c.WaitMs+float64(float64(v.PromptTokens-c.CachedTokens)*c.MsPerToken))
	return max(0, r.expected(own, takes/Ms(tick), s)) / takes
}

// Clock counts ticks since it was first asked, from 1. It stands still when the clock steps back.
type Clock struct {
	began  time.Time
	latest uint32
}

// Tick is the tick of a time. It stands still when the clock steps back.
func (c *Clock) Tick(now time.Time) uint32 {
	if c.began.IsZero() {
		c.began = now
	}
	c.latest = max(c.latest, 1+uint32(max(0, now.Sub(c.began))/tick))
	return c.latest
}
