package trtllm

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

// said is a text of this many characters whose first ones are common to all.
func said(shared, text, length int) *fleet.Request {
	r := policytest.Words(shared/fleet.BlockBytes, text, length/fleet.BlockBytes-shared/fleet.BlockBytes)
	r.Content.Bytes = length
	return r
}

// chatted is said as a chat, whose canonical form has a line end more than the lines of the original.
func chatted(shared, text, length int) *fleet.Request {
	r := said(shared, text, length)
	r.Content.Text.Messages = 1
	return r
}

func named(session string, length int) *fleet.Request {
	r := said(0, 1+int(byhash.Text(session)%1_000_000), length)
	r.Session = session
	return r
}

func convConfig(o ConversationConfig) router {
	return router{Name: "trtllm.conversation", TRTLLM: Config{Conversation: o}}
}

func TestTRTConversationByID(t *testing.T) {
	d := newDesk(t, convConfig(ConversationConfig{}), 3)
	for i, id := range []string{"a", "b", "c"} {
		d.turn(named(id, 1000), 250)
		d.want(i, reasons.Load, "three new sessions")
	}
	for range 5 { // other traffic in between is irrelevant
		d.turn(named("b", 2000), 500)
		d.want(1, pick.ReasonSession, "known")
		d.turn(named("x"+strconv.Itoa(len(d.leases)), 400), 100)
	}
	for range 8 {
		d.ask(named("c", 50_000), 12_000)
		d.want(2, pick.ReasonSession, "however busy it is")
	}
	d.turn(named("b", 2000), 500, 1)
	if at := d.last.Index; at != 0 || d.last.Reason != reasons.Load {
		t.Fatalf("its endpoint is excluded, 2 is busy: %v", d.last)
	}
	d.turn(named("b", 2000), 500)
	d.want(0, pick.ReasonSession, "bound anew")
	d.cs[0] = policytest.Candidate(7, 1) // 0 leaves and another joins
	d.turn(named("b", 2000), 500)
	if d.last.Reason != reasons.Load {
		t.Errorf("its endpoint has gone: %v", d.last)
	}
}

// New sessions are balanced by running content: 5,000, 500 and 10 characters; the counter decides the first tie.
func TestTRTConversationBalancesContent(t *testing.T) {
	d := newDesk(t, convConfig(ConversationConfig{}), 3)
	for i, step := range []struct{ length, want int }{
		{5000, 0}, // 1000
		{500, 2},  // 100; 1 and 2 were equal, 1 mod 2 is the latter
		{10, 1},   // 2
		{600, 1},  // 2+120
		{1, 2},    // 100+1: at least one
		{100, 2},  // 101+20
		{100, 2},  // 121 against 122
		{100, 1},  // 122 against 141
	} {
		d.ask(named(strconv.Itoa(i), step.length), step.length/4)
		d.want(step.want, reasons.Load, fmt.Sprintf("request %d", i))
	}
	p := d.p.(*conversation)
	if got := []int64{p.load(&d.cs[0]), p.load(&d.cs[1]), p.load(&d.cs[2])}; !slices.Equal(got,
		[]int64{1000, 142, 141}) {
		t.Errorf("loads %v", got)
	}
	for i := range d.leases {
		d.end(i, i%2 == 0)
		p.released(fleet.Lease(i+1), true) // once is enough
	}
	for i := range d.cs {
		if got := p.load(&d.cs[i]); got != 0 {
			t.Errorf("after the end %d has %d", i, got)
		}
	}
}

