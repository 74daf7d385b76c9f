package speed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// TestSpeedIsLearnt: speed is learnt from prompts of all sizes with none in front, whether their answers are streamed,
// or not, or both in turn: the time of a non-streamed answer is not that of its prompt.
func TestSpeedIsLearnt(t *testing.T) {
	for _, rate := range []float64{500, 3_000, 9_000, 50_000, 200_000} {
		for _, kind := range []string{"streams", "non-streaming", "both"} {
			t.Run(fmt.Sprint(rate, kind), func(t *testing.T) {
				s, rng := newSerial(t, rate, kind == "streams"), rand.New(rand.NewPCG(1, 2))
				for i := range 200 {
					if kind == "both" {
						s.stream = i%2 == 0
					}
					tokens := 100 + rng.IntN(4000)
					n, at := s.send(tokens)
					s.answer(n, at, tokens, 1+rng.IntN(40))
					s.now = s.now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
				}
				s.wantRate(0.2)
				if s.send(2000); s.backlog.Job(s.next-1).TokensBefore != 0 {
					t.Error("an idle endpoint is taken to be busy")
				}
				s.end(s.next-1, fleet.ClientGone, fleet.Usage{})
				s.idle()
			})
		}
	}
}

// TestWaitingIsNotSlowness: the learnt speed does not depend on how long prompts wait for each other, and how long they
// do is foreseen.
func TestWaitingIsNotSlowness(t *testing.T) {
	s, rng := newSerial(t, 9_000, true), rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		jobs, computed, tokens := make([]uint32, 30), make([]time.Time, 30), make([]int, 30)
		for i := range jobs {
			tokens[i] = 50 + rng.IntN(2000)
			jobs[i], computed[i] = s.send(tokens[i])
		}
		if wait, truth := s.wait(0), fleet.Ms(s.free.Sub(s.now)); round > 0 && !within(wait, truth, 0.25) {
			t.Errorf("after a burst a prompt is expected to wait %.0f ms, it waits %.0f", wait, truth)
		}
		for i, n := range jobs {
			s.now = computed[i]
			s.first(n)
		}
		for i, n := range jobs {
			s.end(n, fleet.OK, used(tokens[i], 5))
		}
		s.now = s.now.Add(time.Second)
	}
	s.wantRate(0.15)
}

// TestPromptsOfOneStep: prompts whose first bytes come together share one measured time.
func TestPromptsOfOneStep(t *testing.T) {
	s := newSerial(t, 9_000, true)
	for range 50 {
		for range 4 {
			s.send(500)
		}
		s.now = s.free
		for i := range uint32(4) {
			s.first(s.next - 4 + i)
		}
		for i := range uint32(4) {
			s.end(s.next-4+i, fleet.OK, used(500, 5))
		}
		s.now = s.now.Add(time.Second)
	}
	s.wantRate(0.15)
}

// TestSpeedFollows: an engine that becomes three times slower, and fast again, is tracked within fifty answers. One
// answer in twenty that takes a hundred times as long changes little.
func TestSpeedFollows(t *testing.T) {
	s := newSerial(t, 9_000, true)
	for _, s.rate = range []float64{9_000, 3_000, 9_000} {
		s.turns(50, 1500, 20)
		s.wantRate(0.35)
	}
	for range 10 {
		s.turns(19, 1500, 20)
		n, at := s.send(1500)
		s.answer(n, at.Add(100*at.Sub(s.now)), 1500, 20)
		s.free = s.now
	}
	s.wantRate(0.45)
}

// TestBeforeTheFirstSample: an endpoint without samples is taken to be as fast as the others are.
func TestBeforeTheFirstSample(t *testing.T) {
	s := newSerial(t, 2_000, true)
	s.AddEndpoint(1)
	if pace := s.Pace(1); pace.MsPerToken != firstPerToken || pace.FixedMs != FirstPace {
		t.Errorf("before any sample %+v is assumed", pace)
	}
	s.turns(30, 1500, 20)
	if got := s.MsPerToken(1); !within(got, 0.5, 0.2) || s.OwnMsPerToken(1) != 0 {
		t.Errorf("%v ms a token are assumed, the endpoint that is known takes 0.5", got)
	}
	if own, other := s.Known(0), s.Known(1); !own.Own || !own.Any || other.Own || !other.Any {
		t.Errorf("known %+v, and of the other %+v", own, other)
	}
}

