package arrivals

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// mostIdle is the tick after which conversations are forgotten: where the last age bucket ends.
const mostIdle = 1 << (ages / 2)

// TestRestAges: the age buckets cover all ticks without gaps.
func TestRestAges(t *testing.T) {
	next := uint32(0)
	for age := range ages {
		from, width := spanOf(age)
		if from != next || ageOf(from) != age || ageOf(from+width-1) != age {
			t.Fatalf("age %d has %d ticks from %d on, the one before ends at %d; the first is of age %d",
				age, width, from, next, ageOf(from))
		}
		next = from + width
	}
	if next != mostIdle {
		t.Errorf("they end at %d, not %d", next, mostIdle)
	}
}

// TestRests compares an endpoint's counts with a list of all its conversations that are not idle for too long. Each
// conversation teaches its own idle time, however spans are merged; and the number of spans is bounded.
func TestRests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Idles
		var s, want Returns
		since := []uint32{} // of the idle ones
		now := uint32(1)
		learn := func(idled uint32, back bool) {
			for k := range min(ageOf(idled), ages) {
				want.passed[k]++
			}
			if k := ageOf(idled); back && k < ages {
				want.back[k]++
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				now += uint32(rapid.SampledFrom([]int{0, 1, 2, 7, 40, 300, 5000}).Draw(t, "ticks"))
			case 1:
				r.Add(now, &s)
				since = append(since, now)
			default:
				if len(since) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(since)-1).Draw(t, "which")
				back := rapid.Bool().Draw(t, "back")
				if back {
					r.Return(now, since[i], &s)
				} else {
					r.Drop(now, since[i], &s)
				}
				if back || now-since[i] >= mostIdle {
					learn(now-since[i], back)
					since = append(since[:i], since[i+1:]...)
				} else { // idle anew, which teaches nothing: the counts of its span are left out of the comparison
					return
				}
			}
			r.Advance(now, &s)
			if len(r.spans) > 8*20+2*10 {
				t.Fatalf("%d spans", len(r.spans))
			}
			n, most := 0, 0
			for _, p := range r.spans {
				n += int(p.n)
			}
			for _, at := range since {
				if now-at < mostIdle+mostIdle/4 {
					most++
				}
			}
			least := 0
			for _, at := range since {
				if now-at < mostIdle {
					least++
				}
			}
			if n < least || n > most {
				t.Fatalf("%d rest, should be %d to %d", n, least, most)
			}
		}
		r.Advance(now+2*mostIdle, &s)
		for _, at := range since {
			learn(now+2*mostIdle-at, false)
		}
		if len(r.spans) != 0 || s.back != want.back || s.passed != want.passed {
			t.Fatalf("learnt %v and %v, should be %v and %v; left %v",
				s.back, s.passed, want.back, want.passed, r.spans)
		}
	})
}

// TestExpectedReturns: half of the conversations return evenly within 10 seconds, half never; as many are expected as
// return.
func TestExpectedReturns(t *testing.T) {
	var s Returns
	var r Idles
	const soon = 40 // ticks
	now, back := uint32(1), map[uint32][]uint32{}
	for i := range uint32(20_000) { // one becomes idle with each tick
		now++
		r.Add(now, &s)
		if i%2 == 0 {
			at := now + i/2*7%soon
			back[at] = append(back[at], now)
		}
		for _, since := range back[now] {
			r.Return(now, since, &s)
		}
	}
	r.Advance(now, &s)
	for _, c := range []struct{ idled, within, want float64 }{
		{0, 20, 0.25},
		{0, 40, 0.5},
		{0, 400, 0.5},
		{20, 20, 1. / 3},
		{20, 5, 1. / 12},
		{60, 100, 0},
	} {
		if got := 1 - s.idle(c.idled+c.within)/s.idle(c.idled); math.Abs(got-c.want) > 0.07 {
			t.Errorf("of those that have idled for %v ticks %.3f are thought to come back in %v more, should be %.3f",
				c.idled, got, c.within, c.want)
		}
	}
	var fresh Idles
	for range 10 {
		fresh.Add(now, &s)
	}
	fresh.active = 4
	fresh.Advance(now+1, &s)
	if got := fresh.expected(now+1, 0, soon, &s); math.Abs(got-7) > 1 {
		t.Errorf("of 14, half of which come back, %.2f are expected", got)
	}
	if a, b := fresh.expected(now+1, 0, soon, &s), fresh.expected(now+1, now, soon, &s); math.Abs(a-b-0.5) > 0.1 {
		t.Errorf("%.2f are expected, and %.2f without one of them", a, b)
	}
}

