package live_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// The most that one hold of the lock may take in.
const (
	mostBlocks  = 512
	mostEnded   = 32
	mostCalled  = 32
	mostRenamed = 1
)

// TestEventsInSteps: long messages of KV events, reloads of aliases, and the end of another router are taken in as at
// once, and each entry is about little of them.
func TestEventsInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		config := route.Config{Policy: func() pick.Policy { return byChance{} }, Replicas: true}
		whole, peers := route.New(config), 0
		var f *live.Fleet
		var last []fleet.Alias
		f = live.New(route.New(config), func() time.Time { return now }, live.Listener{Entry: func(e *route.Entry) {
			switch ev := e.Event.(type) {
			case route.KVApplied:
				n := 0
				for i := range ev.Ops.List {
					n += len(ev.Ops.Of(&ev.Ops.List[i]))
				}
				if n > mostBlocks {
					t.Fatalf("%d blocks in one step", n)
				}
			case route.PeerGone:
				if ev.Partly {
					peers = max(0, peers-mostEnded)
				} else if peers > 0 {
					t.Fatalf("%d requests are left for the last step", peers)
				}
			case route.Configured:
				n := 0
				for _, a := range ev.Config.Aliases {
					n++
					for _, old := range last {
						if reflect.DeepEqual(a, old) {
							n--
						}
					}
				}
				if n > mostRenamed {
					t.Fatalf("%d aliases change in one step", n)
				}
				last = ev.Config.Aliases
			}
			if len(e.Dispatched) > mostCalled {
				t.Fatalf("%d requests are called in one step", len(e.Dispatched))
			}
		}})
		both := func(ev route.Event) {
			f.Observe(ev)
			whole.Observe(now, ev)
		}
		d := route.Declared{Source: "s"}
		for i := range 4 {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1,
			})
		}
		both(d)
		for i, e := range d.Endpoints {
			both(route.Probed{Endpoint: e.Name, Report: fleet.Report{
				Healthy: true, Models: []fleet.Model{{ID: fmt.Sprint("m", i%2)}}, CacheTokens: 1 << 20,
			}})
		}
		streams, hash, lease := map[string]*kvstream.Stream{}, uint64(0), fleet.Lease(0)
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			now = now.Add(time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				name := rapid.SampledFrom(d.Endpoints).Draw(t, "endpoint").Name
				if streams[name] == nil {
					streams[name] = kvstream.New(0)
				}
				s, b, ops := streams[name], kvstream.Batch{}, kvstream.Ops{}
				for range rapid.IntRange(1, 90).Draw(t, "operations") {
					e := b.Next()
					e.BlockTokens = 1
					if e.Kind = rapid.SampledFrom([]kvstream.Kind{
						kvstream.Stored, kvstream.Stored, kvstream.Removed,
					}).Draw(t, "kind"); e.Kind == kvstream.Removed {
						for k := range min(hash, uint64(rapid.IntRange(1, 1500).Draw(t, "removed"))) {
							e.Hashes = append(e.Hashes, hash-k)
						}
						continue
					}
					for range rapid.IntRange(1, 1500).Draw(t, "stored") {
						hash++
						e.Hashes, e.Tokens = append(e.Hashes, hash), append(e.Tokens, uint32(hash))
					}
				}
				s.Apply(s.Next(), &b, &ops)
				both(route.KVApplied{Endpoint: name, Ops: &ops, Blocks: s.Len(), Size: 1})
			case 1:
				config.Aliases = nil
				for _, name := range []string{"chat", "code", "m0"} {
					if rapid.Bool().Draw(t, name) {
						config.Aliases = append(config.Aliases, fleet.Alias{
							Name: name, Models: []string{rapid.SampledFrom([]string{"m0", "m1"}).Draw(t, "model")},
						})
					}
				}
				both(route.Configured{Config: config, Policies: rapid.Bool().Draw(t, "policies")})
			case 2:
				for range rapid.IntRange(1, 60).Draw(t, "placed") {
					lease++
					peers++
					both(route.PeerNews{
						Peer: 7, At: now, News: &route.News{Kind: route.NewsPlaced, Lease: lease, Placed: &route.Placed{
							Endpoint: route.NameHash(rapid.SampledFrom(d.Endpoints).Draw(t, "at").Name),
							Pool:     route.NameHash("m0"), PromptTokens: 100, OutputTokens: 10,
						}},
					})
				}
			case 3:
				both(route.PeerGone{Peer: 7})
			}
			if got, want := f.Status(), whole.Status(now); !reflect.DeepEqual(got, want) {
				t.Fatalf("the endpoints are\n%+v, want\n%+v", got, want)
			}
			if got, want := f.Models(), whole.Models(); !reflect.DeepEqual(got, want) {
				t.Fatalf("the models are %v, want %v", got, want)
			}
			for seed, model := range []string{"m0", "m1", "chat", "code"} {
				req := fleet.Request{Model: model, MintedID: "x", Seed: uint64(seed + 1)}
				p, err := f.Decide(&req)
				q, failed := whole.Decide(now, &req)
				if (err == nil) != (failed == nil) ||
					err == nil && (p.Endpoint.Name != q.Endpoint.Name || p.Candidates != q.Candidates) {
					t.Fatalf("%q goes to %s of %d (%v), want %s of %d (%v)", model, p.Endpoint.Name, p.Candidates, err,
						q.Endpoint.Name, q.Candidates, failed)
				}
				if err == nil {
					f.Observe(route.Finished{Lease: p.Lease})
					whole.Observe(now, route.Finished{Lease: q.Lease})
				}
			}
		}
	})
}

