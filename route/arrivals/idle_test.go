package arrivals

import (
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

// TestRestAges: every length of rest has its ticks, without a gap.
func TestRestAges(t *testing.T) {
	next := uint32(0)
	for age := range ages {
		from, width := spanOf(age)
		if from != next || ageOf(from) != age || ageOf(from+width-1) != age {
			t.Fatalf("age %d has %d ticks from %d on, the one before ends at %d; the first is of age %d", age, width, from, next, ageOf(from))
		}
		next = from + width
	}
	if next != mostIdle {
		t.Errorf("they end at %d, not %d", next, mostIdle)
	}
}

// TestRests: what an endpoint counts is what a list of all its conversations says, of those that do not rest for too long; what is learnt of
// them is each one's own, however their spans are merged; and there are few spans whatever comes.
func TestRests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Idles
		var s, want Returns
		since := []uint32{} // of those that rest
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
				r.Leave(now, since[i], back, &s)
				if back || now-since[i] >= mostIdle {
					learn(now-since[i], back)
					since = append(since[:i], since[i+1:]...)
				} else { // it Idles anew, of which nothing is learnt: what was counted of its span stays out of the comparison
					return
				}
			}
			r.advance(now, &s)
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
		r.advance(now+2*mostIdle, &s)
		for _, at := range since {
			learn(now+2*mostIdle-at, false)
		}
		if len(r.spans) != 0 || s.back != want.back || s.passed != want.passed {
			t.Fatalf("learnt %v and %v, should be %v and %v; left %v", s.back, s.passed, want.back, want.passed, r.spans)
		}
	})
}

// TestExpectedReturns: of conversations half of which come back within 10 seconds, evenly, and half never, as many are expected as come.
func TestExpectedReturns(t *testing.T) {
	var s Returns
	var r Idles
	const soon = 40 // ticks
	now, back := uint32(1), map[uint32][]uint32{}
	for i := range uint32(20_000) { // one comes to rest with each tick
		now++
		r.Add(now, &s)
		if i%2 == 0 {
			at := now + i/2*7%soon
			back[at] = append(back[at], now)
		}
		for _, since := range back[now] {
			r.Leave(now, since, true, &s)
		}
	}
	r.advance(now, &s)
	for _, c := range []struct{ idled, within, want float64 }{
		{0, 20, 0.25},
		{0, 40, 0.5},
		{0, 400, 0.5},
		{20, 20, 1. / 3},
		{20, 5, 1. / 12},
		{60, 100, 0},
	} {
		if got := 1 - s.idle(c.idled+c.within)/s.idle(c.idled); math.Abs(got-c.want) > 0.07 {
			t.Errorf("of those that have idled for %v ticks %.3f are thought to come back in %v more, should be %.3f", c.idled, got, c.within, c.want)
		}
	}
	var fresh Idles
	for range 10 {
		fresh.Add(now, &s)
	}
	fresh.active = 4
	fresh.advance(now+1, &s)
	if got := fresh.expected(0, soon, &s); math.Abs(got-7) > 1 {
		t.Errorf("of 14, half of which come back, %.2f are expected", got)
	}
	if a, b := fresh.expected(0, soon, &s), fresh.expected(now, soon, &s); math.Abs(a-b-0.5) > 0.1 {
		t.Errorf("%.2f are expected, and %.2f without one of them", a, b)
	}
}

// TestNothingIsKnownOfReturns: before anybody has come back a share of them is expected to, less than all.
func TestNothingIsKnownOfReturns(t *testing.T) {
	var s Returns
	var r Idles
	r.Add(1, &s)
	r.advance(2, &s)
	if got := r.expected(0, 8, &s); got <= 0 || got >= 1 {
		t.Errorf("%v of one", got)
	}
	if got := r.expected(0, 10*mostIdle, &s); got < 0.9 || got > 1 {
		t.Errorf("%v of one in a day", got)
	}
}

// TestTicksDoNotGoBack: a clock that steps back stands still.
func TestTicksDoNotGoBack(t *testing.T) {
	var c Clock
	at := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		want  uint32
	}{{0, 1}, {tick - 1, 1}, {tick, 2}, {-time.Hour, 2}, {0, 2}, {10 * tick, 11}} {
		if got := c.Tick(at.Add(step.after)); got != step.want {
			t.Errorf("%d: tick %d, want %d", i, got, step.want)
		}
	}
}

// BenchmarkReturns is how long it takes to tell who comes back at one endpoint, where conversations have come to rest for hours.
func BenchmarkReturns(b *testing.B) {
	var s Returns
	var r Idles
	now := uint32(1)
	for range 40_000 {
		now++
		r.Add(now, &s)
	}
	v, c := &pick.View{PromptTokens: 8000}, &pick.Candidate{MsPerToken: 0.1}
	for b.Loop() {
		r.PerMs(now, 0, v, c, &s)
	}
	b.ReportMetric(float64(len(r.spans)), "spans")
}
