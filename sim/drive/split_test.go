package drive_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// twoLegs is a fleet of engines with simple figures (see round) and a link of 10 ms plus 0.1 ms per token.
func twoLegs(trace *trace.Trace, prefill, decode int, when fleet.SplitWhen) drive.Replay {
	return drive.Replay{
		Trace: trace, Fleet: rig.Split(prefill, decode, round()), Policy: func() pick.Policy { return &turnTaking{} },
		Speed: 1, IDs: true, Disaggregation: route.Disaggregation{When: when},
		Transfer: rig.Transfer{BytesPerToken: 1000, Bandwidth: 1e7, Latency: 10 * time.Millisecond},
	}
}

// turnTaking is round robin.
type turnTaking struct{ n int }

func (*turnTaking) Needs() pick.Needs { return pick.Needs{Name: "in turn"} }

func (p *turnTaking) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *turnTaking) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: (p.n + 1) % len(v.Candidates), Reason: "turn"}
}

func (p *turnTaking) placed(*pick.View, *fleet.Request, pick.Choice) { p.n++ }

// TestSplitByHand: two split turns of one conversation, computed by hand.
func TestSplitByHand(t *testing.T) {
	trace, err := trace.Read("t",
		strings.NewReader(`{"timestamp":0,"input_length":1000,"output_length":3,"hash_ids":[1,2]}
{"timestamp":5000,"input_length":1300,"output_length":2,"hash_ids":[1,3,4]}
`), trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	r := twoLegs(trace, 1, 1, fleet.WhenAlways)
	o := replay(t, r)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	want := []drive.Played{
		// Prefill: a step of 1 ms and 1,000 tokens of 1 ms. Transfer: 1,000 tokens of 0.1 ms, and 10 ms. Then steps of
		// 1 ms, the first with the last token of the prompt, 1 ms more.
		{
			Turn: 0, Endpoint: 1, Prefiller: 0, TTFT: ms(1001 + 110 + 2), Took: ms(1001 + 110 + 2 + 2),
			Reason: pick.ReasonOnly, First: true,
			Why: fleet.SplitAlways, Prefill: ms(1001), Moved: 1000, Handed: ms(110), MovedTook: ms(110),
		},
		// 512 tokens are shared, which both engines have cached.
		{
			Turn: 1, Endpoint: 1, Prefiller: 0, Sent: ms(5000), TTFT: ms(789 + 88 + 1 + 2),
			Took: ms(789 + 88 + 1 + 2 + 1), Cached: 512, Reason: pick.ReasonOnly, First: true,
			Why: fleet.SplitAlways, Prefill: ms(789), Moved: 788, Handed: ms(88) + 800*time.Microsecond,
			MovedTook: ms(88) + 800*time.Microsecond,
		},
	}
	for i, w := range want {
		got := o.Turns[i]
		got.Predicted = 0
		// a transfer ends at the ns after its last byte
		for _, d := range []*time.Duration{&got.TTFT, &got.Took, &got.Handed, &got.MovedTook} {
			*d = d.Round(100 * time.Microsecond)
		}
		if i == 1 {
			w.TTFT, w.Took = ms(789+2)+w.Handed, ms(789+2+1)+w.Handed
		}
		if got != w {
			t.Errorf("turn %d:\n got %+v\nwant %+v", i, got, w)
		}
	}
	f := figures.Of(&r, o, figures.Objective{})
	s := f.Split
	if s == nil || s.Share != 1 || s.Moved != 894 || s.Transfer.P50 != 88.8 || s.When != "always" ||
		len(s.Pools) != 2 || s.Pools[0].Prompts != 2 || s.Pools[1].Answers != 2 || s.Pools[0].HitRate != 0.222609 {
		t.Errorf("%+v", s)
	}
	if f.Gap != (figures.Spread{Mean: 1, P50: 1, P90: 1, P95: 1, P99: 1}) {
		t.Errorf("gaps %+v", f.Gap)
	}
	if f.HitRate != 0.222609 || f.PerEndpoint[0].HitRate != f.HitRate {
		t.Errorf("hit rate %v", f.HitRate)
	}
}

// TestSplitModel: for any fleet, failures and rules for splitting, every turn ends once, no router has open leases at
// the end, all blocks are free except for leases, the token counts add up, and a second run is equal.
func TestSplitModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := trace.DefaultGenerator()
		g.Conversations, g.Turns, g.System, g.User = rapid.IntRange(1, 25).Draw(t, "conversations"), 2, 300,
			float64(rapid.SampledFrom([]int{20, 400, 3000}).Draw(t, "user"))
		g.Answer, g.Think = 20, time.Second
		r := twoLegs(g.Trace(rapid.Uint64().Draw(t, "trace")), rapid.IntRange(1, 3).Draw(t, "prefill"),
			rapid.IntRange(1, 3).Draw(t, "decode"), rapid.SampledFrom(fleet.SplitWhens()).Draw(t, "when"))
		r.Speed, r.Load, r.Seed, r.Routers = 0, float64(rapid.IntRange(1, 40).Draw(t, "load"))/10,
			rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 2).Draw(t, "routers")
		r.Disaggregation.Threshold = 500
		r.IDs = rapid.Bool().Draw(t, "ids")
		for i := range r.Fleet.Endpoints {
			e := &r.Fleet.Endpoints[i]
			e.Engine.Slots, e.Engine.QueueLimit = rapid.IntRange(1, 8).Draw(t, "slots"),
				rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "queue")
			e.Engine.CacheTokens = rapid.SampledFrom([]int{40_000, 400_000}).Draw(t, "cache")
			if rapid.IntRange(0, 3).Draw(t, "both") == 0 {
				e.Role = fleet.RoleBoth
			}
			at := time.Duration(0)
			for range rapid.IntRange(0, 2).Draw(t, "failures") {
				at += time.Duration(rapid.IntRange(1, 20_000).Draw(t, "at")) * time.Millisecond
				e.Outages = append(e.Outages, rig.Outage{
					At: at, For: time.Duration(rapid.IntRange(1, 20_000).Draw(t, "for")) * time.Millisecond,
				})
				at = e.Outages[len(e.Outages)-1].At + e.Outages[len(e.Outages)-1].For
			}
		}
		if r.Fleet.Validate() != nil {
			t.Skip("there are prefillers without decoders, or decoders without prefillers: no such fleet is taken")
		}
		began, ended := map[fleet.Lease]int{}, map[fleet.Lease]int{}
		r.Announced = func(e *route.Entry) {
			if e.Decision != nil {
				began[e.Decision.Lease]++
			}
			if e.Prefill != nil {
				began[e.Prefill.Lease]++
			}
			if ev, ok := e.Event.(route.Finished); ok {
				ended[ev.Lease]++
			}
		}
		o, err := r.Run()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(began, ended) {
			t.Fatalf("leases begun %v, ended %v", began, ended)
		}
		for _, router := range o.Routers {
			if s := router.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
				t.Fatalf("at the end: %+v", s)
			}
			for _, s := range router.Status(time.Unix(1_800_000_000, 0)) {
				if s.Load != (fleet.Load{}) {
					t.Fatalf("the books of %s at the end: %+v", s.Endpoint.Name, s.Load)
				}
			}
		}
		if len(o.Turns) != len(r.Trace.Turns) {
			t.Fatalf("%d turns of %d", len(o.Turns), len(r.Trace.Turns))
		}
		var fetched, moved uint64
		retries := 0
		for i := range o.Turns {
			p := &o.Turns[i]
			moved += uint64(p.Moved)
			retries += p.Retries
			if p.Failed {
				retries++
				continue
			}
			if p.Why.Splits() != (p.Prefiller >= 0) || p.Prefiller == p.Endpoint {
				t.Fatalf("%+v", p)
			}
			if p.Prefiller >= 0 && p.TTFT < p.Prefill+p.Handed {
				t.Fatalf("%+v", p)
			}
		}
		for i, e := range o.Engines {
			fetched += e.FetchedTokens
			if len(r.Fleet.Endpoints[i].Outages) == 0 && retries == 0 && e.HeldBlocks > 0 {
				t.Fatalf("engine %d holds %d blocks at the end", i, e.HeldBlocks)
			}
		}
		if retries == 0 && fetched != moved {
			t.Fatalf("%d tokens were moved, %d came", moved, fetched)
		}
		r.Announced = nil
		again, err := r.Run()
		if err != nil || !reflect.DeepEqual(again.Turns, o.Turns) {
			t.Fatalf("the second time it is not the same: %v", err)
		}
	})
}
