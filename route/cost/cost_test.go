package cost

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

// TestCrowdedGrows: the more of an endpoint's places is taken the more it costs, up to the bound, without a step at
// mostUtilisation.
func TestCrowdedGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(0, mostOccupancy).Draw(t, "share"),
			rapid.Float64Range(0, mostOccupancy).Draw(t, "another")
		if a < b-1e-9 && marginal(a) >= marginal(b) {
			t.Errorf("%v of the places: %v, %v of them: %v", a, marginal(a), b, marginal(b))
		}
	})
	if below, above := marginal(mostUtilisation-1e-9), marginal(mostUtilisation+1e-9); above-below > 1e-6 {
		t.Errorf("%v, then %v", below, above)
	}
}

// TestTermsByHand reckons each term of one placement, alone.
func TestTermsByHand(t *testing.T) {
	// Of 1,000 tokens 400 are cached, at 0.1 ms each: 60 ms to compute.
	plain := pick.Candidate{
		Endpoint: pick.Endpoint{Weight: 1, Ramp: 1}, Cached: pick.Cached{CachedTokens: 400},
		Pace: pick.Pace{MsPerToken: 0.1, FixedMs: 10},
	}
	for _, c := range []struct {
		name   string
		change func(v *pick.View, c *pick.Candidate)
		want   pick.Terms
	}{
		{"idle", func(*pick.View, *pick.Candidate) {}, pick.Terms{}},
		{"prompts in front", func(_ *pick.View, c *pick.Candidate) { c.WaitMs = 30 }, pick.Terms{Wait: 30}},
		// 0.01 a ms come back: 2 * 0.01 * 60 * (30 + 60/2) = 72, twice that where half of the time is taken.
		{
			"conversations come back", func(_ *pick.View, c *pick.Candidate) { c.WaitMs, c.ReturnsPerMs = 30, 0.01 },
			pick.Terms{Wait: 30, Externality: 72},
		},
		{"they do where it is busy", func(_ *pick.View, c *pick.Candidate) {
			c.WaitMs, c.ReturnsPerMs, c.Utilisation = 30, 0.01, 0.5
		}, pick.Terms{Wait: 30, Externality: 144}},
		{
			"it overtakes three", func(_ *pick.View, c *pick.Candidate) { c.Overtaken = 3 },
			pick.Terms{Externality: 2 * 3 * 60},
		},
		{"a third of the places is taken", func(_ *pick.View, c *pick.Candidate) {
			c.Occupancy, c.OccupancyMs = 1./3, 100
		}, pick.Terms{Externality: 50}},
		{
			"it makes others wait on a link", func(_ *pick.View, c *pick.Candidate) { c.Link.DelayMs = 7 },
			pick.Terms{Externality: 7},
		},
		// Turns come at 0.006 a ms, a third of them first ones: 0.002; each brings two more, but none of the endpoint's
		// time is taken.
		{"conversations begin", func(v *pick.View, c *pick.Candidate) {
			c.TurnsPerMs, v.LaterTurns, v.Watched = 0.006, 2, 1
		}, pick.Terms{Externality: 2 * 0.002 * 60 * 30}},
		// Half of its places are taken: 40 for itself, and marginal(0.5) = 3, so two later turns of 40 ms cost 240.
		{"a first turn brings later ones", func(v *pick.View, c *pick.Candidate) {
			v.FirstTurn, v.LaterTurns, c.Occupancy, c.OccupancyMs = true, 2, 0.5, 40
		}, pick.Terms{Externality: 40 + 240}},
	} {
		v := &pick.View{PromptTokens: 1000, Candidates: []pick.Candidate{plain}}
		c.change(v, &v.Candidates[0])
		Score(v)
		got, want := v.Candidates[0].Terms, c.want
		want.Prefill, want.Fixed = 60, 10
		for _, x := range [][2]float64{{got.Wait, want.Wait}, {got.Prefill, 60}, {got.Fixed, 10}, {
			got.Externality, want.Externality,
		}, {got.Spread, 0}} {
			if math.Abs(x[0]-x[1]) > 1e-9 {
				t.Errorf("%s: %+v, want %+v", c.name, got, want)
				break
			}
		}
	}
}