// 2,000 characters of 2,500 are 15 of 20 blocks, exactly three quarters.
func TestTRTConversationGoesOnByContent(t *testing.T) {
	tests := []struct {
		name   string
		config ConversationConfig
		first  *fleet.Request
		second *fleet.Request
		goesOn bool
	}{
		{"three quarters", ConversationConfig{}, said(2000, 2, 2500), said(2000, 3, 2500), true},
		{"three quarters of a chat", ConversationConfig{}, chatted(2000, 2, 2501), chatted(2000, 3, 2501), true},
		{"one block less of a chat", ConversationConfig{}, chatted(1900, 2, 2501), chatted(1900, 3, 2501), false},
		{"one more block of a chat", ConversationConfig{}, chatted(2000, 2, 2563), chatted(2000, 3, 2563), false},
		{"one block less", ConversationConfig{}, said(1900, 2, 2500), said(1900, 3, 2500), false},
		{"one more block in all", ConversationConfig{}, said(2000, 2, 2500), said(2000, 3, 2562), false},
		{
			"the shared part is left out",
			ConversationConfig{HashSkipCount: 400},
			said(2000, 2, 2500), said(2000, 3, 2500), false,
		},
		// 13 of 18
		{
			"less of it is left out",
			ConversationConfig{HashSkipCount: 50},
			said(2000, 2, 2500), said(2000, 3, 2500), false,
		},
		{
			"left out and much in common",
			ConversationConfig{HashSkipCount: 50},
			said(2200, 2, 2500), said(2200, 3, 2500), true,
		},
		{
			"another threshold",
			ConversationConfig{MatchThreshold: new(0.9)},
			said(2000, 2, 2500), said(2000, 3, 2500), false,
		},
		{
			"all or nothing",
			ConversationConfig{MatchThreshold: new(1.0)},
			said(2560, 2, 2560), said(2560, 2, 2560), true,
		},
		{"a short prompt has too few blocks", ConversationConfig{}, said(0, 2, 100), said(0, 2, 100), false},
		// 7 of 10
		{"larger blocks", ConversationConfig{TokensPerBlock: 256}, said(2000, 2, 2500), said(2000, 3, 2500), false},
		{"a turn that adds a third", ConversationConfig{}, said(3840, 2, 3840), said(3840, 3, 5120), true},
		{"a turn that adds more", ConversationConfig{}, said(3840, 2, 3840), said(3840, 3, 5250), false},
	}
	for _, tt := range tests {
		d := newDesk(t, convConfig(tt.config), 3)
		d.turn(tt.first, 600)
		d.want(0, reasons.Load, tt.name+", first")
		d.turn(tt.second, 600)
		if tt.goesOn {
			d.want(0, reasons.CacheMatch, tt.name)
		} else {
			d.want(1, reasons.Load, tt.name)
		}
	}
}

// Token ids are counted in tokens: 400 of 512 in blocks of 128 are 3 of 4.
func TestTRTConversationByTokenIDs(t *testing.T) {
	ids := func(shared, text, tokens int) *fleet.Request {
		r := said(8*shared, text, 8*tokens) // as many bytes as the canonical form has
		r.PromptTokens = tokens
		return r
	}
	d := newDesk(t, convConfig(ConversationConfig{}), 3)
	d.turn(ids(400, 2, 512), 512)
	d.turn(ids(400, 3, 512), 512)
	d.want(0, reasons.CacheMatch, "3 of 4 blocks")
	d.turn(ids(370, 4, 512), 512)
	d.want(1, reasons.Load, "2 of 4 blocks")
	d = newDesk(t, convConfig(ConversationConfig{UseTokenIDs: true}), 3)
	d.turn(said(2000, 2, 2500), 625) // 480 of 625 tokens are 3 of ceil(624/128) = 5
	d.turn(said(2000, 3, 2500), 625)
	d.want(1, reasons.Load, "3 of 5 blocks of tokens")
	d.turn(said(2000, 4, 2500), 513) // 393 of 513 are 3 of 4
	d.want(1, reasons.CacheMatch, "3 of 4 blocks of tokens, of two sessions the later")
}

