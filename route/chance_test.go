package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// drawing is a policy that draws some numbers and keeps the last.
type drawing struct {
	pick.Plain
	n    int
	last *uint64
}

func (p drawing) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	for range p.n {
		*p.last = v.Rand.Uint64()
	}
	return pick.Choice{Reason: "drawn"}
}

// TestLegsDrawTheirOwnNumbers: what the policy of one leg draws does not change what the other leg's draws.
func TestLegsDrawTheirOwnNumbers(t *testing.T) {
	prefill := func(decoding int) (drawn uint64) {
		var other uint64
		r := route.New(route.Config{
			Policy: func() pick.Policy { return drawing{pick.Plain{Name: "d"}, decoding, &other} },
			Disaggregation: route.Disaggregation{
				When:    fleet.WhenAlways,
				Prefill: func() pick.Policy { return drawing{pick.Plain{Name: "p"}, 1, &drawn} },
				Decode:  func() pick.Policy { return drawing{pick.Plain{Name: "d"}, decoding, &other} },
			},
		})
		now := time.Unix(1000, 0)
		r.Observe(now, declared([]string{
			"s", "p0,role=prefill,model=m", "p1,role=prefill,model=m", "d0,role=decode,model=m",
			"d1,role=decode,model=m",
		}))
		p, err := r.Decide(now, &fleet.Request{Model: "m", Seed: 5, PromptTokens: 8000, Stream: true, Splits: true})
		if err != nil || !p.Split() {
			t.Fatalf("%+v, %v", p.Plan, err)
		}
		return drawn
	}
	if none, some := prefill(0), prefill(3); none == 0 || none != some {
		t.Errorf("the prefill leg's policy draws %d, and %d where that of the decode leg draws too", none, some)
	}
}
