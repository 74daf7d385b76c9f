package probe

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestComputes: what an engine leaves unanswered while it has requests says nothing, up to a bound. Whatever else is
// wrong with it counts as it does for an engine that has none.
func TestComputes(t *testing.T) {
	const never = time.Duration(0)
	hangs := func(f *fakeEngine) { f.hang = true }
	for _, test := range []struct {
		name       string
		kind       fleet.Kind
		works      time.Duration // how long it has requests
		breakIt    func(f *fakeEngine)
		lasts      time.Duration // how long it is broken
		unanswered bool          // and told to be
		least      time.Duration // not down before
		most       time.Duration // down by then; 0 never
	}{
		{
			"a long prompt at a server of an unknown kind", fleet.KindOther, time.Hour, hangs, 110 * time.Second,
			true, never, never,
		},
		{
			"a long prompt at an engine that answers late", fleet.KindSGLang, time.Hour, hangs, 25 * time.Second,
			true, never, never,
		},
		{"one question too late", fleet.KindVLLM, time.Hour, hangs, 2300 * time.Millisecond, false, never, never},
		{
			"it hangs, and nobody knows its kind", fleet.KindOther, time.Hour, hangs, time.Hour, true, 2 * time.Minute,
			140 * time.Second,
		},
		{"it hangs", fleet.KindVLLM, time.Hour, hangs, time.Hour, true, 30 * time.Second, 50 * time.Second},
		{
			"it hangs, and its requests are gone", fleet.KindOther, 10 * time.Second, hangs, time.Hour, true,
			10 * time.Second, 25 * time.Second,
		},
		{"it hangs and has no requests", fleet.KindOther, 0, hangs, time.Hour, false, never, 10 * time.Second},
		{
			"it is gone", fleet.KindOther, time.Hour, func(f *fakeEngine) { f.refuse = true }, time.Hour, false,
			never, 3 * time.Second,
		},
		{
			"it has an error", fleet.KindOther, time.Hour, func(f *fakeEngine) { f.status["/health"] = 500 }, time.Hour,
			false, never, 6 * time.Second,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, rec, works := newFake(map[string]string{"/health": "", "/ready": "", "/v1/models": `{"data":[]}`}),
					&record{}, new(atomic.Bool)
				p := New(Config{}, &http.Client{Transport: f}, rec.observe,
					func(string, string) bool { return works.Load() },
					slog.New(slog.DiscardHandler))
				p.Set([]fleet.Endpoint{{Name: "a", URL: "http://a", Kind: test.kind}})
				ctx, stop := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer stop()
				go p.Run(ctx)
				time.Sleep(5 * time.Second)
				if r, _ := rec.last("a"); !r.Healthy {
					t.Fatalf("not up at first: %+v", r)
				}
				began := time.Now()
				works.Store(test.works > 0)
				defer time.AfterFunc(test.works, func() { works.Store(false) }).Stop()
				defer time.AfterFunc(test.lasts, func() { f.set(func() { f.hang = false }) }).Stop()
				f.set(func() { test.breakIt(f) })
				time.Sleep(4 * time.Minute)
				rec.mu.Lock()
				defer rec.mu.Unlock()
				down, unanswered := never, false
				for i, e := range rec.events {
					unanswered = unanswered || e.Report.Unanswered && e.Report.Healthy
					if at := rec.at[i].Sub(began); !e.Report.Healthy && down == 0 {
						down = at
					}
				}
				if unanswered != test.unanswered {
					t.Errorf("told to leave questions unanswered: %v, want %v", unanswered, test.unanswered)
				}
				if down < test.least || down > test.most || down == 0 && test.most > 0 {
					t.Errorf("down after %v, want from %v to %v (0 for never)", down, test.least, test.most)
				}
				if r := rec.events[len(rec.events)-1].Report; test.most == 0 && (!r.Healthy || r.Unanswered) {
					t.Errorf("in the end: %+v", r)
				}
			})
		})
	}
}