// TestPlacesElsewhere: for a place others wait no longer than makes them leave, four times a turn's mean prefill,
// unless no other endpoint has one, of which the chance falls with their number. For memory they wait for all of it.
func TestPlacesElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name      string
		ofPlaces  bool
		elsewhere []float64 // occupancy of the other endpoints
		wait      float64   // there
		want      float64
	}{
		{"places, no other endpoint", true, nil, 0, 1000},
		{"places, none taken elsewhere", true, []float64{0}, 0, 40},
		{"places, half of them taken elsewhere", true, []float64{0.5}, 0, 520},
		{"places, half of them taken at each of three", true, []float64{0.5, 0.5, 0.5}, 0, 160},
		{"places, half and all of them taken elsewhere", true, []float64{0.5, 1}, 0, 520},
		{"places, none taken at one of three", true, []float64{1, 0, 1}, 0, 40},
		{"places, none taken at two of three", true, []float64{1, 0, 0}, 0, 40},
		{"places, all taken elsewhere", true, []float64{1.5}, 0, 1000},
		{"places, none taken where prompts wait", true, []float64{0}, 300, 340},
		{"memory", false, []float64{0}, 0, 1000},
	} {
		c := pick.Candidate{
			Endpoint: pick.Endpoint{Weight: 1, Ramp: 1}, Pace: pick.Pace{MsPerToken: 0.1},
			Wait: pick.Wait{Occupancy: 0.5, OfPlaces: tt.ofPlaces, OccupancyMs: 1000},
		}
		v := &pick.View{PromptTokens: 1000, TurnTokens: 100, Candidates: []pick.Candidate{c}}
		for i, occupancy := range tt.elsewhere {
			other := c
			other.Slot, other.Occupancy, other.WaitMs = i+1, occupancy, tt.wait
			v.Candidates = append(v.Candidates, other)
		}
		s := ForChoice(v)
		var terms pick.Terms
		if got := Estimate(v, &v.Candidates[0], &s, &terms).Occupancy; math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v ms, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWeightCostsOthers: half the weight doubles what a placement costs, but for the fixed time, and leaves the
// request's own wait as it is. What an endpoint that has just joined still lacks of its weight is no cost.
func TestWeightCostsOthers(t *testing.T) {
	row := pick.Candidate{
		Endpoint: pick.Endpoint{Weight: 1, Ramp: 1}, Pace: pick.Pace{MsPerToken: 0.1}, Wait: pick.Wait{WaitMs: 50},
		Link: pick.Link{DelayMs: 20},
	}
	half, joining := row, row
	half.Weight, joining.Weight, joining.Ramp = 0.5, 0.1, 0.1
	v := &pick.View{PromptTokens: 1000, Candidates: []pick.Candidate{row, half, joining}}
	Score(v)
	a, b, c := v.Candidates[0].Terms, v.Candidates[1].Terms, v.Candidates[2].Terms
	if b.TTFT() != a.TTFT() || math.Abs(b.Cost()-2*a.Cost()) > 1e-9 || c != a {
		t.Errorf("%+v, half the weight %+v, joining %+v", a, b, c)
	}
}

// TestDecodersHaveEvenShares: how fast KV cache comes to an endpoint does not change how many conversations begin
// there.
func TestDecodersHaveEvenShares(t *testing.T) {
	slow := pick.Candidate{Pace: pick.Pace{MsPerToken: 2}, Link: pick.Link{MsPerToken: 3}}
	if whole, decode := Speed(&pick.View{}, &slow), Speed(&pick.View{Leg: fleet.LegDecode}, &slow); whole != 2 ||
		decode != 1 {
		t.Errorf("%v ms a token, of decode legs %v", whole, decode)
	}
}

// TestPartsAddUp: what a placement costs others is the sum of its parts, in each scope, for each leg, at any weight.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
		v := &pick.View{
			PromptTokens: 1000, OutputTokens: 100, FirstTurn: rapid.Bool().Draw(t, "first"),
			Splits: rapid.Bool().Draw(t, "splits"),
			Leg: rapid.SampledFrom([]fleet.Leg{
				fleet.LegUnsplit, fleet.LegPrefill, fleet.LegDecode,
			}).Draw(t, "leg"),
			LaterTurns: draw("later", 10), Watched: draw("watched", 1), Interference: draw("interference", 1),
			AnswerWaitCost: draw("answer", 3), MostCached: 900,
			Sharers: pick.Sharers{OldestMs: draw("age", 2000), Turns: 3},
		}
		for range 2 {
			v.Candidates = append(v.Candidates, pick.Candidate{
				Endpoint: pick.Endpoint{Weight: 0.1 + draw("weight", 2), Ramp: 1},
				Cached: pick.Cached{
					CachedTokens: rapid.SampledFrom([]int{400, 900}).Draw(t, "cached"), PresentTokens: 300,
					ExpectedMiss: draw("miss", 50),
				},
				Pace: pick.Pace{MsPerToken: 0.01 + draw("speed", 1)},
				Wait: pick.Wait{
					WaitMs: draw("wait", 100), Overtaken: rapid.IntRange(0, 3).Draw(t, "overtaken"),
					Decoding:  rapid.IntRange(0, 9).Draw(t, "decoding"),
					Occupancy: draw("occupancy", 4), OccupancyMs: draw("takes", 50),
				},
				DecodePace: pick.DecodePace{AnswerMs: draw("ms", 10), PerOtherMs: draw("per", 1)},
				Demand: pick.Demand{
					TurnsPerMs: draw("turns", 0.01), ReturnsPerMs: draw("returns", 0.01), Utilisation: draw("busy", 1),
				},
				Link: pick.Link{MsPerToken: draw("link", 1), DelayMs: draw("delay", 9)},
			})
		}
		for name, s := range map[string]Scope{Choice: ForChoice(v), Split: ForSplit(v), Request: {}} {
			if s.String() != name {
				t.Errorf("scope %s is called %s", name, s.String())
			}
			for i := range v.Candidates {
				var is pick.Terms
				c := &v.Candidates[i]
				p := Estimate(v, c, &s, &is)
				if d := math.Abs(p.Sum() - is.Externality); d > 1e-9*max(1, is.Externality) {
					t.Errorf("%s: %+v is %v, should be %v", name, p, p.Sum(), is.Externality)
				}
			}
		}
	})
}

