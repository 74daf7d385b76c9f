package route_test

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// TestCapacityIsLearnt: a conversation found again although more was computed since than the reported capacity shows a
// larger cache, and one not found although less was computed shows a smaller one. Nothing else does.
func TestCapacityIsLearnt(t *testing.T) {
	const stated, piece = 6400, 320 // tokens: the cache, and a piece of a prompt
	turn := func(x *reviewed, pieces []uint64, found int) route.Decision {
		req := prompted("a", pieces...)
		req.Session = "talk"
		d, _ := x.serve(req, found)
		return d
	}
	others := func(x *reviewed, from, n uint64) { // each of a prompt of ten pieces
		for i := from; i < from+n; i++ {
			p := make([]uint64, 10)
			for j := range p {
				p[j] = 1000*i + uint64(j)
			}
			x.serve(prompted("a", p...), 0)
		}
	}
	long := func(n uint64) (p []uint64) {
		for i := range n {
			p = append(p, i+1)
		}
		return p
	}
	holds := func(x *reviewed) float64 { return float64(x.r.Status(x.now)[0].CacheTokens) / stated }
	start := func() *reviewed {
		x := newReviewed(t, nil, "a")
		x.r.Observe(x.now, route.Probed{
			Endpoint: "a", Report: fleet.Report{Healthy: true, CacheTokens: stated, BlockTokens: 16},
		})
		turn(x, long(10), 0)
		return x
	}
	t.Run("found again", func(t *testing.T) {
		x := start()
		others(x, 1, 6) // 19,200 tokens
		if d := turn(x, long(11), 10*piece); d.CachedTokens > piece {
			t.Fatalf("%d tokens are thought to be left", d.CachedTokens)
		}
		if h := holds(x); h < 1.5 || h > 3 {
			t.Fatalf("it is taken to hold %.2f times what it says", h)
		}
		others(x, 10, 5)
		if d := turn(x, long(12), 11*piece); d.CachedTokens != 11*piece && holds(x) > 2.5 {
			t.Errorf("%d tokens are thought to be left of %.2f", d.CachedTokens, holds(x))
		}
		before := holds(x)
		others(x, 20, 2)
		if turn(x, long(13), 0); holds(x) >= before {
			t.Errorf("it was not found, and the endpoint is taken to hold %.2f times what it says, before %.2f",
				holds(x), before)
		}
	})
	t.Run("some of it", func(t *testing.T) {
		x := start()
		others(x, 1, 6)
		if turn(x, long(11), 4*piece); holds(x) > 1 {
			t.Errorf("it is taken to hold %.2f times what it says", holds(x))
		}
	})
	t.Run("another prompt", func(t *testing.T) {
		x := start()
		others(x, 1, 6)
		if x.serve(prompted("a", long(11)...), 10*piece); holds(x) > 1 {
			t.Errorf("it is taken to hold %.2f times what it says", holds(x))
		}
	})
	t.Run("after a turn that was cancelled", func(t *testing.T) {
		x := start()
		others(x, 1, 12)
		turn(x, long(11), 0)
		others(x, 20, 1) // just fits beside it
		req := prompted("a", long(12)...)
		req.Session = "talk"
		x.end(x.route(req), fleet.ClientGone)
		if d := turn(x, long(12), 11*piece); d.CachedTokens > 10*piece {
			t.Fatalf("%d tokens are thought to be left", d.CachedTokens)
		}
		if holds(x) > 1 {
			t.Errorf("it is taken to hold %.2f times what it says", holds(x))
		}
	})
}
