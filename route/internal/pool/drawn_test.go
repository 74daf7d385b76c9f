package pool

import (
	"fmt"
	"math"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// TestDrawn: an alias's shares are those of the conversations that get each model. A conversation always draws the same
// one, a share that grows takes conversations from the other model only, and a model whose share is 0, or that is not
// there, is drawn where no other is.
func TestDrawn(t *testing.T) {
	const n = 2000
	drawn := func(c Config, there ...string) (models [n]string) {
		r := New(registry.New().Reader, c).Reader
		for i := range models {
			models[i] = r.Drawn("fast", blocks.Hash("", fmt.Sprint("s", i)), func(model string) bool {
				for _, m := range there {
					if m == model {
						return true
					}
				}
				return false
			})
		}
		return models
	}
	had := map[int]bool{} // the new model
	for _, share := range []float64{0, 5, 20, 60, 100} {
		c := inTurn(fleet.Alias{Name: "fast", Models: []string{"m", "new"}, Shares: []float64{100 - share, share}})
		models := drawn(c, "m", "new")
		for i, model := range models {
			if had[i] && model != "new" {
				t.Fatalf("conversation %d had the new model with a smaller share and not with %v", i, share)
			}
			had[i] = model == "new"
		}
		count := 0
		for _, is := range had {
			if is {
				count++
			}
		}
		if got := float64(count) / n; math.Abs(got-share/100) > 0.04 { // 4.5 standard deviations at most
			t.Errorf("%d of %d conversations got the new model, %v %% wanted", count, n, share)
		}
		if drawn(c, "m", "new") != models {
			t.Error("another time they draw other models")
		}
		for _, one := range []string{"m", "new", ""} {
			for i, model := range drawn(c, one) {
				if model != one {
					t.Fatalf("share %v: where only %q is there, conversation %d gets %q", share, one, i, model)
				}
			}
		}
	}
	for there, want := range map[string]string{"m": "m", "new": "new", "": ""} {
		c := inTurn(fleet.Alias{Name: "fast", Models: []string{"m", "new"}})
		if got := drawn(c, there)[0]; got != want {
			t.Errorf("without shares, where %q is there, it is %q", there, got)
		}
	}
}
