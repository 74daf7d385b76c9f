package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// TestAnswersFoundAgain: the router learns how much of an answer the next turn finds cached.
func TestAnswersFoundAgain(t *testing.T) {
	const conversations, prompt, answer, next = 60, 960, 640, 1600 // tokens
	for _, tt := range []struct {
		name        string
		found       func(turn int) int // of an answer
		repeats     bool               // the second turn repeats the first
		least, most int                // range of the answer's tokens expected to be cached in the end
	}{
		{"all", func(int) int { return answer }, false, answer, answer},
		{"none", func(int) int { return 0 }, false, 0, answer / 10},
		{"every second", func(i int) int { return i % 2 * answer }, false, answer * 3 / 10, answer * 7 / 10},
		{"more than there was", func(int) int { return 2 * answer }, false, answer, answer},
		{"tried again", func(int) int { return 0 }, true, answer, answer},
		{"pushed out", func(int) int { return -prompt }, false, answer, answer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newReviewed(t, nil, "a", "b")
			turn := func(id string, pieces []uint64, found int) route.Decision {
				req := prompted("a", pieces...)
				req.Session = id
				d := x.route(req)
				x.now = x.now.Add(50 * time.Millisecond)
				x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
				u := fleet.Usage{
					PromptTokens: req.PromptBytes / 4, OutputTokens: answer, CachedTokens: found, CachedKnown: true,
				}
				x.r.Observe(x.now, route.Finished{Lease: d.Lease, Usage: u})
				return d
			}
			for i := range conversations {
				n := uint64(1000 * i)
				id, first := fmt.Sprint(i), []uint64{n, n + 1, n + 2}
				turn(id, first, 0)
				second := append(first[:3:3], n+3, n+4)
				if tt.repeats {
					second = first
				}
				turn(id, second, min(prompt+tt.found(i), next-1))
			}
			turn("last", []uint64{1 << 40, 2 << 40, 3 << 40}, 0)
			d := turn("last", []uint64{1 << 40, 2 << 40, 3 << 40, 4 << 40, 5 << 40}, 0)
			if got := d.CachedTokens - prompt; got < min(tt.least, next-1-prompt) || got > tt.most {
				t.Errorf("%d tokens of the answer expected, want %d to %d", got, tt.least, tt.most)
			}
		})
	}
}
