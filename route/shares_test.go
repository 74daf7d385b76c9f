package route_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// canary is the alias "fast" of two models with these shares.
func canary(old, fresh float64) []fleet.Alias {
	return []fleet.Alias{{Name: "fast", Models: []string{"m", "new"}, Shares: []float64{old, fresh}}}
}

// TestShares: new conversations divide as the shares say, whether their models are on engines of their own or on the
// same ones as adapters; later turns keep their model, also after the shares have changed; and where no engine has the
// model, the conversation goes to the other.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []fleet.Model
	}{
		{"engines of their own", []fleet.Model{{ID: "m"}}, []fleet.Model{{ID: "new"}}},
		{
			"an adapter on all",
			[]fleet.Model{{ID: "m"}, {ID: "new", Parent: "m"}},
			[]fleet.Model{{ID: "m"}, {ID: "new", Parent: "m"}},
		},
		{"both on all", []fleet.Model{{ID: "m"}, {ID: "new"}}, []fleet.Model{{ID: "m"}, {ID: "new"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTestRouter(t, canary(80, 20), "a", "b")
			x.up("a", nil, c.a...)
			x.up("b", nil, c.b...)
			const n = 2000
			ask := func(i, turn int) string {
				d := x.route(fleet.Request{
					Model: "fast", Session: fmt.Sprint("s", i), Class: fleet.Turn, PromptBytes: 1000 * turn,
					Seed: uint64(i*7919 + turn),
				})
				x.end(d, fleet.OK)
				return d.Model
			}
			model, drawn := make([]string, n), 0
			for i := range n {
				model[i] = ask(i, 1)
				if model[i] == "new" {
					drawn++
				}
			}
			if share := float64(drawn) / n; math.Abs(share-0.2) > 0.04 { // 4.5 standard deviations
				t.Errorf("%d of %d conversations got the new model, 20 %% wanted", drawn, n)
			}
			configure := func(old, fresh float64) {
				x.r.Observe(x.now, route.Configured{Config: route.Config{
					Policy: func() pick.Policy { return leastWork{} }, Aliases: canary(old, fresh),
				}})
			}
			configure(50, 50)
			for i := range n {
				if got := ask(i, 2); got != model[i] {
					t.Fatalf("conversation %d had %s and has %s", i, model[i], got)
				}
			}
			configure(100, 0)
			for _, m := range x.r.Models() {
				if m.ID == "fast" != slices.Equal(m.Shares, []float64{100, 0}) {
					t.Errorf("%s is listed with the shares %v", m.ID, m.Shares)
				}
			}
			for i := range 100 {
				if got := ask(i, 3); got != model[i] {
					t.Fatalf("conversation %d had %s and has %s, whose share is 0 now", i, model[i], got)
				}
				if got := ask(n+i, 1); got != "m" {
					t.Fatalf("a new conversation got %s, whose share is 0", got)
				}
			}
			x.r.Observe(x.now, route.Configured{Config: route.Config{
				Policy:  func() pick.Policy { return leastWork{} },
				Aliases: []fleet.Alias{{Name: "fast", Models: []string{"m"}, Shares: []float64{100}}},
			}})
			for i := range 100 {
				if got := ask(i, 4); got != "m" {
					t.Fatalf("conversation %d got %s, which the alias has no more", i, got)
				}
			}
			configure(0, 100)
			x.up("a", nil, c.a[0]) // the new model has gone
			x.up("b", nil, fleet.Model{ID: "other"})
			for i := range 100 {
				if got := ask(i, 4); got != "m" {
					t.Fatalf("conversation %d got %s, which no engine serves", i, got)
				}
			}
		})
	}
}

// TestSharesGrow: routers that have never seen a conversation draw the same model for its id, and a share that grows
// takes conversations from the other model only.
func TestSharesGrow(t *testing.T) {
	had := map[string]bool{}
	for _, share := range []float64{0, 5, 20, 60, 100} {
		x := newTestRouter(t, canary(100-share, share), "a", "b")
		x.up("b", nil, fleet.Model{ID: "new"})
		for i := range 300 {
			id := fmt.Sprint("s", i)
			d := x.route(fleet.Request{
				Model: "fast", Session: id, Class: fleet.Turn, PromptBytes: 100, Seed: uint64(share) + uint64(i),
			})
			x.end(d, fleet.OK)
			if had[id] && d.Model != "new" {
				t.Fatalf("%s had the new model with a smaller share and not with %v", id, share)
			}
			had[id] = d.Model == "new"
		}
	}
}

// TestSharesAreChecked: shares that mean nothing are refused.
func TestSharesAreChecked(t *testing.T) {
	for _, shares := range [][]float64{{}, {1}, {0, 0}, {-1, 2}, {math.NaN(), 1}, {math.Inf(1), 1}, {1, 2, 3}} {
		c := route.Config{Policy: func() pick.Policy { return leastWork{} }, Aliases: []fleet.Alias{
			{Name: "x", Models: []string{"a", "b"}, Shares: shares},
		}}
		if c.Validate() == nil {
			t.Errorf("%v is accepted", shares)
		}
	}
}
