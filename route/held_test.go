package route

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"pgregory.net/rapid"
)

// counter sends requests around and records the candidates' resident tokens.
type counter struct {
	next int
	seen []pick.Candidate
	view pick.View
}

func (*counter) Needs() pick.Needs { return pick.Needs{Name: "counter", Active: true} }

func (*counter) Hooks() pick.Hooks { return pick.Hooks{} }

func (c *counter) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	c.view, c.seen = *v, append(c.seen[:0], v.Candidates...)
	return pick.Choice{Index: c.next % len(v.Candidates), Reason: "test"}
}

// TestHeldBlocksAreCountedOnce compares with a set of all blocks of outstanding requests, and their memory. A token is 4 bytes
// before any sample.
func TestHeldBlocksAreCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &counter{}
		now := time.Unix(1_000_000, 0)
		r := New(Config{Policy: func() pick.Policy { return c }})
		r.Observe(now, Declared{Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1}}})
		for _, n := range []string{"a", "b"} {
			r.Observe(now, Probed{Endpoint: n, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
		}
		type flying struct {
			lease fleet.Lease
			at    int
			chain []uint64
		}
		var open []flying
		held := func(at int, chain []uint64) (blocks, adds int) {
			set := map[uint64]bool{}
			for _, f := range open {
				for _, b := range f.chain {
					set[b] = set[b] || f.at == at
				}
			}
			for _, mine := range set {
				if mine {
					blocks++
				}
			}
			for _, b := range chain {
				if !set[b] {
					adds++
				}
			}
			return blocks, adds
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "ends") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				r.Observe(now, Finished{Lease: open[i].lease, Outcome: fleet.ClientGone})
				open = append(open[:i], open[i+1:]...)
				continue
			}
			var chain []uint64
			name := uint64(1)
			for range rapid.IntRange(1, 8).Draw(t, "blocks") {
				name = blocks.Scramble(name + uint64(rapid.IntRange(0, 1).Draw(t, "part")))
				chain = append(chain, name)
			}
			c.next = rapid.IntRange(0, 1).Draw(t, "at")
			bytes := len(chain) * fleet.BlockBytes
			d, err := r.Decide(now, &fleet.Request{ID: "x", Model: "m", PromptBytes: bytes, MintedID: "x", Content: &fleet.Content{Blocks: chain, Bytes: bytes}})
			if err != nil || !c.view.Counted {
				t.Fatalf("%v, counted %v", err, c.view.Counted)
			}
			for at := range c.seen {
				blocks, _ := held(at, nil)
				var mine []flying
				for _, f := range open {
					if f.at == at {
						mine = append(mine, f)
					}
				}
				all := open
				open = mine
				_, adds := held(at, chain)
				open = all
				perBlock := float64(c.view.PromptTokens) / float64(len(chain))
				if got := c.seen[at].ActiveTokens; got != int64(float64(blocks)*perBlock) {
					t.Fatalf("endpoint %d holds %d tokens, want %d blocks", at, got, blocks)
				}
				if got := c.seen[at].AddsTokens; got != int(float64(adds)*perBlock) {
					t.Fatalf("endpoint %d would get %d tokens more, want %d blocks", at, got, adds)
				}
			}
			open = append(open, flying{d.Lease, c.next, chain})
			at := -1
			for ep := range r.endpoints.All() {
				at++
				var want int64
				mine := map[uint64]bool{}
				for _, f := range open {
					if f.at == at {
						want += int64(r.backlog.Reader().Job(uint32(f.lease)).OutputTokens)
						for _, b := range f.chain {
							mine[b] = true
						}
					}
				}
				if want += int64(len(mine) * fleet.BlockBytes / 4); r.cache.Reader().Resident(ep.Slot(), r.backlog.Reader().Load(ep.Slot()).ContextTokens) != want {
					t.Fatalf("endpoint %d keeps %d tokens in its memory, want %d", at, r.cache.Reader().Resident(ep.Slot(), r.backlog.Reader().Load(ep.Slot()).ContextTokens), want)
				}
			}
		}
	})
}