// TestFirstPromptShowsSlowness: while no prompt of the fleet is computed, the first one shows what a token takes at
// least, for all endpoints. A short one shows nothing, one that fails no more, and one that is computed no further.
func TestFirstPromptShowsSlowness(t *testing.T) {
	after := func(tokens int, wait time.Duration, then func(s *site, n uint32)) float64 {
		s := newSite(t, 2, backlog.Config{})
		n, _ := s.open(backlog.Work{Slot: 0, Stream: true, PromptTokens: tokens, OutputTokens: 20})
		s.now = s.now.Add(wait)
		if then != nil {
			then(s, n)
			s.now = s.now.Add(time.Hour)
		}
		s.open(backlog.Work{Slot: 0, Stream: true, PromptTokens: 100, OutputTokens: 20})
		return s.MsPerToken(1)
	}
	for _, tt := range []struct {
		name   string
		tokens int
		wait   time.Duration
		then   func(s *site, n uint32)
		want   float64
	}{
		{"as fast as assumed", 20_000, time.Second, nil, 0.1},
		{"slower", 20_000, 10 * time.Second, nil, 0.5},
		{"never", 20_000, time.Hour, nil, 1.6},
		{"short", 30, time.Second, nil, 0.21},
		{"failed", 20_000, 10 * time.Second, func(s *site, n uint32) {
			s.end(n, fleet.EngineError, fleet.Usage{})
		}, 0.1},
		{"computed", 20_000, 10 * time.Second, func(s *site, n uint32) {
			s.open(backlog.Work{Slot: 1, Stream: true, PromptTokens: 100, OutputTokens: 20})
			s.first(n)
		}, 0.5},
	} {
		if got := after(tt.tokens, tt.wait, tt.then); !within(got, tt.want, 0.03) {
			t.Errorf("%s: %v ms a token, want %v", tt.name, got, tt.want)
		}
	}
}

// TestHowLongAnswersTake: until an answer of an endpoint has ended it has the fleet's time, then that at its own pace.
// One that takes a thousand times as long says little of the fleet.
func TestHowLongAnswersTake(t *testing.T) {
	s := newSite(t, 3, backlog.Config{})
	answer := func(slot, tokens int, took time.Duration) {
		n, _ := s.open(backlog.Work{Slot: slot, Stream: true, PromptTokens: 100, OutputTokens: tokens})
		s.first(n)
		s.now = s.now.Add(took)
		s.end(n, fleet.OK, used(100, tokens+1))
	}
	if got := s.DecodeMs(0); got != 0 {
		t.Errorf("%v ms before the first answer", got)
	}
	for range 100 {
		answer(0, 400, 4*time.Second)
	}
	if own, other := s.DecodeMs(0), s.DecodeMs(1); !within(own, 4000, 0.01) || other != own {
		t.Errorf("%v ms, and %v at an endpoint without an answer", own, other)
	}
	answer(1, 10, 200*time.Millisecond) // a short answer, at half the pace
	if got := s.DecodeMs(1); !within(got, 8000, 0.15) {
		t.Errorf("%v ms at half the pace", got)
	}
	before := s.DecodeMs(2)
	answer(1, 400, time.Hour)
	if got := s.DecodeMs(2); !within(got, before, 0.2) {
		t.Errorf("%v ms after one answer of an hour, %v before", got, before)
	}
}