func TestTRTConversationWeights(t *testing.T) {
	chat := said(0, 2, 1001)
	chat.Content.Text.Messages = 2
	chinese := said(0, 2, 900)
	chinese.Content.Text.CJK = 900
	ids := said(0, 2, 4096)
	ids.PromptTokens = 512
	withID := said(0, 2, 1000)
	withID.Session = "a"
	empty := &fleet.Request{PromptBytes: 60}
	for _, tt := range []struct {
		name               string
		r                  *fleet.Request
		tokens, blocks, by int64 // by default; block_weights; that and ids_by_table_only
	}{
		{"characters", said(0, 2, 1000), 200, 1024, 1024},
		{"a chat's lines", chat, 200, 1024, 1024},
		{"Chinese", chinese, 60, 384, 384},
		{"token ids", ids, 512, 512, 512},
		{"with an id", withID, 200, 1024, 200},
		{"no more than its length is known", empty, 12, 128, 128},
		{"nothing is known", &fleet.Request{}, 1, 0, 0},
	} {
		for i, want := range []int64{tt.tokens, tt.blocks, tt.by} {
			p := makeTRT(t, convConfig(ConversationConfig{BlockWeights: i > 0, IDsByTableOnly: i > 1})).(*conversation)
			if got := p.weigh(policytest.Asks(policytest.Same(1), 300), tt.r); got != want {
				t.Errorf("%s, way %d: %d, want %d", tt.name, i, got, want)
			}
		}
	}
}

// Requests without an id find sessions with one, as in PR 12526, unless ids are looked up in the table only.
func TestTRTConversationSessionsWithAndWithoutID(t *testing.T) {
	with := func(r *fleet.Request, id, tenant string) *fleet.Request {
		r.Session, r.Tenant = id, tenant
		return r
	}
	for _, tableOnly := range []bool{false, true} {
		d := newDesk(t, convConfig(ConversationConfig{IDsByTableOnly: tableOnly}), 3)
		d.turn(with(said(2560, 2, 2560), "a", ""), 640)
		d.turn(said(2560, 3, 3000), 750)
		if tableOnly {
			d.want(1, reasons.Load, "by the table only")
		} else {
			d.want(0, reasons.CacheMatch, "goes on from the session with an id")
		}
	}
	d := newDesk(t, convConfig(ConversationConfig{}), 3)
	d.turn(with(said(2560, 2, 2560), "", "blue"), 640)
	d.turn(with(said(2560, 2, 2700), "", "green"), 640)
	d.want(1, reasons.Load, "another tenant")
	d.turn(with(said(2560, 2, 2800), "", "blue"), 640)
	d.want(0, reasons.CacheMatch, "the same tenant")
	r := with(said(2560, 2, 2800), "", "blue")
	r.Class = fleet.Embed
	d.turn(r, 640)
	if d.last.Reason != reasons.Load {
		t.Errorf("an embedding went by %v", d.last)
	}
}

func TestTRTConversationKeepsTheLatestSessions(t *testing.T) {
	d := newDesk(t, convConfig(ConversationConfig{MaxSessions: 2}), 4)
	for _, id := range []string{"a", "b", "a", "c"} { // b is evicted
		d.turn(named(id, 3000), 700)
	}
	p := d.p.(*conversation)
	for id, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, known := p.sessions.where(byhash.Text("-" + id)); known != want {
			t.Errorf("%s is known: %v", id, known)
		}
	}
	if len(p.sessions.table) > 3 || p.sessions.size() != 2*(3000/128) {
		t.Errorf("%d places, %d blocks", len(p.sessions.table), p.sessions.size())
	}
	p.sessions.blocks = 30
	d.turn(named("d", 2000), 500) // a is evicted, and the 23 blocks of c and the 15 of d are too many
	if n := p.sessions.size(); n != 15 || len(p.sessions.index) != 2 {
		t.Errorf("%d blocks of %d sessions", n, len(p.sessions.index))
	}
	home, _ := p.sessions.where(byhash.Text("-c"))
	d.turn(named("c", 2000), 500)
	d.want(holder(d.cs, home), pick.ReasonSession, "c is known by its id")
}

