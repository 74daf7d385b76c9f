package route_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// parents records the parent of each request and spreads them.
type parents struct{ seen *[]int }

func (parents) Needs() pick.Needs { return pick.Needs{Name: "parents"} }

func (parents) Hooks() pick.Hooks { return pick.Hooks{} }

func (p parents) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	*p.seen = append(*p.seen, v.Parent)
	return pick.Choice{Index: len(*p.seen) % len(v.Candidates), Reason: "test"}
}

func TestParentIsAHint(t *testing.T) {
	var seen []int
	r := route.New(route.Config{Policy: func() pick.Policy { return parents{&seen} }})
	now := time.Unix(1000, 0)
	r.Observe(now, route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1},
		{Name: "b", URL: "http://b", Weight: 1},
		{Name: "c", URL: "http://c", Weight: 1},
	}})
	for _, name := range []string{"a", "b", "c"} {
		r.Observe(now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}, {ID: "n"}}},
		})
	}
	ask := func(req fleet.Request) (endpoint, session string, parent int) {
		t.Helper()
		d, err := r.Decide(now, &req)
		if err != nil {
			t.Fatal(err)
		}
		return d.Endpoint.Name, d.Session, seen[len(seen)-1]
	}
	name := func(i int) string {
		if i < 0 {
			return ""
		}
		return string(rune('a' + i))
	}
	home, id, parent := ask(fleet.Request{Model: "m", Session: "main", Parent: "unknown"})
	if parent != -1 || id != "main" {
		t.Errorf("parent %d of %s", parent, id)
	}
	if _, id, parent = ask(fleet.Request{Model: "m", Session: "sub", Parent: "main"}); name(parent) != home ||
		id != "sub" {
		t.Errorf("parent of %s at %q, want %s", id, name(parent), home)
	}
	if _, _, parent = ask(fleet.Request{Model: "m", Session: "sub", Parent: "main"}); parent != -1 {
		t.Errorf("a conversation with a home of its own gets its parent's: %d", parent)
	}
	if _, _, parent = ask(fleet.Request{Model: "m", MintedID: "x", Parent: "main"}); name(parent) != home {
		t.Errorf("parent of a conversation without an id at %q, want %s", name(parent), home)
	}
	for what, req := range map[string]fleet.Request{
		"another model": {Model: "n", Session: "s1", Parent: "main"}, "another tenant": {
			Model: "m", Tenant: "t", Session: "s2", Parent: "main",
		}, "the parent's endpoint is excluded": {Model: "m", Session: "s3", Parent: "main", Exclude: []string{home}},
	} {
		if _, _, parent = ask(req); parent != -1 {
			t.Errorf("%s: parent %d", what, parent)
		}
	}
	_, minted, _ := ask(fleet.Request{Model: "m", MintedID: "minted"})
	if _, _, parent = ask(fleet.Request{Model: "m", Session: "child", Parent: minted}); parent == -1 {
		t.Error("a parent under an id that was minted for it is not known")
	}
}

// chained is the content of a prompt of pieces of 1,280 bytes, ten blocks each, given by numbers. Equal leading numbers
// give equal leading blocks.
func chained(pieces ...uint64) *fleet.Content {
	c := &fleet.Content{Bytes: 1280 * len(pieces)}
	h := uint64(7)
	for _, p := range pieces {
		for i := range uint64(10) {
			h = (h ^ (p<<8 + i)) * 0x9e3779b97f4a7c15
			h ^= h >> 29
			c.Blocks = append(c.Blocks, h)
		}
	}
	return c
}

// prompt is a streamed request with that content, at 4 bytes a token.
func prompted(pin string, pieces ...uint64) fleet.Request {
	c := chained(pieces...)
	return fleet.Request{Model: "m", Content: c, PromptBytes: c.Bytes, Pin: pin, Stream: true, MintedID: "x"}
}

// TestAnchor: the engine's count for the last turn is exact; only the new part is estimated.
func TestAnchor(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	first := prompted("a", 1, 2)
	first.Session = "s"
	d := x.route(first)
	x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
	x.r.Observe(x.now, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 100}})
	second := prompted("a", 1, 2, 3)
	second.Session = "s"
	d = x.route(second)
	if d.PromptTokens < 1320 || d.PromptTokens > 1500 { // 1,000 for the first two thirds; the ratio has moved too
		t.Errorf("%d tokens estimated for a turn that adds 1,280 bytes to 1,000 tokens", d.PromptTokens)
	}
	if d.CachedTokens != 1100 {
		t.Errorf("%d cached tokens predicted, want 1100: the prompt and the answer of the last turn", d.CachedTokens)
	}
}