// TestSpeedShowsAtFirstBytes: the speed of an engine and the waits there are known from first bytes on, long before the
// first answer ends. First bytes beyond the number of batches kept no longer count.
func TestSpeedShowsAtFirstBytes(t *testing.T) {
	for _, tt := range []struct {
		rate          float64
		tokens, first int // of each of the prompts, and how many of them are computed
		prompts       int
	}{
		{1_000, 4000, 3, 20},
		{3_000, 4000, 3, 20},
		{9_000, 4000, 3, 20},
		{40_000, 4000, 3, 20},
		{9_000, 500, 1500, 1500},
	} {
		s := newSerial(t, tt.rate, true)
		computed := make([]time.Time, tt.prompts)
		for i := range computed {
			_, computed[i] = s.send(tt.tokens)
		}
		for i := range tt.first {
			s.now = computed[i]
			s.first(uint32(i))
		}
		if got := s.MsPerToken(0); !within(got, 1000/tt.rate, 0.1) || s.OwnMsPerToken(0) != 0 {
			t.Errorf("%+v: %.3f ms a token", tt, got)
		}
		if left := fleet.Ms(s.free.Sub(s.now)); !within(s.wait(0), left, 0.15) {
			t.Errorf("%+v: a new prompt is expected to wait %.0f ms, it waits %.0f", tt, s.wait(0), left)
		}
		for n := range s.next {
			s.end(n, fleet.ClientGone, fleet.Usage{})
		}
		s.idle()
	}
}

// TestUsageReplacesThePrediction: nine tenths of each prompt were cached, which was not predicted.
func TestUsageReplacesThePrediction(t *testing.T) {
	s := newSerial(t, 3_000, true)
	for range 40 {
		n, at := s.send(400) // the tokens it computes
		s.now = at
		s.first(n)
		s.now = at.Add(time.Second)
		s.end(n, fleet.OK, fleet.Usage{PromptTokens: 4000, CachedTokens: 3600, OutputTokens: 10, CachedKnown: true})
	}
	s.wantRate(0.15)
}

// TestNothingIsLeftOfWhatHasFailed: turns that end without an answer, or without usage, teach nothing.
func TestNothingIsLeftOfWhatHasFailed(t *testing.T) {
	for _, o := range []fleet.Outcome{fleet.ClientGone, fleet.Abandoned, fleet.OK} {
		s := newSerial(t, 1_000, true)
		for range 8 {
			n, at := s.send(2000)
			s.now = at
			s.first(n)
		}
		if got := s.MsPerToken(0); got < 5*firstPerToken {
			t.Errorf("%v: %.3f ms a token after it took 1", o, got)
		}
		for n := range s.next {
			s.end(n, o, fleet.Usage{})
		}
		if got := s.MsPerToken(0); got != firstPerToken {
			t.Errorf("%v: %v ms a token when all have ended, want %v as before", o, got, firstPerToken)
		}
		s.idle()
	}
}

// TestLengthsAreWeighed: a first byte is off by up to an engine step, a large share of a short prompt's time and a
// small one of a long prompt's, so short prompts do not undo long ones. Yet when an engine becomes slower short prompts
// show it, although long ones came before.
func TestLengthsAreWeighed(t *testing.T) {
	s := newSerial(t, 9_000, true)
	s.turns(30, 20_000, 20)
	for range 3 {
		n, at := s.send(500)
		s.answer(n, at.Add(220*time.Millisecond), 500, 20) // another request's 2,000 tokens
		s.free = s.now
		s.now = s.now.Add(time.Second)
	}
	s.wantRate(0.02)
	s = newSerial(t, 9_000, true)
	s.turns(5, 200_000, 20)
	s.rate = 4_500
	s.turns(60, 2_000, 20)
	p := s.Pace(0)
	for tokens, share := range map[float64]float64{2_000: 0.1, 6_000: 0.2} { // the fixed time grows at first
		if got, want := p.FixedMs+tokens*p.MsPerToken, 8+tokens/4.5; !within(got, want, share) {
			t.Errorf("%.0f tokens are expected to take %.0f ms, they take %.0f", tokens, got, want)
		}
	}
}