// TestCopy: an endpoint that lacks what is cached elsewhere costs less by what those who share it save once they find
// it there too.
func TestCopy(t *testing.T) {
	// Two have 10,000 of its 11,000 tokens and make it wait for 600 and 800 ms, the first one has none of them and
	// makes it wait for 200 ms: it would be there in 1,300 ms.
	plain := func() *pick.View {
		row := func(slot, cached int, wait float64) pick.Candidate {
			return pick.Candidate{
				Endpoint: pick.Endpoint{Slot: slot, Weight: 1, Ramp: 1}, Cached: pick.Cached{CachedTokens: cached},
				Pace: pick.Pace{MsPerToken: 0.1}, Wait: pick.Wait{WaitMs: wait},
			}
		}
		// no load: all of them share it
		return &pick.View{
			FirstTurn: true, PromptTokens: 11_000, MostCached: 10_000,
			Candidates: []pick.Candidate{row(0, 0, 200), row(1, 10_000, 600), row(2, 10_000, 800)},
			Sharers:    pick.Sharers{Turns: 10, OldestMs: 3900},
		}
	}
	for _, c := range []struct {
		name   string
		change func(v *pick.View)
		want   float64
	}{
		{"they have come for three times as long as it takes", func(*pick.View) {}, -10 * 400 * 3. / 4},
		{"two thirds of the requests there do", func(v *pick.View) {
			v.Candidates[1].Load, v.Candidates[2].Load = fleet.Load{Requests: 9}, fleet.Load{Requests: 6}
		}, -10 * 400 * 3. / 4 * 10 / 15},
		{"a burst that has just begun", func(v *pick.View) { v.Sharers.OldestMs = 13 }, -10 * 400 / 101.},
		{"all in this millisecond", func(v *pick.View) { v.Sharers.OldestMs = 0 }, 0},
		{"no other first turn begins with it", func(v *pick.View) { v.Sharers = pick.Sharers{} }, 0},
		{"the wait is as long here", func(v *pick.View) { v.Candidates[0].WaitMs = 600 }, 0},
		{
			"little is missing, and soon there", func(v *pick.View) { v.Candidates[0].CachedTokens = 9900 },
			-10 * 10 * 3900. / (3900 + 200 + 110),
		},
		{"nothing is missing", func(v *pick.View) { v.Candidates[0].CachedTokens = 10_000 }, 0},
		{"a cache is transferred", func(v *pick.View) {
			v.Leg, v.Candidates[0].Link.MsPerToken = fleet.LegDecode, 0.1
		}, 0},
	} {
		v := plain()
		c.change(v)
		s := ForChoice(v)
		if p := Estimate(v, &v.Candidates[0], &s, &pick.Terms{}); math.Abs(p.Copy-c.want) > 1e-9 {
			t.Errorf("%s: %v ms, want %v", c.name, p.Copy, c.want)
		}
		s = ForSplit(v)
		if p := Estimate(v, &v.Candidates[0], &s, &pick.Terms{}); p.Copy != 0 {
			t.Errorf("%s: %v ms where requests are compared with the same in legs", c.name, p.Copy)
		}
	}
}

