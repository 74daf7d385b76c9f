package route_test

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// TestEngineWithoutCache: of an engine that says that it reuses no prefixes nothing is predicted, until
// an answer reports cached tokens, or the engine is back with its cache.
func TestEngineWithoutCache(t *testing.T) {
	x := newReviewed(t, nil, "a", "b")
	says := func(off bool) {
		for _, name := range []string{"a", "b"} {
			x.r.Observe(x.now, route.Probed{
				Endpoint: name, Report: fleet.Report{Healthy: true, CacheTokens: 1_000_000, CacheOff: off},
			})
		}
	}
	pieces := []uint64{}
	turn := func(pin string, found int) int {
		pieces = append(pieces, uint64(len(pieces)+1), uint64(len(pieces)+2))
		req := prompted(pin, pieces...)
		req.Session = "s"
		d, _ := x.serve(req, found)
		return d.CachedTokens
	}
	says(true)
	turn("a", 0)
	if got := turn("a", 0); got != 0 {
		t.Errorf("%d tokens are predicted of an engine that reuses none", got)
	}
	x.r.Observe(x.now, route.Probed{Endpoint: "a", Report: fleet.Report{Healthy: true}}) // which says nothing of it
	if got := turn("a", 640); got != 0 {
		t.Errorf("%d tokens are predicted after a report that says nothing", got)
	}
	if got := turn("a", 1280); got == 0 {
		t.Error("nothing is predicted although an answer has reported cached tokens")
	}
	turn("b", 0)
	says(false)
	if got := turn("b", 0); got == 0 {
		t.Error("nothing is predicted although the engine has its cache again")
	}
}