// TestSteadyReturns: the summed rate of conversations idle for long is nearly that of a computation span by span,
// whichever is left out.
func TestSteadyReturns(t *testing.T) {
	var s Returns
	var r Idles
	now, back := uint32(1), map[uint32][]uint32{}
	for i := range uint32(20_000) { // half return, after seconds or hours
		now++
		r.Add(now, &s)
		if i%2 == 0 {
			at := now + 1 + i*7919%(4<<(i/2%12))
			back[at] = append(back[at], now)
		}
		for _, since := range back[now] {
			r.Return(now, since, &s)
		}
		delete(back, now)
	}
	r.Advance(now, &s)
	if r.steady < len(r.spans)/2 {
		t.Fatalf("%d of %d spans are steady", r.steady, len(r.spans))
	}
	each := r
	each.steady = 0
	for _, own := range []uint32{0, now - 3, now - 50, now - 5000} {
		for _, ticks := range []float64{0.01, 0.5, 3, 8, fewTicks, 2 * fewTicks} {
			if got, want := r.expected(now, own, ticks, &s), func() float64 {
				each.perTick = 0
				return each.expected(now, own, ticks, &s)
			}(); math.Abs(got-want) > 0.03*want {
				t.Errorf("within %v ticks %.3f are expected without the one of %d, span by span %.3f",
					ticks, got, own, want)
			}
		}
	}
}

// TestNothingIsKnownOfReturns: before the first return a share of the conversations is expected back, less than all.
func TestNothingIsKnownOfReturns(t *testing.T) {
	var s Returns
	var r Idles
	r.Add(1, &s)
	r.Advance(2, &s)
	if got := r.expected(2, 0, 8, &s); got <= 0 || got >= 1 {
		t.Errorf("%v of one", got)
	}
	if got := r.expected(2, 0, 10*mostIdle, &s); got < 0.9 || got > 1 {
		t.Errorf("%v of one in a day", got)
	}
}

// TestTicksDoNotGoBack: ticks stand still when the clock goes back.
func TestTicksDoNotGoBack(t *testing.T) {
	var c Clock
	at := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		want  uint32
	}{{0, 1}, {Tick - 1, 1}, {Tick, 2}, {-time.Hour, 2}, {0, 2}, {10 * Tick, 11}} {
		if got := c.Tick(at.Add(step.after)); got != step.want {
			t.Errorf("%d: tick %d, want %d", i, got, step.want)
		}
	}
}

// BenchmarkReturns measures the forecast for one endpoint after hours of conversations becoming idle.
func BenchmarkReturns(b *testing.B) {
	var s Returns
	var r Idles
	now := uint32(1)
	for range 40_000 {
		now++
		r.Add(now, &s)
	}
	for b.Loop() {
		r.PerMs(now, 0, 800, &s)
	}
	b.ReportMetric(float64(len(r.spans)), "spans")
}

// TestWorthKeeping: caches are kept until hardly anyone comes back, if it saves half of the turns; where they are kept
// so far, until it saves less than stillWorthIt.
func TestWorthKeeping(t *testing.T) {
	returns := func(share float64) *Returns { // of those idle for two ticks, within the third
		s := &Returns{}
		for age := range 8 {
			s.count(age, 0, 500)
		}
		s.count(2, 500*share/(1-share), 0)
		return s
	}
	for _, c := range []struct {
		share       float64
		whole       float64 // ms
		new, before time.Duration
	}{
		{0.9, 1e6, 750 * time.Millisecond, 750 * time.Millisecond},
		{0.5, 1e6, 0, 750 * time.Millisecond},
		{0.3, 1e6, 0, 0},
		{0.9, 1000, 0, 0}, // to compute all anew takes no longer than to wait for their return
		{0.9, 0, 0, 0},
	} {
		r := Reader{&Table{returns: *returns(c.share)}}
		if got := r.WorthKeeping(c.whole, 0); got != c.new {
			t.Errorf("%v come back, all takes %v ms: worth keeping for %v, want %v", c.share, c.whole, got, c.new)
		}
		if got := r.WorthKeeping(c.whole, time.Minute); got != c.before {
			t.Errorf("%v come back, all takes %v ms, kept so far: worth keeping for %v, want %v",
				c.share, c.whole, got, c.before)
		}
	}
}

// TestBackBy: who has been idle for longer than the others come back within does not come back.
func TestBackBy(t *testing.T) {
	r := Reader{&Table{}}
	for age := range 8 {
		r.t.returns.count(age, 0, 400)
	}
	r.t.returns.count(2, 1600, 0)
	for _, c := range []struct {
		idle, within time.Duration
		least, most  float64
	}{
		{0, time.Hour, 0.7, 0.8},
		{600 * time.Millisecond, time.Hour, 0.7, 0.8},
		{750 * time.Millisecond, time.Hour, 0, 0},
		{0, 500 * time.Millisecond, 0, 0},
		{time.Hour, 2 * time.Hour, 0, 0},
		{-time.Second, time.Hour, 0.7, 0.8},
		{1e18, 2e18, 0, 0},
	} {
		if got := r.Back(c.idle, c.within); got < c.least || got > c.most {
			t.Errorf("idle for %v, %v come back by %v, want %v to %v", c.idle, got, c.within, c.least, c.most)
		}
	}
}
