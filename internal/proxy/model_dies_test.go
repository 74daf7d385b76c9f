package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestModelDies: when all engines of one of an alias's models die, each request under way that has no token yet is
// answered by the other model, on every API, whatever was known of the engines before: a conversation moves with it.
func TestModelDies(t *testing.T) {
	bothFail := func(r *rig, f route.Finished) { r.fails("e0", f); r.fails("e1", f) }
	bothSay := func(r *rig, report fleet.Report) { r.probed("e0", report); r.probed("e1", report) }
	for _, known := range []struct {
		name   string
		before func(r *rig)
	}{
		{"nothing", func(*rig) {}},
		{"one is down", func(r *rig) { r.probed("e1", fleet.Report{}) }},
		{"both are down", func(r *rig) {
			bothSay(r, fleet.Report{})
		}},
		{"one is being drained", func(r *rig) { r.fleet.Observe(route.Drain{Endpoint: "e0"}) }},
		{"both are ejected", func(r *rig) { bothFail(r, route.Finished{Outcome: fleet.ConnectFailed}) }},
		{"both are tested again", func(r *rig) {
			bothFail(r, route.Finished{Outcome: fleet.ConnectFailed})
			bothSay(r, fleet.Report{Healthy: true})
		}},
		{"probes get no answer", func(r *rig) {
			bothSay(r, fleet.Report{Healthy: true, Unanswered: true})
		}},
		{"another request was refused", func(r *rig) {
			bothFail(r, route.Finished{Outcome: fleet.Busy, RetryAfter: time.Minute})
		}},
		{"others failed", func(r *rig) {
			for range 3 {
				bothFail(r, route.Finished{Outcome: fleet.EngineError})
			}
		}},
	} {
		for alias, a := range map[string]fleet.Alias{
			"shares": {Name: "fast", Models: []string{"big", "small"}, Shares: []float64{100, 0}},
			"order":  {Name: "fast", Models: []string{"big", "small"}, Overflow: make([]time.Duration, 2)},
		} {
			for died, refuses := range map[string]bool{"refuse connections": true, "break off": false} {
				for _, api := range aliasAPIs {
					if api.name == "rerank" {
						continue // it may have had an effect at an engine that breaks off
					}
					t.Run(strings.Join([]string{known.name, alias, died, api.name}, ", "), bubbled(func(t *testing.T) {
						var dead atomic.Bool
						engine := func(model string) *httptest.Server {
							return engineServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
								if model == "big" && dead.Load() {
									panic(http.ErrAbortHandler)
								}
								answers(200, api.answer, "X-Model", model)(w, r)
							}))
						}
						big := []*httptest.Server{engine("big"), engine("big")}
						r := newFleet(t, proxy.Config{}, transportOf(t), []fleet.Endpoint{
							{Name: "e0", URL: big[0].URL, Weight: 1},
							{Name: "e1", URL: big[1].URL, Weight: 1},
							{Name: "s", URL: engine("small").URL, Weight: 1},
						})
						r.listen(t)
						r.fleet.Observe(route.Configured{Config: route.Config{
							Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10, Aliases: []fleet.Alias{a},
						}})
						for name, model := range map[string]string{"e0": "big", "e1": "big", "s": "small"} {
							r.probed(name, fleet.Report{
								Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: model}},
							})
						}
						ask := func() (int, string) {
							res, _ := r.post(api.path, api.body,
								"X-Session-ID", "under way", "Authorization", "Bearer key")
							return res.StatusCode, res.Header.Get("X-Model")
						}
						for range 2 {
							if status, model := ask(); status != 200 || model != "big" {
								t.Fatalf("at first: %d of %q", status, model)
							}
						}
						known.before(r)
						if dead.Store(true); refuses {
							big[0].Close()
							big[1].Close()
						}
						for turn := range 2 {
							if status, model := ask(); status != 200 || model != "small" {
								t.Errorf("turn %d after their death: %d of %q", turn, status, model)
							}
						}
					}))
				}
			}
		}
	}
}

// probed tells the fleet what a probe has found.
func (r *rig) probed(endpoint string, report fleet.Report) {
	r.fleet.Observe(route.Probed{Endpoint: endpoint, Report: report})
}

// fails ends a request of somebody else at an endpoint.
func (r *rig) fails(endpoint string, f route.Finished) {
	r.t.Helper()
	p, err := r.fleet.Decide(&fleet.Request{Model: "fast", Pin: endpoint})
	if err != nil {
		r.t.Fatal(err)
	}
	f.Lease = p.Lease
	r.fleet.Observe(f)
}
