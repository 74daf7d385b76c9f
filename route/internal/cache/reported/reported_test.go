package reported

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/prefix"
)

var now = time.Unix(1_700_000_000, 0)

// tokensFrom is so many tokens, and the router's own blocks of them, of 16 tokens each.
func tokensFrom(first uint32, n int) (tokens []uint32, keys []uint64) {
	for i := range uint32(n) {
		tokens = append(tokens, first+i)
	}
	for i := range n / 16 {
		keys = append(keys, uint64(first)<<32+uint64(i)+1)
	}
	return tokens, keys
}

// bed is a table with one endpoint whose engine's events are made by hand.
type bed struct {
	*Table
	stream *kvstream.Stream
	seq    uint64
}

func newBed() *bed {
	b := &bed{Table: New(), stream: kvstream.New(0)}
	b.AddEndpoint(0, 1)
	b.SetStreamState(0, kvstream.Exact)
	return b
}

// store has the engine report a prompt's whole blocks.
func (b *bed) store(tokens []uint32, label string, only uint64) {
	e := kvstream.Event{Kind: kvstream.Stored, BlockTokens: 16, Session: label, Tokens: tokens[:len(tokens)/16*16]}
	for i := range len(tokens) / 16 {
		e.Hashes = append(e.Hashes, uint64(tokens[0])<<32|uint64(i+1))
	}
	var ops kvstream.Ops
	b.stream.Apply(b.seq, &kvstream.Batch{At: float64(b.seq), Events: []kvstream.Event{e}}, &ops)
	b.seq++
	b.Apply(0, &Batch{Ops: &ops, Blocks: b.stream.Len(), Size: 16}, only)
}

// found is how many tokens of a conversation's next prompt the endpoint holds by its events, -1 when they do not say.
func (b *bed) found(tenant, session string, keys []uint64, tokens int) int {
	var c Chain
	b.Find(&c, tenant, session, keys, &prefix.Matches{})
	n, ok := b.ByChain(0, &c, tokens)
	if !ok {
		return -1
	}
	return n
}

// serve is a request from its placement to its end. during is what happens meanwhile.
func (b *bed) serve(
	n uint32, tenant, session string, keys []uint64, tokens int, adapter bool, during func(l fleet.Lease),
) {
	l := fleet.Lease(1)<<32 | fleet.Lease(n)
	var c Chain
	b.Find(&c, tenant, session, keys, &prefix.Matches{})
	b.Touch(&c)
	b.Open(n, 0, tenant, session)
	b.Note(n, &c, &IDs{}, tokens, adapter)
	during(l)
	b.Settle(now, &Finished{Lease: l, Chain: keys, SameCache: true, Usage: &fleet.Usage{
		PromptTokens: tokens, OutputTokens: 1, CachedKnown: true,
	}})
	b.Close(n)
}

// TestTenants: what is known of the blocks of one tenant's conversation is not another's of the same id, labelled or
// not.
func TestTenants(t *testing.T) {
	for _, label := range []string{"s", ""} {
		b := newBed()
		one, k1 := tokensFrom(100, 640)
		two, k2 := tokensFrom(5000, 320)
		only := func(tenant string) uint64 {
			if label != "" {
				return 0
			}
			return Conversation(tenant, "s")
		}
		b.serve(0, "one", "s", k1, 640, false, func(fleet.Lease) { b.store(one, label, only("one")) })
		b.serve(1, "two", "s", k2, 320, false, func(fleet.Lease) { b.store(two, label, only("two")) })
		if got := b.found("one", "s", k1, 640); got != 624 {
			t.Errorf("label %q: %d tokens of the first are held, want all but the block of the last", label, got)
		}
		if got := b.found("two", "s", k2, 320); label == "" && got != 304 {
			t.Errorf("label %q: %d tokens of the second are held, want 304", label, got)
		}
		if label != "" && b.labelled("s") != 0 {
			t.Error("the label of two tenants names the conversation of one")
		}
	}
}

// TestTokensOfAdapters: the blocks of a request for an adapter depend on it too, so its tokens name none.
func TestTokensOfAdapters(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, adapter := range []bool{false, true} {
			b := newBed()
			tokens, keys := tokensFrom(100, 640)
			other, _ := tokensFrom(90_000, 32)
			b.store(other, "", 0) // a block's size is known
			var lease fleet.Lease
			tell := func(l fleet.Lease) {
				b.Tokens(&TokenIDs{Lease: l, Open: !late, Tokens: tokens}, 16)
			}
			b.serve(0, "", "x", keys, 640, adapter, func(l fleet.Lease) {
				if lease = l; !late {
					tell(l)
				}
			})
			if late {
				tell(lease)
			}
			if got := b.found("", "x", keys, 640) >= 0; got == adapter {
				t.Errorf("adapter %v, late %v: blocks are known: %v", adapter, late, got)
			}
		}
	}
}

// TestTokensOfOneThatLeft: tokens that come after their endpoint has left, and another one has its slot, teach nothing
// about that one.
func TestTokensOfOneThatLeft(t *testing.T) {
	b := newBed()
	tokens, keys := tokensFrom(100, 640)
	other, _ := tokensFrom(90_000, 32)
	b.store(other, "", 0)
	for i := range uint32(8) {
		b.serve(i, "", "x", keys, 640, false, func(fleet.Lease) {})
	}
	b.RemoveEndpoint(0)
	b.AddEndpoint(0, 2)
	for i := range fleet.Lease(8) {
		if _, news := b.Tokens(&TokenIDs{Lease: 1<<32 | i, Tokens: tokens[:600]}, 16); news != nil {
			t.Errorf("%q", news)
		}
	}
	if e := b.endpoints.Get(0); e.foreign || e.otherLength != 0 {
		t.Errorf("%+v", e)
	}
}

// TestTouch: finding a conversation's blocks keeps them from being forgotten, from the last step of the decision on.
func TestTouch(t *testing.T) {
	b := newBed()
	tokens, keys := tokensFrom(100, 640)
	b.serve(0, "", "x", keys, 640, false, func(fleet.Lease) { b.store(tokens, "x", 0) })
	for i := range uint64(10) {
		b.bindings.make(i + 1)
	}
	latest := b.bindings.used.next
	var c Chain
	if b.Find(&c, "", "x", keys, &prefix.Matches{}); b.bindings.used.next != latest {
		t.Error("a look has changed what was used last")
	}
	if b.Touch(&c); b.bindings.used.next != b.bindings.byKey[Conversation("", "x")] {
		t.Error("what was found was not used last")
	}
}

// TestIDsAreNamedOnce: the blocks of a prompt's ids are named once for a decision, for however many models it looks
// them up, and anew for another prompt.
func TestIDsAreNamedOnce(t *testing.T) {
	b := newBed()
	held, _ := tokensFrom(1, 160)
	others, _ := tokensFrom(1000, 160)
	b.store(held, "", 0)
	first, second := &fleet.Tokens{IDs: held}, &fleet.Tokens{IDs: others}
	var ids IDs
	for _, tt := range []struct {
		of    *fleet.Tokens
		named bool // from before
		holds int
	}{{first, false, 144}, {first, true, 144}, {second, false, 0}, {first, false, 144}, {nil, false, 0}} {
		ids.Of(tt.of)
		if named := ids.sizes[0].block != 0; named != tt.named {
			t.Errorf("named before: %t, want %t", named, tt.named)
		}
		if n, _, ok := b.ByIDs(0, &ids, 160); n != tt.holds || ok != (tt.of != nil) {
			t.Errorf("%d tokens (%t), want %d", n, ok, tt.holds)
		}
	}
}
