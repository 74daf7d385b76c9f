package miss

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/session"
)

// prompt returns a prompt of three messages. Its length is given in blocks.
func prompt(blocks int) *fleet.Content {
	c := &fleet.Content{Bytes: blocks * fleet.BlockBytes, Ends: []int{1000, 2000, blocks * fleet.BlockBytes}}
	for i := range blocks {
		c.Blocks = append(c.Blocks, uint64(i+1)*0x9e3779b97f4a7c15)
	}
	return c
}

// placed is a turn of 100 blocks and 3,200 tokens that got "a", of the endpoints "a" and "b".
func placed(cached int, last *session.Entry) *Placed {
	v := &pick.View{PromptTokens: 3200, Candidates: []pick.Candidate{
		{
			Endpoint: pick.Endpoint{Name: "a", Model: "m", Epoch: 3},
			Cached:   pick.Cached{CachedTokens: cached, Blocks: cached * 100 / 3200},
		},
		{Endpoint: pick.Endpoint{Name: "b", Model: "m"}},
	}}
	req := &fleet.Request{
		Class: fleet.Turn, Content: prompt(100), PromptTokens: 3200, PromptBytes: 100 * fleet.BlockBytes,
	}
	return &Placed{
		Request: req, Size: new(size.Model).Prompt(req, size.Last{}), View: v, Chosen: &v.Candidates[0],
		Last: last, Work: 7000,
	}
}

// TestKnownConversation: what a turn misses of its conversation's last prompt, and why, where it differs from that in
// each respect.
func TestKnownConversation(t *testing.T) {
	differs := cache.Difference{Known: true, From: 1100, To: 2100}
	for _, c := range []struct {
		name   string
		cached int
		change func(p *Placed)
		want   fleet.Miss
	}{
		{"all is there", 3000, func(*Placed) {}, fleet.Miss{}},
		{"all but what partial blocks explain", 3000 - 315, func(*Placed) {}, fleet.Miss{}},
		{"one token more", 3000 - 316, func(*Placed) {}, fleet.Miss{
			Cause: fleet.MissEvicted, Tokens: 316, Work: 7000,
		}},
		{"nothing is there", 0, func(*Placed) {}, fleet.Miss{Cause: fleet.MissEvicted, Tokens: 3000, Work: 7000}},
		{"the prompt is shorter than the last", 0, func(p *Placed) { p.Last.Prompt = 9000 }, fleet.Miss{
			Cause: fleet.MissEvicted, Tokens: 3200, Work: 7000,
		}},
		{"another model", 0, func(p *Placed) { p.Last.Model, p.Differs = "n", differs }, fleet.Miss{
			Cause: fleet.MissAdapter, Tokens: 3000,
		}},
		{"another prefix", 0, func(p *Placed) { p.Differs, p.Last.Endpoint = differs, "b" }, fleet.Miss{
			Cause: fleet.MissPrefix, Tokens: 3000, From: 1100, To: 2100, Messages: [2]int{2, 3},
		}},
		{"another prefix, at the borders of a message", 0, func(p *Placed) {
			p.Differs = cache.Difference{Known: true, From: 1000, To: 2000}
		}, fleet.Miss{Cause: fleet.MissPrefix, Tokens: 3000, From: 1000, To: 2000, Messages: [2]int{2, 2}}},
		{"another prefix, messages unknown", 0, func(p *Placed) {
			p.Differs, p.Request.Content.Ends = differs, nil
		}, fleet.Miss{Cause: fleet.MissPrefix, Tokens: 3000, From: 1100, To: 2100}},
		{"another endpoint", 0, func(p *Placed) { p.Last.Endpoint, p.Last.Epoch = "b", 2 }, fleet.Miss{
			Cause: fleet.MissElsewhere, Tokens: 3000,
		}},
		{"the last turn was not computed there", 0, func(p *Placed) { p.Last.Tokens = 0 }, fleet.Miss{
			Cause: fleet.MissElsewhere, Tokens: 3000,
		}},
		{"restarted", 0, func(p *Placed) { p.Last.Epoch = 2 }, fleet.Miss{Cause: fleet.MissRestarted, Tokens: 3000}},
		{"nothing known of the last prompt's text", 0, func(p *Placed) { p.Differs = cache.Difference{} }, fleet.Miss{
			Cause: fleet.MissUnclear, Tokens: 3000,
		}},
		{"no turn", 0, func(p *Placed) { p.Request.Class = fleet.Auxiliary }, fleet.Miss{}},
		{"a decode leg", 0, func(p *Placed) { p.View.Leg = fleet.LegDecode }, fleet.Miss{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := placed(c.cached, &session.Entry{Endpoint: "a", Model: "m", Tokens: 3100, Prompt: 3000, Epoch: 3})
			p.Differs = cache.Difference{Known: true, Continues: true}
			c.change(p)
			if got := new(Table).Expect(p); got.miss != c.want {
				t.Errorf("%+v, want %+v", got.miss, c.want)
			}
		})
	}
}