// Sessions are evicted in order of use, with or without blocks, and those that lost their blocks get new ones with
// their next turn.
func TestTRTSessionsBoundTheirBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSessions(6)
		s.blocks = 12
		var order, treed []uint64 // by use, latest last; treed has those with a chain in the tree
		chains := map[uint64][]uint64{}
		drop := func(list []uint64, key uint64) []uint64 {
			return slices.DeleteFunc(list, func(o uint64) bool { return o == key })
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.Uint64Range(1, 9).Draw(t, "key")
			chain := policytest.Prompt(rapid.SliceOfN(rapid.IntRange(0, 3), 0, 5).Draw(t, "parts")...).Content.Blocks
			s.put(key, 1, chain)
			if order = append(drop(order, key), key); len(order) > 6 {
				treed, order = drop(treed, order[0]), order[1:]
			}
			if treed = drop(treed, key); len(chain) > 0 {
				treed = append(treed, key)
			}
			chains[key] = chain
			blocks := func() int {
				seen := map[uint64]bool{}
				for _, k := range treed {
					for _, b := range chains[k] {
						seen[b] = true
					}
				}
				return len(seen)
			}
			for blocks() > 12 && treed[0] != key {
				treed = treed[1:]
			}
			if s.size() != blocks() || len(s.index) != len(order) {
				t.Fatalf("%d blocks, want %d; %d sessions, want %d", s.size(), blocks(), len(s.index), len(order))
			}
			for _, k := range order {
				id, known := s.index[k]
				if !known || (s.table[id].end != 0) != slices.Contains(treed, k) {
					t.Fatalf("session %d: known %v, in the tree %v", k, known, s.table[id].end != 0)
				}
			}
		}
	})
}

// naive is the sessions as a list, most recently used last.
type naive struct {
	key, endpoint uint64
	chain         []uint64
}

func common(a, b []uint64) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestTRTSessionsAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "most")
		s := newSessions(most)
		var list []naive
		chain := func() []uint64 {
			return policytest.Prompt(rapid.SliceOfN(rapid.IntRange(0, 2), 0, 6).Draw(t, "parts")...).Content.Blocks
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := naive{rapid.Uint64Range(1, 8).Draw(t, "key"), rapid.Uint64Range(1, 3).Draw(t, "endpoint"), chain()}
			s.put(n.key, n.endpoint, n.chain)
			list = slices.DeleteFunc(list, func(o naive) bool { return o.key == n.key })
			if list = append(list, n); len(list) > most {
				list = list[1:]
			}
			ask, least := chain(), rapid.IntRange(0, 3).Draw(t, "least")
			only := rapid.Uint64Range(0, 3).Draw(t, "only") // 0: any
			fits := func(endpoint uint64) bool { return only == 0 || endpoint == only }
			deepest, blocks := 0, map[uint64]bool{}
			for _, o := range list {
				if fits(o.endpoint) {
					deepest = max(deepest, common(o.chain, ask))
				}
				for _, b := range o.chain {
					blocks[b] = true
				}
				if endpoint, known := s.where(o.key); !known || endpoint != o.endpoint {
					t.Fatalf("session %d is at %d, %v", o.key, endpoint, known)
				}
			}
			key, depth := s.find(ask, least, fits)
			at := slices.IndexFunc(list, func(o naive) bool { return o.key == key })
			switch {
			case depth > 0 &&
				(at < 0 || !fits(list[at].endpoint) || common(list[at].chain, ask) < depth || depth < least):
				t.Fatalf("found %d with %d blocks", key, depth)
			case deepest >= max(1, least) && depth != deepest:
				t.Fatalf("found %d blocks, there are %d", depth, deepest)
			}
			if s.size() != len(blocks) || len(s.index) != len(list) || len(s.nodes)-len(s.bare)-1 != len(blocks) ||
				len(s.table)-len(s.unused)-1 != len(list) {
				t.Fatalf("%d blocks of %d, %d sessions of %d", s.size(), len(blocks), len(s.index), len(list))
			}
		}
	})
}
