package saturation_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/saturation"
	"github.com/warmpath/warmpath/route"
)

var now = time.Unix(1_700_000_000, 0)

func endpoint(name string, change func(*route.EndpointStatus)) route.EndpointStatus {
	e := route.EndpointStatus{Endpoint: fleet.Endpoint{Name: name, Weight: 1}, State: fleet.StateUp, KVUsage: -1}
	if change != nil {
		change(&e)
	}
	return e
}

func TestSample(t *testing.T) {
	busy := func(e *route.EndpointStatus) { e.PromptMs, e.WaitMs = 800, 900 }
	for _, tt := range []struct {
		name string
		of   []route.EndpointStatus
		want string // endpoints prompts answers kv wait
	}{
		{"idle", []route.EndpointStatus{endpoint("a", nil), endpoint("b", nil)}, "2 0 -1 -1 0"},
		{
			"one computes a prompt: a new one goes to the other",
			[]route.EndpointStatus{endpoint("a", busy), endpoint("b", nil)},
			"2 0.5 -1 -1 0",
		},
		{"both do", []route.EndpointStatus{endpoint("a", busy), endpoint("b", busy)}, "2 1 -1 -1 900"},
		{"those that take no requests count not", []route.EndpointStatus{
			endpoint("a", busy),
			endpoint("b", func(e *route.EndpointStatus) { e.State = fleet.StateDown }),
			endpoint("c", func(e *route.EndpointStatus) { e.State = fleet.StateUnknown }),
			endpoint("d", func(e *route.EndpointStatus) { e.State = fleet.StateEjected }),
			endpoint("e", func(e *route.EndpointStatus) { e.Draining = true }),
			endpoint("f", func(e *route.EndpointStatus) { e.Gone = true }),
			endpoint("g", func(e *route.EndpointStatus) { e.Endpoint.Weight = 0 }),
			endpoint("h", func(e *route.EndpointStatus) { e.Report.Sleep = fleet.Asleep }),
		}, "1 1 -1 -1 900"},
		{
			"one that refuses for two seconds is full",
			[]route.EndpointStatus{endpoint("a", func(e *route.EndpointStatus) {
				e.State, e.Until = fleet.StateBusy, now.Add(2*time.Second)
			})},
			"1 0 -1 -1 2000",
		},
		{"places, of those that tell them; more requests than places take all", []route.EndpointStatus{
			endpoint("a", func(e *route.EndpointStatus) { e.Places, e.Load.Requests = 4, 9 }),
			endpoint("b", func(e *route.EndpointStatus) { e.Places, e.Load.Requests, e.Load.Queued = 4, 3, 2 }),
			endpoint("c", func(e *route.EndpointStatus) { e.Load.Requests = 100 }),
		}, "3 0 0.625 -1 0"},
		{"requests of other routers", []route.EndpointStatus{endpoint("a", func(e *route.EndpointStatus) {
			e.Places, e.Report.Load = 4, &fleet.LoadReport{Running: 3}
		})}, "1 0 0.75 -1 0"},
		{"larger caches weigh more", []route.EndpointStatus{
			endpoint("a", func(e *route.EndpointStatus) { e.KVUsage, e.CacheTokens = 1, 1000 }),
			endpoint("b", func(e *route.EndpointStatus) { e.KVUsage, e.CacheTokens = 0, 3000 }),
		}, "2 0 -1 0.25 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var full saturation.Table
			full.Look(now, tt.of, []fleet.ModelStatus{{ID: "m", Endpoints: names(tt.of)}})
			pools := full.Pools()
			if len(pools) != 1 {
				t.Fatalf("%v", pools)
			}
			p := pools[0]
			if got := fmt.Sprintf("%d %v %v %v %v", p.Endpoints, p.Prompts, p.Answers, p.KV, p.WaitMs); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func names(of []route.EndpointStatus) (all []string) {
	for i := range of {
		all = append(all, of[i].Endpoint.Name)
	}
	return all
}

// TestSteady: prompts that are computed now and then show as the share of time that they take; a fleet that fills up
// shows it within minutes; a pool that has had no endpoint begins anew.
func TestSteady(t *testing.T) {
	var full saturation.Table
	models := []fleet.ModelStatus{{ID: "m", Endpoints: []string{"a", "b"}}}
	look := func(busy bool) float64 {
		e := endpoint("a", nil)
		if busy {
			e.PromptMs = 1
		}
		full.Look(now, []route.EndpointStatus{e}, models)
		return full.Pools()[0].Prompts
	}
	for i := range 1000 {
		if got := look(i%10 < 3); i >= 400 && math.Abs(got-0.3) > 0.05 {
			t.Fatalf("after %d s: %v, want about 0.3", i, got)
		}
	}
	n, got := 0, 0.0
	for got < 0.8 {
		got = look(true)
		n++
	}
	if n < 60 || n > 180 {
		t.Errorf("it took %d s to show a full fleet", n)
	}
	if full.Look(now, nil, models); len(full.Pools()) != 0 {
		t.Errorf("a pool without endpoints is so full: %v", full.Pools())
	}
	if got := look(false); got != 0 {
		t.Errorf("it remembers %v from before it had no endpoint", got)
	}
}

// TestMeans: whatever is looked at, shares stay within 0 and 1 and the pools are those that have endpoints, 200 at
// most.
func TestMeans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var full saturation.Table
		for range rapid.IntRange(1, 8).Draw(t, "looks") {
			var status []route.EndpointStatus
			for i := range rapid.IntRange(0, 4).Draw(t, "endpoints") {
				status = append(status, endpoint(fmt.Sprint(i), func(e *route.EndpointStatus) {
					e.State = rapid.SampledFrom([]fleet.State{fleet.StateUp, fleet.StateDown, fleet.StateBusy}).Draw(t,
						"state")
					e.PromptMs, e.WaitMs = rapid.Float64Range(0, 1e6).Draw(t, "prompt"),
						rapid.Float64Range(0, 1e6).Draw(t, "wait")
					e.Places, e.Load.Requests = rapid.IntRange(0, 3).Draw(t, "places"),
						rapid.IntRange(0, 9).Draw(t, "requests")
					e.KVUsage, e.CacheTokens = rapid.SampledFrom([]float64{-1, 0, 0.5, 1}).Draw(t, "kv"),
						rapid.Int64Range(0, 1e6).Draw(t, "cache")
				}))
			}
			var models []fleet.ModelStatus
			want := 0
			for i := range rapid.SampledFrom([]int{0, 1, 3, 230}).Draw(t, "models") {
				m := fleet.ModelStatus{ID: fmt.Sprintf("%03d", i)}
				for j := range status {
					if rapid.Bool().Draw(t, "serves") {
						m.Endpoints = append(m.Endpoints, status[j].Endpoint.Name)
					}
				}
				served := false
				for _, name := range m.Endpoints {
					for j := range status {
						served = served || status[j].Endpoint.Name == name && status[j].State != fleet.StateDown
					}
				}
				if served {
					want++
				}
				models = append(models, m)
			}
			full.Look(now, status, models)
			pools := full.Pools()
			if len(pools) != min(want, 200) {
				t.Fatalf("%d pools, want %d", len(pools), min(want, 200))
			}
			for _, p := range pools {
				for _, share := range []float64{p.Prompts, max(0, p.Answers), max(0, p.KV)} {
					if !(share >= 0 && share <= 1) {
						t.Fatalf("%+v", p)
					}
				}
				if p.Endpoints < 1 || !(p.WaitMs >= 0) {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

// counting is a fleet of one idle endpoint that counts how often it is looked at.
type counting struct {
	mu    sync.Mutex
	looks int
}

func (c *counting) Status() []route.EndpointStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	return []route.EndpointStatus{endpoint("a", nil)}
}

func (*counting) Models() []fleet.ModelStatus {
	return []fleet.ModelStatus{{ID: "m", Endpoints: []string{"a"}}}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full saturation.Table
		ctx, cancel := context.WithCancel(t.Context())
		of := &counting{}
		go full.Run(ctx, of)
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if of.looks != 10 || len(full.Pools()) != 1 {
			t.Errorf("%d looks in 10 s, pools %v", of.looks, full.Pools())
		}
	})
}
