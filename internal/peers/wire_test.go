package peers

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

func drawNews(t *rapid.T) route.News {
	n := route.News{
		Kind:  route.NewsKind(rapid.IntRange(0, int(route.NewsHeld)).Draw(t, "kind")),
		Lease: fleet.Lease(rapid.Uint64().Draw(t, "lease")),
	}
	key := func(what string) session.Key { return session.KeyFrom(rapid.Uint64().Draw(t, what), 1) }
	count := rapid.IntRange(0, 1<<20)
	switch n.Kind {
	case route.NewsPlaced:
		p := &route.Placed{
			Endpoint: rapid.Uint64().Draw(t, "endpoint"), Pool: rapid.Uint64().Draw(t, "pool"),
			Class: fleet.Class(rapid.IntRange(0, 2).Draw(t, "class")),
			Leg:   fleet.Leg(rapid.IntRange(0, 2).Draw(t, "leg")), Stream: rapid.Bool().Draw(t, "stream"),
			FirstTurn: rapid.Bool().Draw(t, "first"), Uncounted: rapid.Bool().Draw(t, "uncounted"),
			Again: rapid.Bool().Draw(t, "again"), Repeats: rapid.Bool().Draw(t, "repeats"), Queued: rapid.Bool().Draw(t,
				"waits"), Model: uint16(rapid.IntRange(0, route.MostModelMark).Draw(t, "model")), PromptTokens: 1 << 21,
			CachedTokens: count.Draw(t, "cached"), FetchTokens: count.Draw(t, "fetch"),
			OutputTokens: count.Draw(t, "answer"), MaxTokens: count.Draw(t, "most"),
			PromptBytes: count.Draw(t, "bytes"), TextBytes: count.Draw(t, "text"), Seq: uint64(count.Draw(t, "seq")),
			ReadyMs: float64(count.Draw(t, "ready")),
		}
		if p.Queued {
			p.Key = rapid.Float64Range(-1e12, 1e12).Draw(t, "place")
		}
		if rapid.Bool().Draw(t, "tenant") {
			p.Tenant, p.QueueClass = 7, fleet.QueueClass{
				Share: 2.5, Priority: fleet.PriorityLow, MaxWaiting: 3, MaxRunning: 4,
			}
		}
		c := &p.Conversation
		*c = learnt.Announcement{
			Key: key("conversation"), Minted: rapid.Bool().Draw(t, "minted"), Named: rapid.Bool().Draw(t, "named"),
			First: rapid.Bool().Draw(t, "attempt"),
		}
		if rapid.Bool().Draw(t, "started") {
			c.Parent = key("parent")
		}
		c.ID = rapid.StringN(0, 40, 200).Draw(t, "id")
		if rapid.Bool().Draw(t, "user") {
			c.User, c.ByUser, c.Opens = key("user"), rapid.Bool().Draw(t, "by user"), true
		}
		if rapid.Bool().Draw(t, "trail") {
			c.Trail = session.Noted{
				ID: c.ID, Main: 5, Turn: rapid.Uint64().Draw(t, "turn"), Chat: 3, Answer: 9, StrictAnswer: 10,
				Repeats: rapid.Bool().Draw(t, "word for word"),
				Opening: rapid.Bool().Draw(t, "opening"), Opened: rapid.Bool().Draw(t, "opened"),
			}
			if rapid.Bool().Draw(t, "plain") {
				c.Trail.Text, c.Trail.StrictText, c.Trail.Tail, c.Trail.Off = 1, 2, 3,
					uint8(rapid.IntRange(0, session.TrailBlock-1).Draw(t, "off"))
			}
		}
		n.Placed = p
	case route.NewsEnded:
		n.Outcome = fleet.Outcome(rapid.IntRange(0, int(fleet.TransferFailed)).Draw(t, "outcome"))
		n.Usage = fleet.Usage{
			PromptTokens: count.Draw(t, "prompt"), CachedTokens: count.Draw(t, "found"),
			OutputTokens: count.Draw(t, "made"), CachedKnown: rapid.Bool().Draw(t, "known"),
		}
		if rapid.Bool().Draw(t, "held") {
			n.Response = key("response")
		}
	case route.NewsResponse:
		n.Response = key("response")
	case route.NewsClosed:
		n.Conversation = key("conversation")
	case route.NewsHeld:
		n.Held = route.HeldNews{Pool: rapid.Uint64().Draw(t, "pool")}
		if n.Held.Turns = count.Draw(t, "turns"); n.Held.Turns > 0 {
			n.Held.Tokens, n.Held.Tenant = int64(count.Draw(t, "needs")), rapid.Uint64().Draw(t, "of tenant")
			n.Held.Priority = fleet.Priority(rapid.IntRange(-1, 1).Draw(t, "priority"))
			n.Held.Left = time.Duration(count.Draw(t, "left")) * time.Millisecond
		}
	case route.NewsSent, route.NewsFirstByte, route.NewsTransferring:
	}
	return n
}

