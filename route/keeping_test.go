package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"pgregory.net/rapid"
)

// bookkeeper is a policy that keeps accounts and picks the last candidate.
type bookkeeper struct {
	t      *rapid.T
	open   map[fleet.Lease]string
	chosen int
	asked  int // for its hooks
	done   map[bool]int
}

func (*bookkeeper) Needs() pick.Needs { return pick.Needs{Name: "books", WhenOnly: true} }

func (b *bookkeeper) Hooks() pick.Hooks {
	b.asked++
	return pick.Hooks{Placed: b.placed, Reserved: b.reserved, Released: b.released}
}

func (b *bookkeeper) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: len(v.Candidates) - 1, Reason: "last"}
}

func (b *bookkeeper) placed(*pick.View, *fleet.Request, pick.Choice) { b.chosen++ }

func (b *bookkeeper) reserved(l fleet.Lease, c *pick.Candidate, v *pick.View, r *fleet.Request) {
	if _, twice := b.open[l]; twice || l == 0 || v == nil || r == nil {
		b.t.Fatalf("lease %x reserved twice", l)
	}
	b.open[l] = c.Name
}

func (b *bookkeeper) released(l fleet.Lease, answered bool) {
	if _, ok := b.open[l]; !ok {
		b.t.Fatalf("lease %x released and not open", l)
	}
	delete(b.open, l)
	b.done[answered]++
}

// TestEveryLeaseIsToldOnce: a policy that keeps accounts hears of each lease's start and end once, however it was
// chosen and however it ends, and is asked for its hooks once.
func TestEveryLeaseIsToldOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &bookkeeper{t: t, open: map[fleet.Lease]string{}, done: map[bool]int{}}
		r := route.New(route.Config{Policy: func() pick.Policy { return b }})
		now := time.Unix(1_000_000, 0)
		names := []string{"a", "b", "c"}
		var all []fleet.Endpoint
		for _, n := range names {
			all = append(all, fleet.Endpoint{Name: n, URL: "http://" + n, Weight: 1})
		}
		r.Observe(now, route.Declared{Source: "static", Endpoints: all})
		for _, n := range names {
			r.Observe(now, route.Probed{
				Endpoint: n, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
			})
		}
		want := map[fleet.Lease]string{}
		var leases []fleet.Lease
		answered := map[bool]int{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Minute)
			if len(leases) > 0 && rapid.Bool().Draw(t, "end") {
				l := leases[0]
				o := rapid.SampledFrom([]fleet.Outcome{
					fleet.OK, fleet.ClientGone, fleet.ClientError, fleet.Abandoned,
				}).Draw(t, "outcome")
				r.Observe(now, route.Finished{Lease: l, Outcome: o})
				r.Observe(now, route.Finished{Lease: l, Outcome: fleet.OK})
				leases = leases[1:]
				delete(want, l)
				answered[o == fleet.OK]++
				continue
			}
			q := &fleet.Request{
				Model: "m", MintedID: "x" + string(rune('a'+i)), Seed: uint64(i),
				Class: rapid.SampledFrom([]fleet.Class{fleet.Turn, fleet.Embed, fleet.Auxiliary}).Draw(t, "class"),
			}
			q.Pin = rapid.SampledFrom([]string{"", "", "a"}).Draw(t, "pin")
			before, only := b.chosen, rapid.Bool().Draw(t, "only")
			if q.Pin == "" && only {
				q.Exclude = []string{"a", "b"}
			}
			d, err := r.Decide(now, q)
			if err != nil {
				t.Fatal(err)
			}
			if told := b.chosen == before+1; told != (q.Pin == "") {
				t.Fatalf("the policy was told: %v, pinned to %q", told, q.Pin)
			}
			if only && q.Pin == "" && d.Reason != pick.ReasonOnly {
				t.Fatalf("one candidate, reason %s", d.Reason)
			}
			want[d.Lease] = d.Endpoint.Name
			leases = append(leases, d.Lease)
		}
		if b.asked > 1 {
			t.Fatalf("one pool asked its policy %d times for its hooks", b.asked)
		}
		for l, name := range want {
			if b.open[l] != name {
				t.Fatalf("lease %x is at %s, the policy was told %q", l, name, b.open[l])
			}
		}
		if len(b.open) != len(want) || b.done[true] != answered[true] || b.done[false] != answered[false] {
			t.Fatalf("%d open, want %d; ended %v, want %v", len(b.open), len(want), b.done, answered)
		}
	})
}