// TestDelayed: the delay is the sum over the turns that arrive until the prompt is computed, each of which waits for
// what is left then, or until it goes elsewhere.
func TestDelayed(t *testing.T) {
	for _, waits := range []float64{0, 50, 400, 3000} {
		for _, prefill := range []float64{1, 60, 2000} {
			for _, most := range []float64{0, 10, 100, 2500, math.Inf(1)} {
				const step = 0.01
				want := 0.0
				for at := step / 2; at < waits+prefill; at += step {
					want += step * (min(waits+prefill-at, most) - min(max(waits-at, 0), most))
				}
				c := pick.Candidate{Wait: pick.Wait{WaitMs: waits}}
				got := delayed(0.25, &c, prefill, most)
				if want *= externalityMs * 0.25; math.Abs(got-want) > 1e-3*want+1e-6 {
					t.Errorf("%v ms behind %v ms, none more than %v: %v, want %v", prefill, waits, most, got, want)
				}
			}
		}
	}
}

// TestWhoBeginsMayGoElsewhere: conversations that begin wait for no long prompt where another endpoint is free.
func TestWhoBeginsMayGoElsewhere(t *testing.T) {
	arrivals := func(waits ...float64) float64 {
		v := &pick.View{PromptTokens: 100_000, TurnTokens: 1000, LaterTurns: 0, Watched: 1}
		for i, ms := range waits {
			v.Candidates = append(v.Candidates, pick.Candidate{
				Endpoint: pick.Endpoint{Slot: i, Weight: 1, Ramp: 1}, Wait: pick.Wait{WaitMs: ms},
				Pace: pick.Pace{MsPerToken: 0.1}, Demand: pick.Demand{TurnsPerMs: 0.01},
			})
		}
		s := ForChoice(v)
		p := Estimate(v, &v.Candidates[0], &s, &pick.Terms{})
		return p.Arrivals
	}
	for _, c := range []struct {
		name  string
		waits []float64
		want  float64
	}{
		// 10 s of work, 0.01 turns a ms: 2 × 0.01 × 10 s × 5 s
		{"no other", []float64{0}, 1e6},
		{"all others busy", []float64{0, 20e3, 15e3}, 1e6},
		// each waits for 400 ms, four turns' time, at most: 2 × 0.01 × 400 × (10,000 - 200)
		{"one is free", []float64{0, 20e3, 0}, 78400},
		{"behind another one", []float64{10e3, 20e3, 0}, 80000},
		{"the only free one", []float64{0, 5e3, 5e3}, 2 * .01 * 5400 * 7300},
	} {
		if got := arrivals(c.waits...); math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