// TestNewConversation: what a turn without a conversation misses of the beginning that an earlier turn sent, and why,
// where it differs from that in each respect.
func TestNewConversation(t *testing.T) {
	const begin = beginningBlocks * 32 // tokens
	for _, c := range []struct {
		name   string
		cached int
		change func(p *Placed)
		want   fleet.Miss
	}{
		{"it is there", begin, func(*Placed) {}, fleet.Miss{}},
		{"evicted", 0, func(*Placed) {}, fleet.Miss{Cause: fleet.MissEvicted, Tokens: begin}},
		{"partly evicted", 64, func(*Placed) {}, fleet.Miss{Cause: fleet.MissEvicted, Tokens: begin - 64}},
		{"elsewhere", 0, func(p *Placed) { p.View.Candidates[1].Blocks = beginningBlocks }, fleet.Miss{
			Cause: fleet.MissElsewhere, Tokens: begin,
		}},
		{"elsewhere, sent by another tenant last", 0, func(p *Placed) {
			p.View.Candidates[1].Blocks, p.Request.Tenant = beginningBlocks, "t"
		}, fleet.Miss{Cause: fleet.MissElsewhere, Tokens: begin}},
		{"another tenant", 0, func(p *Placed) { p.Request.Tenant = "t" }, fleet.Miss{
			Cause: fleet.MissTenant, Tokens: begin,
		}},
		{"another model", 0, func(p *Placed) { p.Chosen.Model = "n" }, fleet.Miss{
			Cause: fleet.MissAdapter, Tokens: begin,
		}},
		{"another beginning", 0, func(p *Placed) { p.Request.Content.Blocks[beginningBlocks-1]++ }, fleet.Miss{
			Cause: fleet.MissNew,
		}},
		{"another scope", 0, func(p *Placed) { p.Request.Content.Scope = 1 }, fleet.Miss{Cause: fleet.MissNew}},
		{"too short", 0, func(p *Placed) { p.Request.Content = prompt(beginningBlocks - 1) }, fleet.Miss{}},
		{"several prompts", 0, func(p *Placed) { p.Request.Content.List = make([]fleet.Listed, 2) }, fleet.Miss{}},
		{"text not read", 0, func(p *Placed) { p.Request.Content = nil }, fleet.Miss{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var table Table
			for range 2 { // placed, and not computed
				if got := table.Expect(placed(0, nil)); got.miss != (fleet.Miss{Cause: fleet.MissNew}) {
					t.Errorf("nothing that begins so was computed: %+v", got.miss)
				}
			}
			first := table.Expect(placed(0, nil))
			table.Computed(&first)
			p := placed(c.cached, nil)
			c.change(p)
			if got := table.Expect(p); got.miss != c.want {
				t.Errorf("%+v, want %+v", got.miss, c.want)
			}
		})
	}
}

// TestTableIsBounded: however many beginnings are sent, the table keeps the later one of two with the same place.
func TestTableIsBounded(t *testing.T) {
	var table Table
	first, same := beginning{name: 5, tenant: 1}, beginning{name: 5 + bound.Many, tenant: 2}
	table.note(first)
	if was := table.named(6); was != (beginning{}) || table.named(first.name) != first {
		t.Errorf("another place: %+v", was)
	}
	if was := table.named(same.name); was != (beginning{}) {
		t.Errorf("%+v is taken for another one with its place", was)
	}
	if table.note(same); table.named(first.name) != (beginning{}) || table.named(same.name) != same {
		t.Error("the later of two with one place does not count")
	}
	if len(table.at) != bound.Many {
		t.Errorf("room for %d, want %d", len(table.at), bound.Many)
	}
}

// TestCorrected: what the engine has counted corrects what was expected to be missed, and says what was not expected.
func TestCorrected(t *testing.T) {
	evicted := Expected{miss: fleet.Miss{Cause: fleet.MissEvicted, Tokens: 3000, Work: 7000}, could: 3000, epoch: 3}
	there, fresh := Expected{could: 3000, epoch: 3}, Expected{miss: fleet.Miss{Cause: fleet.MissNew}, epoch: 3}
	for _, c := range []struct {
		name      string
		expected  Expected
		cached    int // -1 not counted
		predicted int
		epoch     uint32
		want      fleet.Miss
	}{
		{"not counted", evicted, -1, 0, 3, evicted.miss},
		{"as expected", evicted, 0, 0, 3, evicted.miss},
		{"some is there", evicted, 1000, 0, 3, fleet.Miss{Cause: fleet.MissEvicted, Tokens: 2000, Work: 7000}},
		{"all is there after all", evicted, 3000 - 315, 0, 3, fleet.Miss{}},
		{"there, as expected", there, 3000 - 315, 3000, 3, fleet.Miss{}},
		{"evicted unforeseen", there, 1000, 3000, 3, fleet.Miss{Cause: fleet.MissEvicted, Tokens: 2000, Unseen: true}},
		{"restarted unforeseen", there, 0, 3000, 4, fleet.Miss{Cause: fleet.MissRestarted, Tokens: 3000, Unseen: true}},
		{"new, and some is there", fresh, 1000, 0, 3, fleet.Miss{Cause: fleet.MissNew}},
	} {
		u := fleet.Usage{PromptTokens: 3200, CachedTokens: max(0, c.cached), CachedKnown: c.cached >= 0}
		if got := c.expected.Corrected(&u, c.predicted, c.epoch); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