// mixed plays turns of endpoints with these rates one after another, each late by some time.
func mixed(s *site, rates []float64, turns, tokens int, late func(slot, turn int) time.Duration) {
	for i := range turns {
		slot := (i + 1) % len(rates)
		n, _ := s.open(backlog.Work{Slot: slot, Class: fleet.Turn, Stream: true, PromptTokens: tokens})
		s.now = s.now.Add(8*time.Millisecond + late(slot, i) + time.Duration(float64(tokens)/rates[slot]*1e9))
		s.first(n)
		s.now = s.now.Add(time.Second)
		s.end(n, fleet.OK, used(tokens, 10))
	}
}

// TestSpeedsOfAMixedFleet: each engine's speed is learnt within 3 %, and of one that becomes slower within 15 %.
func TestSpeedsOfAMixedFleet(t *testing.T) {
	rates := []float64{9_000, 9_200, 3_000, 8_900, 3_050}
	s, late := newSite(t, len(rates), backlog.Config{}), func(int, int) time.Duration { return 0 }
	want := func(share float64) {
		t.Helper()
		for slot, rate := range rates {
			if got := s.MsPerToken(slot); !within(got, 1000/rate, share) {
				t.Errorf("%v ms a token, of an engine of %v tokens a second", got, rate)
			}
		}
	}
	mixed(s, rates, 100, 5000, late)
	want(0.03)
	rates[1] = 4_000
	mixed(s, rates, 300, 5000, late)
	want(0.15)
}

// TestLittleIsKnown: a first answer that is late by seconds, as that of an engine that has just started may be, does
// not make an endpoint look twice as slow as others, and one that is three times as slow is told from its first
// answers.
func TestLittleIsKnown(t *testing.T) {
	for _, tt := range []struct {
		tokens, rounds int
		rate           float64       // of the last endpoint, in tokens/s; the others have 9,000
		late           time.Duration // delay of its first answer
		close          bool
	}{
		{24, 1, 9_000, 0, true},
		{24, 1, 9_000, 2 * time.Second, true},
		{24, 20, 9_000, 2 * time.Second, true},
		{24, 200, 9_000, 2 * time.Second, true},
		{2_000, 20, 9_000, 0, true},
		{2_000, 1, 3_000, 0, false},
		{2_000, 20, 3_000, 0, false},
		{400, 10, 3_000, 0, false},
		{100, 80, 3_000, 0, false},
	} {
		s := newSite(t, 4, backlog.Config{})
		mixed(s, []float64{9_000, 9_000, 9_000, tt.rate}, 4*tt.rounds, tt.tokens, func(slot, turn int) time.Duration {
			jitter := time.Duration(turn*7919%5) * time.Millisecond
			if slot == 3 && turn < 4 {
				jitter += tt.late
			}
			return jitter
		})
		quick, last := s.MsPerToken(0), s.MsPerToken(3)
		if tt.close && (last > quick*1.9 || last < quick*0.9) || !tt.close && last < quick*1.9 {
			t.Errorf("%+v: %.3f ms a token, of the others %.3f", tt, last, quick)
		}
	}
}

// TestOverlappingNonStreaming: speed is learnt from non-streamed answers that overlap and end in any order.
func TestOverlappingNonStreaming(t *testing.T) {
	s, rng := newSerial(t, 9_000, false), rand.New(rand.NewPCG(3, 4))
	type open struct {
		done    time.Time
		in, out int
	}
	all := map[uint32]open{}
	for range 400 {
		in, out := 100+rng.IntN(3000), 1+rng.IntN(60)
		n, at := s.send(in)
		all[n] = open{at.Add(time.Duration(out-1) * 5 * time.Millisecond), in, out}
		for next := s.now.Add(time.Duration(rng.IntN(400)) * time.Millisecond); ; {
			ends, at := n+1, next
			for k, x := range all {
				if x.done.Before(at) || x.done.Equal(at) && k < ends {
					ends, at = k, x.done
				}
			}
			if s.now = at; ends > n {
				break
			}
			s.first(ends)
			s.end(ends, fleet.OK, used(all[ends].in, all[ends].out))
			delete(all, ends)
		}
	}
	s.wantRate(0.2)
}
