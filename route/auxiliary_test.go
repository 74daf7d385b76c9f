package route_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// watched is least_ttft, of which the latest view is kept.
type watched struct {
	pick.Policy
	seen pick.View
}

func (w *watched) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	c := w.Policy.Pick(v, r)
	w.seen = *v
	w.seen.Candidates = append([]pick.Candidate(nil), v.Candidates...)
	return c
}

// newWatched is a router before two engines with so many places, and what its policy sees.
func newWatched(places int) (*route.Router, *watched) {
	w := &watched{Policy: leastttft.New(leastttft.Config{}.WithDefaults())}
	r := route.New(route.Config{
		Policy: func() pick.Policy { return w }, Queue: route.QueueConfig{Ahead: 100 * time.Millisecond},
	})
	now := time.Unix(1_000_000, 0)
	r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
	}})
	for _, name := range []string{"a", "b"} {
		r.Observe(now, route.Probed{Endpoint: name, Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Slots: places, CacheTokens: 100_000, Models: []fleet.Model{{ID: "m"}},
		}})
	}
	return r, w
}

// TestBesideAnUpgrade: a WebSocket is open at an engine's only place. The next request is sent at once, and none is
// thought to wait.
func TestBesideAnUpgrade(t *testing.T) {
	r, w := newWatched(1)
	now := time.Unix(1_000_000, 0)
	for _, name := range []string{"a", "b"} {
		if _, err := r.Decide(now, &fleet.Request{ID: "socket", Class: fleet.Auxiliary, Pin: name}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	d, err := r.Decide(now, &fleet.Request{
		ID: "r", Model: "m", MintedID: "r", PromptBytes: 4000, Stream: true, MayQueue: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range w.seen.Candidates {
		if c.WaitMs != 0 || c.Occupancy != 0 || c.Decoding != 0 || c.Load.Requests != 1 {
			t.Errorf("%s: a wait of %.1f ms, occupancy %.1f, %d answers, %d requests",
				c.Name, c.WaitMs, c.Occupancy, c.Decoding, c.Load.Requests)
		}
	}
	if d.Queued {
		t.Error("it waits at the router")
	}
	if s := r.Status(now)[0]; s.Load.Requests == 0 || s.Load.Auxiliary != 1 {
		t.Errorf("load %+v: the connection is not counted", s.Load)
	}
}

// TestAuxiliaryTakeNoPlace: connections that stay open without work for the engine (WebSockets, long polls) change
// nothing of what is predicted for other requests, wherever they are and however many: not the wait, the occupancy, the
// speed or the place.
func TestAuxiliaryTakeNoPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "places")
		plain, saw := newWatched(places)
		beside, sees := newWatched(places)
		now := time.Unix(1_000_000, 0)
		var open [][2]fleet.Lease // by router
		var auxiliary []fleet.Lease
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			switch what := rapid.IntRange(0, 6).Draw(t, "what"); {
			case what == 0:
				for range rapid.IntRange(1, 12).Draw(t, "auxiliary") {
					d, err := beside.Decide(now, &fleet.Request{
						ID: "aside", Class: fleet.Auxiliary,
						Pin: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "pin"), Seed: 7,
					})
					if err != nil {
						t.Fatal(err)
					}
					auxiliary = append(auxiliary, d.Lease)
				}
				beside.Observe(now, route.Tick{})
				plain.Observe(now, route.Tick{})
			case what == 1 && len(auxiliary) > 0:
				l := auxiliary[0]
				auxiliary = auxiliary[1:]
				beside.Observe(now, route.FirstByte{Lease: l})
				beside.Observe(now, route.Finished{Lease: l})
				// as many, since what one event dispatches at an endpoint may let another tenant's go at an earlier one
				plain.Observe(now, route.Tick{})
				plain.Observe(now, route.Tick{})
			case what == 2 && len(open) > 0:
				plain.Observe(now, route.FirstByte{Lease: open[0][0]})
				beside.Observe(now, route.FirstByte{Lease: open[0][1]})
			case what == 3 && len(open) > 0:
				u := fleet.Usage{PromptTokens: 2000, OutputTokens: 100, CachedKnown: true}
				plain.Observe(now, route.Finished{Lease: open[0][0], Usage: u})
				beside.Observe(now, route.Finished{Lease: open[0][1], Usage: u})
				open = open[1:]
			default:
				q := fleet.Request{
					ID: "r", Model: "m", Seed: uint64(i), MintedID: fmt.Sprint("x", i),
					Session:     rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "session"),
					Tenant:      rapid.SampledFrom([]string{"", "t"}).Draw(t, "tenant"),
					PromptBytes: rapid.IntRange(100, 100_000).Draw(t, "bytes"), MaxTokens: 200,
					Stream: rapid.Bool().Draw(t, "stream"), MayQueue: rapid.Bool().Draw(t, "waits"),
				}
				other := q
				want, err := plain.Decide(now, &q)
				got, err2 := beside.Decide(now, &other)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				for i := range sees.seen.Candidates {
					l := &sees.seen.Candidates[i].Load
					l.Requests, l.Auxiliary = l.Requests-l.Auxiliary, 0
				}
				if !reflect.DeepEqual(sees.seen.Candidates, saw.seen.Candidates) {
					t.Fatalf("with %d auxiliary open the policy sees\n%+v\nand without them\n%+v",
						len(auxiliary), sees.seen.Candidates, saw.seen.Candidates)
				}
				if got.Endpoint.Name != want.Endpoint.Name || got.Reason != want.Reason || got.Queued != want.Queued ||
					got.TTFTMs != want.TTFTMs {
					t.Fatalf(
						"with %d auxiliary open: %s (%s, %.1f ms, waits: %t), without them %s (%s, %.1f ms, waits: %t)",
						len(auxiliary), got.Endpoint.Name, got.Reason, got.TTFTMs, got.Queued, want.Endpoint.Name,
						want.Reason, want.TTFTMs, want.Queued)
				}
				open = append(open, [2]fleet.Lease{want.Lease, got.Lease})
			}
		}
		for _, l := range auxiliary {
			beside.Observe(now, route.Finished{Lease: l})
		}
	})
}
