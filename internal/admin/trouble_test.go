package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTroubles(t *testing.T) {
	ptr := func(x float64) *float64 { return &x }
	up := func(name string, change func(*endpointView)) endpointView {
		e := endpointView{
			Name: name, URL: "http://" + name, Kind: "vllm", State: "up", Weight: 1, Models: []string{"m"},
		}
		if change != nil {
			change(&e)
		}
		return e
	}
	quiet := statsView{Ready: true, UptimeSeconds: 600, SessionHits: 90, SessionMisses: 10}
	minute := func(p point) []point {
		out := make([]point, judged)
		for i := range out {
			out[i] = p
		}
		return out
	}
	for _, c := range []struct {
		name      string
		endpoints []endpointView
		stats     statsView
		past      []point
		replicas  string
		want      []string // severity and beginning or part of each
	}{
		{
			"nothing",
			[]endpointView{up("a", nil)},
			quiet, minute(point{Requests: 100, HitRate: ptr(.9), Balance: ptr(1.1)}), "", nil,
		},
		{"no endpoint", nil, quiet, nil, "", []string{"bad There is no endpoint"}},
		{
			"an Ollama without a pulled model",
			[]endpointView{
				up("a", func(e *endpointView) { e.Kind, e.Models = "ollama", nil }),
				up("b", func(e *endpointView) { e.Kind, e.Models = "other", nil }),
			},
			quiet, nil, "",
			[]string{"warn It lists no models", "warn Perhaps no engine"},
		},
		{
			"engines that want a key",
			[]endpointView{
				up("a", func(e *endpointView) { e.Guarded, e.Models = true, nil }),
				up("b", func(e *endpointView) { e.Guarded, e.Kind, e.Models = true, "other", nil }),
				up("c", func(e *endpointView) { e.Guarded = true }), // its models are in the configuration
			},
			quiet, nil, "",
			[]string{"warn It lists its models only to those who", "warn It lists its models only to those who"},
		},
		{
			"more models than are read",
			[]endpointView{up("a", func(e *endpointView) { e.MoreModels = 904 })},
			quiet, nil, "",
			[]string{"warn It lists more models than are read: requests for 904 of"},
		},
		{
			"an engine of an unknown kind that answers",
			[]endpointView{up("a", func(e *endpointView) {
				e.Kind, e.Models, e.Served = "other", nil, &heardOf{Requests: 2, Failed: 1}
			})},
			quiet, nil, "", nil,
		},
		{
			"each engine has a name of its own for its model",
			[]endpointView{
				up("a", func(e *endpointView) { e.Models = []string{"/a/m.gguf"} }),
				up("b", func(e *endpointView) { e.Models = []string{"/b/m.gguf"} }),
			},
			quiet, nil, "",
			[]string{"note No two engines serve the same model, so there is nothing to choose: /a/m.gguf, /b/m.gguf."},
		},
		{
			"two models, one of them at two engines",
			[]endpointView{
				up("a", nil), up("b", func(e *endpointView) { e.Models = []string{"n", "m"} }),
			},
			quiet, nil, "", nil,
		},
		{
			"two models that an alias unites",
			[]endpointView{
				up("a", nil), up("b", func(e *endpointView) { e.Models = []string{"n"} }),
			},
			statsView{Ready: true, UptimeSeconds: 600, Aliases: []aliasView{{Alias: "x"}}},
			nil, "", nil,
		},
		{
			"slots of one engine",
			[]endpointView{
				up("a", func(e *endpointView) { e.URL, e.Part, e.Models = "http://e", "slot0", []string{"m"} }),
				up("b", func(e *endpointView) { e.URL, e.Part, e.Models = "http://e", "slot1", []string{"n"} }),
			},
			quiet, nil, "", nil,
		},
		{
			"held",
			[]endpointView{up("a", func(e *endpointView) { e.WorkingSet, e.WorkingRoom = 90, 100 })},
			statsView{Ready: true, Held: 2, HeldTokens: 40},
			nil, "",
			[]string{
				"note Held turns: 2. The caches have no room for all sessions under way, which need 130 % of them.",
			},
		},
		{
			"models are not known at once",
			[]endpointView{up("a", func(e *endpointView) { e.Models = nil })},
			statsView{Ready: true, UptimeSeconds: 1},
			nil, "", nil,
		},
		{
			"an alias of nothing",
			[]endpointView{up("a", nil)},
			statsView{Ready: true, UptimeSeconds: 600, Unserved: []string{"fast = simulatd"}},
			nil, "",
			[]string{"warn No engine serves what an alias stands for: fast = simulatd."},
		},
		{
			"not ready",
			[]endpointView{up("a", func(e *endpointView) { e.State, e.Detail = "down", "connection refused" })},
			statsView{Why: "no endpoint is up", UptimeSeconds: 5},
			nil, "",
			[]string{"bad The router is not ready: no endpoint is up", "bad Down: connection refused"},
		},
		{"busy for a while", []endpointView{up("a", func(e *endpointView) {
			e.State, e.UntilSeconds = "busy", ptr(4)
		})}, quiet, nil, "", []string{"warn Busy."}},
		{"ejected", []endpointView{up("a", func(e *endpointView) {
			e.State = "ejected"
		})}, quiet, nil, "", []string{"bad Ejected"}},
		{"unknown at the start", []endpointView{up("a", func(e *endpointView) {
			e.State = "unknown"
		})}, statsView{Ready: true, UptimeSeconds: 3}, nil, "", nil},
		{"unknown for long", []endpointView{up("a", func(e *endpointView) {
			e.State = "unknown"
		})}, quiet, nil, "", []string{"warn No answer to a health check"}},
		{
			"a page is refused",
			[]endpointView{up("a", nil)},
			statsView{Ready: true, UptimeSeconds: 600, Foreign: &foreignPage{Name: "llm.example"}},
			nil, "",
			[]string{`warn Requests of a browser are refused, since the name is not known here: "llm.example".`},
		},
		{"another model", []endpointView{up("a", nil)}, statsView{Ready: true, UptimeSeconds: 600, Misnamed: &misnamed{
			Endpoint: "a", Model: "llama",
		}}, nil, "", []string{"warn Its engine does not have a model that it is declared with: llama."}},
		{"no salt", []endpointView{up("a", nil)}, statsView{Ready: true, UptimeSeconds: 600, Unsalted: &unsalted{
			Endpoint: "a", API: "messages",
		}}, nil, "", []string{`warn Tenants share this engine's cache although tenants.cache_salt is on: it takes no salt in the API messages.`}},
		{
			"asleep",
			[]endpointView{up("a", func(e *endpointView) { e.Sleep, e.Detail = "asleep", "discard_all" })},
			quiet, nil, "",
			[]string{"warn Asleep: it gets no requests: discard_all"},
		},
		{"paused", []endpointView{up("a", func(e *endpointView) {
			e.Sleep, e.Detail = "paused", "POST /resume ends it"
		})}, quiet, nil, "", []string{"warn Paused: it gets no requests: POST /resume ends it"}},
		{"dozing", []endpointView{up("a", func(e *endpointView) {
			e.Sleep = "dozing"
		})}, quiet, nil, "", []string{"note Asleep since it had nothing to do"}},
		{
			"ranks that are not declared",
			[]endpointView{up("a", func(e *endpointView) { e.Engine.Ranks = 4 })},
			quiet, nil, "",
			[]string{"warn It has 4 ranks, 0 of them declared:"},
		},
		{
			"some ranks",
			[]endpointView{
				up("a", func(e *endpointView) { e.URL, e.Part, e.Engine.Ranks = "http://e", "rank0", 3 }),
				up("b", func(e *endpointView) { e.URL, e.Part, e.Engine.Ranks = "http://e", "rank1", 3 }),
			},
			quiet, nil, "",
			[]string{"warn It has 3 ranks, 2 of them declared:"},
		},
		{
			"all ranks",
			[]endpointView{
				up("a", func(e *endpointView) { e.URL, e.Part, e.Engine.Ranks = "http://e", "rank0", 2 }),
				up("b", func(e *endpointView) { e.URL, e.Part, e.Engine.Ranks = "http://e", "rank1", 2 }),
			},
			quiet, nil, "", nil,
		},
		{"one rank", []endpointView{up("a", func(e *endpointView) { e.Engine.Ranks = 1 })}, quiet, nil, "", nil},
		{"slots that are not declared", []endpointView{up("a", func(e *endpointView) {
			e.Kind, e.Engine.Slots, e.Engine.SlotCache = "llamacpp", 4, "kept"
		})}, quiet, nil, "", []string{"note It has 4 slots and chooses one for each request itself"}},
		{"slots of which nothing is known", []endpointView{up("a", func(e *endpointView) {
			e.Kind, e.Engine.Slots = "llamacpp", 4
		})}, quiet, nil, "", nil},
		{"slots that share", []endpointView{up("a", func(e *endpointView) {
			e.Kind, e.Engine.Slots, e.Engine.SlotCache = "llamacpp", 4, "cleared"
		})}, quiet, nil, "", nil},
		{"declared slots that share", []endpointView{up("a", func(e *endpointView) {
			e.Kind, e.Part, e.Engine.Slots, e.Engine.SlotCache = "llamacpp", "slot0", 1, "cleared"
		})}, quiet, nil, "", []string{"warn Its slots share one context and are emptied"}},
		{
			"places of an engine that has no slots",
			[]endpointView{up("a", func(e *endpointView) { e.Engine.Slots = 64 })},
			quiet, nil, "", nil,
		},
		{"drained", []endpointView{up("a", func(e *endpointView) {
			e.Draining = true
		})}, quiet, nil, "", []string{"note Drained"}},
		{"draining", []endpointView{up("a", func(e *endpointView) {
			e.Draining, e.Load.Requests = true, 2
		})}, quiet, nil, "", []string{"note Draining; requests still there: 2."}},
		{"weight 0", []endpointView{up("a", func(e *endpointView) {
			e.Weight = 0
		})}, quiet, nil, "", []string{"note Weight 0"}},
		{
			"gone",
			[]endpointView{up("a", func(e *endpointView) { e.Gone, e.State = true, "down" })},
			quiet, nil, "", nil,
		},
		{"cache full", []endpointView{up("a", func(e *endpointView) {
			e.Engine.KVUsage = ptr(.99)
		})}, quiet, nil, "", []string{"warn The KV cache is full"}},
		{"cached tokens not reported", []endpointView{up("a", func(e *endpointView) {
			e.Served = &heardOf{Requests: 80}
		})}, quiet, nil, "", []string{"warn It does not report cached tokens"}},
		{"cache lost", []endpointView{up("a", func(e *endpointView) {
			e.CacheLosses = 2
		})}, quiet, nil, "", []string{"note Losses of its cache: 2."}},
		{
			"failures",
			[]endpointView{up("a", nil)},
			quiet, minute(point{Requests: 100, Failed: 3}), "",
			[]string{"bad 3.0 %"},
		},
		{"few failures", []endpointView{up("a", nil)}, quiet, minute(point{Requests: 1000, Failed: 3}), "", nil},
		{
			"no hits",
			[]endpointView{up("a", nil)},
			quiet, minute(point{Requests: 100, HitRate: ptr(.01)}), "",
			[]string{"warn Conversations return, but"},
		},
		{
			"no hits, but no conversation returns",
			[]endpointView{up("a", nil)},
			statsView{Ready: true, SessionMisses: 10},
			minute(point{Requests: 100, HitRate: ptr(.01)}), "", nil,
		},
		{
			"uneven",
			[]endpointView{up("a", nil), up("b", nil), up("c", nil)},
			quiet, minute(point{Requests: 100, Balance: ptr(2.5)}), "",
			[]string{"warn Uneven"},
		},
		{
			"uneven because one is drained",
			[]endpointView{up("a", nil), up("b", nil), up("c", func(e *endpointView) { e.Draining = true })},
			quiet, minute(point{Requests: 100, Balance: ptr(2.5)}), "",
			[]string{"note Drained"},
		},
		{"a better policy", []endpointView{up("a", nil)}, quiet, minute(point{
			Requests: 1, Policies: []modeled{{Policy: "x", TTFT: ptr(.1)}, {Policy: "y", TTFT: ptr(.05)}},
		}), "", []string{"note By the router's model y would have brought the first token 50 %"}},
		{
			"limited",
			[]endpointView{up("a", nil)},
			quiet, minute(point{Requests: 100, Limited: 3, Limit: "tenants.each.running"}), "",
			[]string{
				"warn 18 of the last minute's requests were refused by limits, lately most by tenants.each.running",
			},
		},
		{"queued", []endpointView{up("a", func(e *endpointView) {
			e.Load.Queued = 3
		})}, quiet, nil, "", []string{"note Requests in the router's queue: 3."}},
		{"concerns", []endpointView{up("a", nil)}, statsView{Ready: true, concerns: []Concern{
			{"100 % odd", "Look."},
		}}, nil, "", []string{"warn 100 % odd"}},
		{
			"concluded twice",
			[]endpointView{up("a", nil)},
			statsView{Ready: true, DoubleFinished: 1},
			nil, "",
			[]string{"note Requests that were concluded twice, a fault of this program: 1."},
		},
		{
			"configuration",
			[]endpointView{up("a", nil)},
			statsView{Ready: true, Config: &Running{Fault: "x: bad", Restart: []string{"listen"}}},
			nil, "",
			[]string{
				"bad The latest configuration was rejected: x: bad", "note Changed settings wait for a restart: listen",
			},
		},
		{
			"replicas",
			[]endpointView{up("a", nil)},
			quiet, nil, `{"problem":"no route","learning":true,"peers":[{"router":"r1","differs":"policy","synced":true},{"router":"r2"}]}`,
			[]string{
				"warn Router r1 is configured otherwise", "note Not all other routers may be heard: no route",
				"note This router is learning", "note Router r2",
			},
		},
		{
			"no way to others",
			[]endpointView{up("a", nil)},
			quiet, nil, `{"problem":"no route","peers":[]}`,
			[]string{"warn Other routers cannot be heard: no route"},
		},
		{"alone", []endpointView{up("a", nil)}, quiet, nil, `{"peers":[]}`, []string{"note No other router"}},
		{
			"not all routers are reached",
			[]endpointView{up("a", nil)},
			quiet, nil, `{"unheard":"10.0.0.2:7946: connect: connection refused","strange":"router r2 speaks version 9","peers":[]}`,
			[]string{
				"warn Another router is there: router r2 speaks version 9.",
				"note Not all addresses in peers.routers are reached: 10.0.0.2:7946",
			},
		},
		{
			"routers are missing",
			[]endpointView{up("a", nil)},
			quiet, nil, `{"routers":3,"peers":[{"router":"r1","synced":true}]}`,
			[]string{"warn 2 of 3 routers hear each other"},
		},
		{
			"nothing is kept",
			[]endpointView{up("a", nil)},
			quiet, nil, `{"peers":[{"router":"r1","synced":true}],"kept":{"problem":"OOM","dropped":3}}`,
			[]string{
				"warn What is learnt is not kept for a restart of all routers: OOM",
				"note 3 conversations were not kept",
			},
		},
	} {
		got := listTroubles(c.endpoints, &c.stats, c.past, json.RawMessage(c.replicas))
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.HasPrefix(got[i].Severity+" "+got[i].What, c.want[i]) && got[i].Do != ""
		}
		if !ok {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}

// TestTroublesOfMany: what many endpoints share is told once.
func TestTroublesOfMany(t *testing.T) {
	var all []endpointView
	for i := range 9 {
		all = append(all, endpointView{
			Name: fmt.Sprint("e", i), State: "down", Detail: "connection refused", Weight: 1,
		})
	}
	all[8].State, all[8].Draining = "up", true
	got := listTroubles(all, &statsView{Ready: true}, nil, nil)
	if len(got) != 2 || !strings.HasPrefix(got[0].What, "8 endpoints, e0, e1 and others. Down") ||
		got[0].Endpoint != "" || got[1].Endpoint != "e8" {
		t.Errorf("got %+v", got)
	}
}