// TestNewsComesAsItWasSent: whatever is told is read as it was, one message after the other.
func TestNewsComesAsItWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(drawNews), 1, 8).Draw(t, "news")
		rest := rapid.SliceOfN(rapid.Uint64(), 0, 50).Draw(t, "rest")
		var b []byte
		for i := range all {
			b = appendNews(b, 1500*time.Microsecond, &all[i], 42, i, rest)
		}
		r, m := reader{b: b}, message{}
		for i := range all {
			if ok, err := r.next(&m); !ok || err != nil {
				t.Fatalf("message %d: %v, %v", i, ok, err)
			}
			got := m.news
			if got.Placed != nil && (m.depth != i || i > 0 && m.base != 42 || !slices.Equal(m.rest, rest)) {
				t.Fatalf("the prompt goes on from %d at %d by %v", m.base, m.depth, m.rest)
			}
			if m.before != 1500*time.Microsecond || !reflect.DeepEqual(got, all[i]) {
				t.Fatalf("got  %+v %+v\nwant %+v %+v", got, got.Placed, all[i], all[i].Placed)
			}
		}
		if ok, err := r.next(&m); ok || err != nil {
			t.Fatalf("there is more: %+v, %v", m, err)
		}
	})
}

// TestModelInFlags: the model takes no byte, and no flag's bit: a release that does not know it reads all else as it
// was sent.
func TestModelInFlags(t *testing.T) {
	with := func(model uint16) []byte {
		return appendNews(nil, 0, &route.News{
			Kind: route.NewsPlaced, Placed: &route.Placed{Uncounted: true, Model: model},
		}, 0, 0, nil)
	}
	none, all := with(0), with(route.MostModelMark)
	const at = 3 // after the kind, the time and the lease
	if len(none) != len(all) || flagHasParent >= 1<<modelBit || all[at] != 0xff || all[at+1]&^0xf0 != none[at+1] {
		t.Errorf("% x\n% x", none[:at+4], all[:at+4])
	}
	copy(all[at:at+2], none[at:at+2])
	if !slices.Equal(none, all) {
		t.Errorf("% x\n% x", none, all)
	}
}

// TestSizes: what a request costs on the wire. A prompt of 8 kB of which others know nothing, and one that goes on by 1
// kB.
func TestSizes(t *testing.T) {
	p := route.Placed{PromptTokens: 2000, OutputTokens: 100, PromptBytes: 8192, TextBytes: 8192, Stream: true}
	p.Conversation = learnt.Announcement{
		Key: session.KeyFrom(1, 2), ID: "123e4567-e89b-12d3-a456-426614174000", Trail: session.Noted{Main: 1},
	}
	size := func(depth, rest int) int {
		n := len(appendNews(nil, 0, &route.News{Kind: route.NewsPlaced, Lease: 1 << 33, Placed: &p}, 1, depth,
			make([]uint64, rest)))
		n += len(appendNews(nil, 0, &route.News{Kind: route.NewsFirstByte, Lease: 1 << 33}, 0, 0, nil))
		n += len(appendNews(nil, 0, &route.News{
			Kind: route.NewsEnded, Lease: 1 << 33, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 100},
		}, 0, 0, nil))
		return n + 3*(headBytes+plainBytes+16) // each in a frame of its own
	}
	if fresh, more := size(0, 48), size(44, 4); fresh > 1000 || more > 500 {
		t.Errorf("%d bytes for a new prompt, %d for one that goes on", fresh, more)
	}
}

