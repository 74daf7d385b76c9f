package route

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
)

// shortlistPolicy keeps conversations at home, and may be shown a part of the pool.
type shortlistPolicy struct{ firstPolicy }

func (shortlistPolicy) Needs() pick.Needs { return pick.Needs{Name: "first", Shortlist: true} }

func (shortlistPolicy) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: max(0, v.Home)}
}

// TestKVInLargePools: events say as much of the endpoints on a shortlist as of all in a small pool.
func TestKVInLargePools(t *testing.T) {
	for _, shortlist := range []int{-1, 2} {
		w := newKVWorld(t)
		w.r = New(Config{Policy: func() pick.Policy { return shortlistPolicy{} }, Shortlist: shortlist})
		d := Declared{Source: "s"}
		for i := range 24 {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1, Models: []string{"m"},
			})
		}
		w.observe(d)
		for _, e := range d.Endpoints {
			w.observe(Probed{Endpoint: e.Name, Report: fleet.Report{
				Healthy: true, Kind: fleet.KindVLLM, BlockTokens: 16, CacheTokens: 100_000,
			}})
			w.streams[e.Name] = kvstream.New(0)
			w.observe(KVStreamState{Endpoint: e.Name, State: kvstream.Exact, Detail: "followed"})
		}
		tokens, c := kvPrompt(320, 320, 1)
		w.turn("x", "e7", "x", tokens, c, 0)
		w.tell("e7", removedFrom(tokens, 25))
		_, longer := kvPrompt(320, 480, 1)
		p, err := w.r.Decide(w.now, &fleet.Request{
			Model: "m", Session: "x", Content: longer, PromptBytes: longer.Bytes, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if short := p.View.Beyond.Count > 0; short != (shortlist > 0) {
			t.Errorf("shortlist of %d: %d endpoints have no row", shortlist, p.View.Beyond.Count)
		}
		if p.Endpoint.Name != "e7" || p.CachedTokens != 400 {
			t.Errorf("shortlist of %d: %d cached at %s, want 400 at e7", shortlist, p.CachedTokens, p.Endpoint.Name)
		}
	}
}
