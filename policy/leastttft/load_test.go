package leastttft

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy/policytest"
)

// TestNewConversationsGoWhereFewerWait: without a free slot anywhere, new conversations go where half as many requests
// want one, although spread counts against it after the first.
func TestNewConversationsGoWhereFewerWait(t *testing.T) {
	cs := quick(4)
	p := ttft(t)
	for i := range cs {
		cs[i].Places, cs[i].OccupancyMs = 16, 1000./16
		cs[i].Load.Requests, cs[i].WaitMs = 40, 300
	}
	cs[2].Load.Requests = 20
	for i := range cs {
		cs[i].Occupancy = float64(cs[i].Load.Requests) / 16
	}
	for i := range 3 {
		v := policytest.View(cs, uint64(i))
		v.PromptTokens = 200
		if got := policytest.Place(p, v, &fleet.Request{}); got.Index != 2 {
			t.Errorf("new conversation %d went to %d; terms %+v", i, got.Index, v.Candidates)
		}
		cs[2].Load.Requests++
		cs[2].Occupancy += 1. / 16
	}
}

// TestQuestionsStayWithTheirDocument: a first turn goes where its long text is cached, although more requests want a
// slot there than elsewhere and later turns are expected. A short text is computed elsewhere.
func TestQuestionsStayWithTheirDocument(t *testing.T) {
	for tokens, want := range map[int]int{60_000: 0, 1000: 1} {
		cs := quick(2)
		for i, occupancy := range []float64{1.5, 0.9} {
			cs[i].Places, cs[i].Occupancy, cs[i].OccupancyMs = 16, occupancy, 1000./16
			cs[i].Load.Requests = int(occupancy * 16)
		}
		cs[0].CachedTokens = tokens
		v := policytest.View(cs, 1)
		v.PromptTokens, v.MostCached, v.LaterTurns = tokens+100, tokens, 6
		if got := policytest.Place(ttft(t), v, &fleet.Request{}); got.Index != want {
			t.Errorf("%d tokens went to %d, %s; terms %+v", tokens, got.Index, got.Reason, v.Candidates)
		}
	}
}

// TestWhoHasJustComeIsAsked: the ramp limits what an endpoint gets, but adds no cost: it is idle and the others are
// not.
func TestWhoHasJustComeIsAsked(t *testing.T) {
	cs := quick(3)
	for i := range cs {
		cs[i].Ramp, cs[i].Utilisation, cs[i].WaitMs, cs[i].TurnsPerMs = 1, 0.5, 1000, 0.005
	}
	cs[2].Weight, cs[2].Ramp, cs[2].Utilisation, cs[2].WaitMs, cs[2].TurnsPerMs = 0.1, 0.1, 0, 0, 0
	p := ttft(t)
	for i := range 20 { // before it joined
		v := policytest.View(cs[:2], uint64(100+i))
		v.PromptTokens = 2000
		policytest.Place(p, v, &fleet.Request{})
		for range 4 {
			policytest.Place(p, laterTurn(cs[:2], i%2, 2000), &fleet.Request{})
		}
	}
	for i := range 5 {
		v := policytest.View(cs, uint64(i))
		v.PromptTokens = 2000
		if got := policytest.Place(p, v, &fleet.Request{}); got.Index != 2 {
			t.Errorf("new conversation %d went to %d; terms %+v", i, got.Index, v.Candidates)
		}
	}
	cs[2].Load.Requests = 10 // more than its share plus eight
	v := policytest.View(cs, 9)
	v.PromptTokens = 2000
	if got := policytest.Place(p, v, &fleet.Request{}); got.Index == 2 {
		t.Errorf("it has ten requests and gets one more")
	}
}

