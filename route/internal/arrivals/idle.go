package arrivals

import (
	"math"
	"math/bits"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// Tick is the unit of idle time.
const Tick = 250 * time.Millisecond

const (
	// ticks, 4 minutes; beyond, returns are so rare that idle times need little precision
	longIdle    = 1 << 10
	ages        = 30  // number of age buckets, see ageOf; after them, 2.3 hours, a conversation is forgotten
	returnsKept = 512 // samples of a bucket after which its counts are halved
	// ticks, 4 seconds, for which a conversation that was idle for twice as many counts with a constant rate of return
	fewTicks     = 16
	likelyReturn = 0.1 // assumed share of conversations that return within their first tick
	worthIt      = 0.5 // least net saving of WorthKeeping, as a share of the turns
	// the same where caches were kept so far: to begin and to end all the time costs more than either
	stillWorthIt = 0.4
)

// ageOf is the age bucket of an idle time: 0, 1, 2, 3, 4 and 5, 6 and 7, 8 to 11, two per power of two; ages after the
// last.
func ageOf(ticks uint32) int {
	if ticks < 2 {
		return int(ticks)
	}
	octave := bits.Len32(ticks) - 1
	return min(2*octave+int(ticks>>(octave-1)&1), ages)
}

// spanOf is the first tick of an age bucket, and its number of ticks.
func spanOf(age int) (from, width uint32) {
	if age < 2 {
		return uint32(age), 1
	}
	width = 1 << (age/2 - 1)
	return (2 + uint32(age&1)) * width, width
}

// firstTick is the first tick of each age, and of what is older than all.
var firstTick = func() (first [ages + 1]float64) {
	for age := range first {
		from, _ := spanOf(age)
		first[age] = float64(from)
	}
	return first
}()

// Returns is the learnt hazard rate: the share of the conversations that reach an age bucket and return within it.
type Returns struct {
	back, passed [ages]float64        // conversations that returned within the bucket, and that stayed idle beyond it
	lines        [ages + 1]returnLine // survival curve: the share still idle, per bucket
	at           uint32               // tick of lines
}

// returnLine is a share that falls linearly with each tick.
type returnLine struct{ share, perTick float64 }

func (l *returnLine) at(ticks float64) float64 { return l.share - float64(l.perTick*ticks) }

func (s *Returns) count(age int, back, passed float64) {
	s.back[age] += back
	s.passed[age] += passed
	if s.back[age]+s.passed[age] > returnsKept {
		s.back[age] /= 2
		s.passed[age] /= 2
	}
}

// learn recomputes the survival curve from the counts, at most once per tick. Sparse buckets inherit the previous
// bucket's hazard rate.
func (s *Returns) learn(now uint32) {
	if s.at == now {
		return
	}
	s.at = now
	left, share := 1.0, likelyReturn
	for k := range ages {
		share = (s.back[k] + float64(fit.Enough*share)) / (s.back[k] + s.passed[k] + fit.Enough)
		from, width := spanOf(k)
		perTick := float64(left*share) / float64(width)
		s.lines[k] = returnLine{left + float64(perTick*float64(from)), perTick}
		left -= float64(left * share)
	}
	s.lines[ages] = returnLine{share: left}
}

// idle is the share still idle after this many ticks, interpolated linearly within a bucket.
func (s *Returns) idle(ticks float64) float64 {
	return s.lines[ageOf(uint32(min(ticks, math.MaxUint32)))].at(ticks)
}

// Idles holds the idle conversations of an endpoint.
type Idles struct {
	spans   []span  // oldest first; Advance bounds their number
	at      uint32  // tick of the last Advance
	steady  int     // number of oldest spans with a constant rate of return for the next few ticks
	perTick float64 // sum of these rates, in returns per tick
	active  int     // running turns
}

// span is n conversations that became idle in the ticks [from, to).
type span struct {
	from, to, n uint32
	age         int     // bucket up to which they were counted
	idled       float64 // mean idle ticks at the last Advance
	each        float64 // 1 / survival at idled
	perTick     float64 // rate of return per tick of a conversation that is still idle
}

// Add adds a conversation that becomes idle now.
func (r *Idles) Add(now uint32, s *Returns) {
	r.Advance(now, s)
	if n := len(r.spans); n > 0 && r.spans[n-1].to > now {
		r.spans[n-1].n++
		return
	}
	r.spans = append(r.spans, span{from: now, to: now + 1, n: 1, each: 1})
}

// Return removes a conversation idle since a tick that has come back.
func (r *Idles) Return(now, since uint32, s *Returns) {
	p := r.Drop(now, since, s)
	if p == nil {
		return
	}
	age := max(p.age, ageOf(now-since))
	for k := p.age; k < min(age, ages); k++ { // the span was counted by its latest conversation
		s.count(k, 0, 1)
	}
	if age < ages {
		s.count(age, 1, 0)
	}
}

// Drop removes a conversation idle since a tick from its span, nil if it is forgotten. It does not count as a return.
func (r *Idles) Drop(now, since uint32, s *Returns) *span {
	r.Advance(now, s)
	for i := len(r.spans) - 1; i >= 0 && r.spans[i].to > since; i-- {
		p := &r.spans[i]
		if p.from > since || p.n == 0 {
			continue
		}
		p.n--
		if i < r.steady {
			r.perTick -= p.perTick
		}
		return p
	}
	return nil
}

// Advance advances time. A conversation idle beyond a bucket counts as not returned in it. Neighbouring spans are
// merged as they age, so that a bucket has at most eight, and two beyond longIdle. Conversations idle for too long are
// forgotten.
func (r *Idles) Advance(now uint32, s *Returns) {
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
	r.spans, r.steady, r.perTick = kept, 0, 0
	for i := range kept {
		p := &kept[i]
		p.idled, p.each = p.idledAt(now, s)
		p.perTick = float64(s.lines[ageOf(uint32(min(p.idled, math.MaxUint32)))].perTick * p.each)
		if r.steady == i && p.idled >= 2*fewTicks && p.perTick <= 1.0/fewTicks {
			r.steady++
			r.perTick += float64(float64(p.n) * p.perTick)
		}
	}
}

// idledAt is a span's mean idle time, and 1 / the share still idle after it.
func (p *span) idledAt(now uint32, s *Returns) (idled, each float64) {
	idled = max(0, float64(now)-float64(p.from)/2-float64(p.to-1)/2)
	return idled, 1 / max(s.idle(idled), fit.Least)
}

// expected is the number of conversations expected back within this many ticks from now. Running turns count as idle
// from now on. One that has been idle since own is left out; own 0 is none.
func (r *Idles) expected(now, own uint32, ticks float64, s *Returns) float64 {
	sum, from := float64(float64(r.active)*(1-s.idle(ticks))), 0
	if now == r.at && ticks <= fewTicks { // spans idle for long are summed up, not visited one by one
		from = r.steady
		sum += float64(r.perTick * ticks)
		for i := 0; own != 0 && i < from; i++ {
			if p := &r.spans[i]; p.from <= own && own < p.to && p.n > 0 {
				sum -= float64(p.perTick * ticks)
				break
			}
		}
	}
	spans := r.spans[from:]
	if len(spans) == 0 {
		return sum
	}
	// The age that a span will have after these ticks. Each span has been idle for less than those before it, so the
	// search goes on from theirs.
	age := ages
	if now == r.at {
		age = ageOf(uint32(min(spans[0].idled+ticks, math.MaxUint32)))
	}
	line, first := &s.lines[age], firstTick[age]
	for i := range spans {
		p := &spans[i]
		n, idled, each := p.n, p.idled, p.each
		if now != r.at {
			idled, each = p.idledAt(now, s)
		}
		if own != 0 && p.from <= own && own < p.to && n > 0 {
			n--
		}
		idled += ticks
		for idled < first {
			age--
			line, first = &s.lines[age], firstTick[age]
		}
		sum += float64(float64(n) * (1 - float64(line.at(idled)*each)))
	}
	return sum
}

// PerMs is the expected rate of returns while a request waits and is computed, without its own conversation.
func (r *Idles) PerMs(now, own uint32, takesMs float64, s *Returns) float64 {
	takes := max(1, takesMs)
	return max(0, r.expected(now, own, takes/fleet.Ms(Tick), s)) / takes
}

// Clock counts ticks from 1, starting with the first call of Tick. It never goes back.
type Clock struct {
	began  time.Time
	seen   time.Time // of the latest Tick
	latest uint32
}

// Tick is the tick of a time, at least the latest one.
func (c *Clock) Tick(now time.Time) uint32 {
	if c.began.IsZero() {
		c.began = now
	}
	c.latest, c.seen = c.At(now), now
	return c.latest
}

// At returns what Tick would, and changes nothing.
func (c *Clock) At(now time.Time) uint32 {
	switch {
	case c.began.IsZero():
		return 1
	case now == c.seen: // the usual case: one event has many questions
		return c.latest
	}
	return max(c.latest, 1+uint32(max(0, now.Sub(c.began))/Tick))
}

// seen is the share of the conversations that reach an age bucket and return within it. Returns that were not seen are
// not counted on: a bucket of few samples has a lower rate.
func (s *Returns) seen(age int) float64 {
	return s.back[age] / (s.back[age] + s.passed[age] + fit.Enough)
}

// WorthKeeping is how long an idle conversation's KV cache is worth keeping where computing a whole cacheful takes
// whole ms: the idle time t with the most of P(back by t) - E[idle time up to t] / whole. A return saves computing what
// was kept; keeping it costs, at most, what else as much cache could have saved meanwhile: a cacheful in whole. 0 means
// that keeping costs more than it saves, or that fewer than half of the turns would save anything net; where caches
// have been kept for some time (soFar), fewer than stillWorthIt.
func (r Reader) WorthKeeping(whole float64, soFar time.Duration) time.Duration {
	s := &r.t.returns
	if whole <= 0 {
		return 0
	}
	left, area, best, until := 1.0, 0.0, 0.0, uint32(0)
	for k := range ages {
		from, width := spanOf(k)
		end := left * (1 - s.seen(k))
		area += float64((left + end) / 2 * float64(width))
		if net := 1 - end - float64(area*fleet.Ms(Tick))/whole; net > best {
			best, until = net, from+width
		}
		left = end
	}
	if best < worthIt && (soFar == 0 || best < stillWorthIt) {
		return 0
	}
	return time.Duration(until) * Tick
}

// Back is the share of the conversations idle for some time that come back before they have been idle for another,
// counted as in WorthKeeping. Within an age bucket all count as at its beginning.
func (r Reader) Back(idle, within time.Duration) float64 {
	left, until := 1.0, uint32(within/Tick)
	for k := ageOf(uint32(min(max(0, idle)/Tick, math.MaxUint32))); k < ages; k++ {
		if from, _ := spanOf(k); from >= until {
			break
		}
		left *= 1 - r.t.returns.seen(k)
	}
	return 1 - left
}