// TestReloadIsWhole: all but the aliases of a configuration is taken in at once, with the policies: what the views of
// decisions have goes by what policies need.
func TestReloadIsWhole(t *testing.T) {
	config := func(name string, aliases ...string) (c route.Config) {
		c.Policy = func() pick.Policy { return named{pick.Plain{Name: name}} }
		for _, a := range aliases {
			c.Aliases = append(c.Aliases, fleet.Alias{Name: a, Models: []string{name}})
		}
		return c
	}
	var told []string
	f := live.New(route.New(config("old", "a", "b")), time.Now, live.Listener{Entry: func(e *route.Entry) {
		ev := e.Event.(route.Configured)
		told = append(told, fmt.Sprint(ev.Config.Policy().Needs().Name, " ", len(ev.Config.Aliases), " ", ev.Policies))
	}})
	f.Observe(route.Configured{Config: config("new", "b", "c", "d"), Policies: true})
	if want := []string{
		"old 2 false", "old 3 false", "old 4 false", "old 3 false", "new 3 true",
	}; !reflect.DeepEqual(told, want) {
		t.Errorf("the steps are %q, want %q", told, want)
	}
}

// named is a policy that is known by its name.
type named struct{ pick.Plain }

func (named) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }

// TestCalledInSteps: when many requests are due at once, here since engines are sent more in advance, each step calls a
// few, and all are called.
func TestCalledInSteps(t *testing.T) {
	now := time.Unix(1000, 0)
	config := route.Config{
		Policy: func() pick.Policy { return byChance{} }, Queue: route.QueueConfig{Ahead: 100 * time.Millisecond},
	}
	called := 0
	f := live.New(route.New(config), func() time.Time { return now }, live.Listener{Entry: func(e *route.Entry) {
		if called += len(e.Dispatched); len(e.Dispatched) > mostCalled {
			t.Errorf("%d requests are called in one step", len(e.Dispatched))
		}
	}})
	f.Observe(route.Declared{Source: "s", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}}})
	f.Observe(route.Probed{Endpoint: "a", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	ask := func(bytes int, waits bool) route.Plan {
		p, err := f.Decide(&fleet.Request{ID: "r", Model: "m", PromptBytes: bytes, MayQueue: waits, Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for range 20 { // the engine computes prompts one after another
		var leases []fleet.Lease
		for range 4 {
			leases = append(leases, ask(40_000, false).Lease)
		}
		for _, l := range leases {
			now = now.Add(time.Second)
			f.Observe(route.FirstByte{Lease: l})
		}
		for _, l := range leases {
			f.Observe(route.Finished{
				Lease: l, Usage: fleet.Usage{PromptTokens: 10_000, OutputTokens: 10, CachedKnown: true},
			})
		}
	}
	var turns []<-chan struct{}
	for range 1000 {
		if p := ask(4000, true); p.Queued {
			turns = append(turns, f.Dispatched(p.Lease))
		}
	}
	if len(turns) < 900 {
		t.Fatalf("of 1,000 requests %d wait", len(turns))
	}
	called = 0
	config.Queue.Ahead = time.Hour
	f.Observe(route.Configured{Config: config})
	for _, turn := range turns {
		select {
		case <-turn:
		default:
			t.Fatalf("of %d requests that waited %d are called", len(turns), called)
		}
	}
}