// TestSlowEndpointsAnswerAsMany: the limit of an endpoint that computes prompts slowly is that of its weight, since it
// may answer as many as the others; that of a fast one grows with its speed.
func TestSlowEndpointsAnswerAsMany(t *testing.T) {
	for _, c := range []struct {
		name    string
		perToks []float64 // ms a token of each endpoint
		load    int       // requests of each; the first is the conversation's home
		more    int       // that home has in addition
		stays   bool
	}{
		{"slow, as many as the others", []float64{1, 0.1, 0.1, 0.1}, 50, 0, true},
		{"slow, twice as many and eight", []float64{1, 0.1, 0.1, 0.1}, 50, 120, false},
		{"fast, three times as many", []float64{0.1, 1, 1, 1}, 50, 150, true},
	} {
		cs := quick(len(c.perToks))
		for i := range cs {
			cs[i].MsPerToken, cs[i].Load.Requests, cs[i].WaitMs = c.perToks[i], c.load, 20_000
		}
		cs[0].Load.Requests += c.more
		cs[0].WaitMs, cs[0].CachedTokens = 100, 1900
		got := policytest.Place(ttft(t), laterTurn(cs, 0, 2000), &fleet.Request{})
		if (got.Index == 0) != c.stays {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestWhoComesBackIsSpared: a long new prompt goes where fewer conversations are about to return; a prompt that takes
// no time does not consider them.
func TestWhoComesBackIsSpared(t *testing.T) {
	for _, c := range []struct {
		tokens int
		spared bool
	}{{40_000, true}, {20, false}} {
		p, went := ttft(t), make([]int, 2)
		for i := range 40 {
			cs := quick(2)
			cs[0].ReturnsPerMs = 3. / 4000 // three return during its prefill
			cs[0].Utilisation, cs[1].Utilisation = 0.1, 0.1
			v := policytest.View(cs, uint64(i))
			v.PromptTokens = c.tokens
			went[policytest.Place(p, v, &fleet.Request{}).Index]++
		}
		if got := went[0] < 15; got != c.spared {
			t.Errorf("prompts of %d tokens went to %v", c.tokens, went)
		}
	}
}

// TestLongPromptsLeaveOneFree: a prompt of many seconds waits behind others like it rather than take the last free
// endpoint from the short prompts of those who come after. These go to the free one.
func TestLongPromptsLeaveOneFree(t *testing.T) {
	for _, x := range []struct {
		tokens int
		free   bool
	}{{150_000, false}, {1000, true}} {
		cs := quick(4)
		for i := range cs {
			cs[i].TurnsPerMs, cs[i].Utilisation, cs[i].WaitMs = 0.002, 0.7, 8000
		}
		cs[2].WaitMs = 0
		p := &pool{Policy: New(Config{}.WithDefaults()), mix: mix{firsts: 1000, tokens: 2_000_000}}
		v := policytest.View(cs, 1)
		v.PromptTokens, v.Watched = x.tokens, 1
		if got := policytest.Place(p, v, &fleet.Request{}); (got.Index == 2) != x.free {
			t.Errorf("%d tokens went to %d; terms %+v", x.tokens, got.Index, v.Candidates)
		}
	}
}

// TestDecodersHaveEvenShares: the speed of KV transfers to a decoder does not measure its decoding capacity. A decoder
// whose transfers seem to take no time, because all requests wait there for a slot, must not get all of them.
func TestDecodersHaveEvenShares(t *testing.T) {
	for _, first := range []bool{true, false} {
		cs := policytest.Same(3)
		for i := range cs {
			cs[i].MsPerToken, cs[i].FixedMs, cs[i].Load.Requests, cs[i].Utilisation = 0.002, 25, 30, 0.5
		}
		cs[1].MsPerToken, cs[1].FixedMs, cs[1].WaitMs, cs[1].Load.Requests = 1e-5, 1300, 10_000, 180
		v := policytest.View(cs, 1)
		v.Leg, v.PromptTokens, v.FirstTurn, v.Home = fleet.LegDecode, 2000, first, -1
		if !first {
			v.Home = 1
		}
		p := ttft(t)
		got := policytest.Place(p, v, &fleet.Request{})
		if got.Index == 1 {
			t.Errorf("first turn %v: placed at the decoder where 180 are and it waits for 10 s: %+v, others cost %.0f",
				first, got, cs[0].Terms.Cost())
		}
	}
}