// TestDeclaredAgain: an endpoint that left and is declared again counts as another engine, also for conversations with
// an id.
func TestDeclaredAgain(t *testing.T) {
	x := newTestRouter(t, nil, "a")
	req := fleet.Request{Model: "m", Session: "s", PromptTokens: 2000}
	turn := func() route.Decision {
		t.Helper()
		d := x.route(req)
		x.r.Observe(x.now, route.Finished{
			Lease: d.Lease, Outcome: fleet.OK, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 10},
		})
		return d
	}
	turn()
	if d := turn(); d.CachedTokens == 0 {
		t.Fatal("what the conversation's home holds was not seen")
	}
	for range 2 {
		x.declare(nil, "")
		x.declare([]string{"a"}, "")
		x.up("a", nil, fleet.Model{ID: "m"})
		if d := turn(); d.CachedTokens != 0 {
			t.Errorf("the one that came holds %d tokens", d.CachedTokens)
		}
		if d := turn(); d.CachedTokens == 0 {
			t.Error("what it computed was not seen")
		}
	}
}

// sharersSeen keeps how many requests share what is cached of the prompt that was placed last.
type sharersSeen struct{ n *int }

func (sharersSeen) Needs() pick.Needs {
	return pick.Needs{Name: "sharers_seen", Content: true, Sharers: true}
}

func (sharersSeen) Hooks() pick.Hooks { return pick.Hooks{} }

func (s sharersSeen) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	*s.n = int(v.Sharers.Turns)
	return pick.Choice{}
}

// TestSharersOfFirstTurns: a policy is told the outstanding first turns that share a prompt where a copy of it may pay:
// at a first turn, while another endpoint has less of it and waits less.
func TestSharersOfFirstTurns(t *testing.T) {
	for name, row := range map[string]struct {
		session string
		beside  bool // the other endpoint has as long a queue
		heard   bool // another router has placed the others
		want    int
	}{
		"a first turn":                  {"new", false, false, 2},
		"others of another router":      {"new", false, true, 2},
		"a later turn":                  {"old", false, false, 0},
		"where none has a shorter wait": {"new", true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			s := newReplicas(t, 2, route.Config{Policy: func() pick.Policy { return sharersSeen{&seen} }})
			for i := range s.all {
				s.observe(i, route.Drain{Endpoint: "c"})
			}
			ask := func(i int, session, pin string, first uint64) {
				c := &fleet.Content{Bytes: 100 * fleet.BlockBytes}
				for i := range uint64(100) {
					c.Blocks = append(c.Blocks, first+i)
				}
				s.decide(i, &fleet.Request{
					Model: "m", Session: session, Pin: pin, PromptBytes: c.Bytes, Content: c, Seed: 1,
				})
				for len(s.mail) > 0 {
					s.deliver(0)
				}
			}
			at := 0
			if row.heard {
				at = 1
			}
			ask(at, "old", "a", 1)
			ask(at, "another", "a", 1)
			if row.beside {
				for _, other := range []string{"x", "y", "z"} {
					ask(at, other, "b", 1000)
				}
			}
			ask(0, row.session, "", 1)
			if seen != row.want {
				t.Errorf("%d share it, want %d", seen, row.want)
			}
		})
	}
}

// TestMovesWhileRestored: what a snapshot says of an endpoint holds for the engine at the address that it had and for
// the cache that it had, also where another address is declared, or its process ends, between two pieces.
func TestMovesWhileRestored(t *testing.T) {
	x := newTestRouter(t, nil)
	x.declare([]string{"a"}, "1")
	x.up("a", nil, fleet.Model{ID: "m"})
	long := prompted("a", 1, 2, 3)
	long.Session = "s"
	d := x.route(long)
	x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
	x.r.Observe(x.now, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 960, OutputTokens: 10}})
	var pieces []route.Piece
	for x.r.Rewind(); ; {
		p, more := x.r.Snapshot(x.now)
		if !more {
			break
		}
		pieces = append(pieces, p)
	}
	for name, c := range map[string]struct {
		before, between string
		lost            bool
	}{
		"not declared before": {"", "2", false},
		"declared before":     {"1", "2", false},
		"stays":               {"1", "1", false},
		"known late":          {"", "1", false},
		"ends":                {"1", "1", true},
	} {
		for move := range pieces {
			y := newTestRouter(t, nil)
			if c.before != "" {
				y.declare([]string{"a"}, c.before)
			}
			for i := range pieces {
				if i == move {
					y.declare([]string{"a"}, c.between)
				}
				if i == move && c.lost {
					y.up("a", nil)
					y.r.Observe(y.now, route.Probed{Endpoint: "a", Report: fleet.Report{Refused: true}})
					y.up("a", nil)
				}
				y.r.Restore(y.now, &pieces[i], 0)
			}
			y.up("a", nil, fleet.Model{ID: "m"})
			d := y.route(long)
			// of what was lost before the snapshot's first word of it nothing is known
			told := slices.IndexFunc(pieces, func(p route.Piece) bool { return len(p.Endpoints) > 0 })
			want := c.between == "1" && (!c.lost || move <= told)
			if cached := d.CachedTokens > 0; cached != want {
				t.Errorf("%s, before piece %d: %d tokens are believed to be cached", name, move, d.CachedTokens)
			}
		}
	}
}