// FuzzMessages: bytes from elsewhere are read without harm, and what is read of them is within bounds.
func FuzzMessages(f *testing.F) {
	n := route.News{Kind: route.NewsPlaced, Lease: 5, Placed: &route.Placed{PromptTokens: 10, Queued: true, Key: 3}}
	f.Add(appendNews(nil, time.Second, &n, 1, 2, []uint64{3, 4}))
	f.Add(appendAlive(nil, &alive{1, 2, 3, 4, 5}))
	f.Add(appendUse(appendHead(nil, kindLeaves, 0), 7, &fleet.TenantUse{
		Tenant: 1, Requests: 2.5, Tokens: 1e6, Open: 3,
	}))
	f.Add(appendNames(appendHead(nil, kindNames, 0), []uint64{1, 2, 3}))
	f.Add([]byte{byte(kindState), 0})
	f.Add(appendNews(nil, 0, &n, 1, mostChain, []uint64{3}))
	f.Add(appendUse(nil, 7, &fleet.TenantUse{Tenant: 1, Requests: 1, Tokens: math.MaxFloat64}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, m := reader{b: b}, message{}
		for {
			ok, err := r.next(&m)
			if err != nil || !ok {
				return
			}
			if p := m.news.Placed; p != nil &&
				(p.CachedTokens > p.PromptTokens || p.Leg > fleet.LegDecode || m.depth+len(m.rest) > mostChain) {
				t.Fatalf("%+v", p)
			}
			if m.kind == kindUse && max(m.use.Requests, m.use.Tokens) > mostInt {
				t.Fatalf("%+v", m.use)
			}
		}
	})
}

// TestChains: two routers that tell each other of prompts know them alike, whatever they go on from, and what is
// forgotten is not taken for known.
func TestChains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tells, hears := newChains(), newChains()
		prompts := [][]uint64{nil}
		for i := range rapid.IntRange(1, 60).Draw(t, "prompts") {
			from := rapid.SampledFrom(prompts).Draw(t, "from")
			p := slices.Clone(from[:rapid.IntRange(0, len(from)).Draw(t, "shared")])
			for n := range rapid.IntRange(0, 90).Draw(t, "more") {
				p = append(p, uint64(i+1)<<32+uint64(n+1))
			}
			prompts = append(prompts, p)
			base, depth, rest := tells.split(p)
			tells.join(base, depth, rest)
			if depth+len(rest) != len(p) {
				t.Fatalf("%d and %d of %d", depth, len(rest), len(p))
			}
			got, ok := hears.join(base, depth, rest)
			if !ok || !slices.Equal(got, p) {
				t.Fatalf("told %v, heard %v, %t", p, got, ok)
			}
		}
		if _, ok := hears.join(1<<60, 3, nil); ok {
			t.Fatal("an unknown prompt is known")
		}
	})
}

// TestChainsAreBounded: the memory of prompts forgets, and stays whole, whether there are many of them or they grow.
func TestChainsAreBounded(t *testing.T) {
	for name, row := range map[string]struct{ prompts, turns, names int }{
		"many": {6000, 1, 600}, "long": {60, 60, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChains()
			more := make([]uint64, row.names)
			for turn := range row.turns {
				for i := range row.prompts {
					first := uint64(i+1) << 32
					for k := range more {
						more[k] = first + uint64(turn*row.names+k+1)
					}
					last := more[len(more)-1]
					if got, ok := c.join(more[0]-1, turn*row.names, more); ok && got[len(got)-1] != last {
						t.Fatalf("a prompt that ends with %x is taken for one with %x", last, got[len(got)-1])
					}
				}
			}
			sum := 0
			for _, one := range c.all {
				if one != nil {
					sum += len(one.names)
				}
			}
			if sum != c.names || sum > mostNames || len(c.known) > mostNames/everyNames+mostChains {
				t.Errorf("%d names, counted as %d; %d places", sum, c.names, len(c.known))
			}
			for n, p := range c.known {
				if p.of.names[p.depth-1] != n {
					t.Fatalf("%x is said to be at %d of a prompt where %x is", n, p.depth, p.of.names[p.depth-1])
				}
			}
		})
	}
}

// TestAnswersOfManyRequests: what routers that ask are told of thousands of long prompts is less than may wait,
// however many ask at once: those for which there is no room ask again.
func TestAnswersOfManyRequests(t *testing.T) {
	o := &outbox{wake: make(chan struct{}, 1)}
	const requests = 10_000
	for to := range uint64(5) {
		o.answer(to+1, func(tell func([]route.News)) {
			for range requests {
				tell([]route.News{{Kind: route.NewsPlaced, Placed: &route.Placed{Chain: make([]uint64, 400)}}})
			}
		}, time.Now())
	}
	if n := len(o.waiting); o.dropped || n != requests+2 || !o.waiting[0].begins || !o.waiting[n-1].ends {
		t.Errorf("%d messages wait, want %d, %d bytes; dropped: %t", n, requests+2, o.bytes, o.dropped)
	}
	if got := len(o.waiting[1].placed.Chain); got != 400 {
		t.Errorf("the first is told with %d names of its prompt", got)
	}
}
