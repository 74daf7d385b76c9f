package cache

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/size"
)

// A text is a prompt, one number for each block.
type text []int

func (w text) content() fleet.Content {
	c := fleet.Content{Bytes: len(w) * fleet.BlockBytes}
	name := uint64(7)
	for _, b := range w {
		name = blocks.Scramble(name + uint64(b))
		c.Blocks = append(c.Blocks, name)
	}
	return c
}

func sharedBy(a, b text) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// sent is an outstanding request of the model.
type sent struct {
	slot  int
	at    time.Time
	texts []text
	done  bool // its first byte has come
	stale bool // the cache was lost after it was placed
	first bool // this router placed it as a first turn
	// the engine is expected to refuse it
	refused bool
}

// believer is a table with what it should believe: an endpoint holds what has been computed there, and what requests
// that may still be answered bring there. Slot 0 and 1 are ordinary, slot 2 holds one prompt at a time.
type believer struct {
	t        *Table
	now      time.Time
	next     uint32
	free     []uint32
	live     map[uint32]*sent
	order    []uint32 // outstanding, as they were placed
	computed [3][]text
	asked    []text
	memory   [3]int // tokens; 0 unknown
}

const onePrompt = 2

func newBeliever() *believer {
	b := &believer{t: New(0), now: time.Unix(1_700_000_000, 0), live: map[uint32]*sent{}}
	for i := range b.computed {
		b.t.AddEndpoint(i)
		b.t.Describe(i, Facts{OnePrompt: i == onePrompt})
	}
	return b
}

func (b *believer) draw(t *rapid.T) text {
	w := text(rapid.SliceOfN(rapid.IntRange(0, 1), 1, 12).Draw(t, "text"))
	if len(b.asked) > 0 && rapid.Bool().Draw(t, "goes on") {
		w = append(slices.Clone(rapid.SampledFrom(b.asked).Draw(t, "from")), w...)
		w = w[:min(len(w), 30)]
	}
	b.asked = append(b.asked, w)
	return w
}

// place opens a lease as this router does, or as it hears of another's.
func (b *believer) place(t *rapid.T) {
	b.now = b.now.Add(time.Millisecond)
	s := &sent{slot: rapid.IntRange(0, 2).Draw(t, "slot"), at: b.now, texts: []text{b.draw(t)}}
	n := b.next
	if k := len(b.free); k > 0 {
		n, b.free = b.free[k-1], b.free[:k-1]
	} else {
		b.next++
	}
	heard, listed := rapid.Bool().Draw(t, "heard"), s.slot != onePrompt && rapid.IntRange(0, 3).Draw(t, "listed") == 0
	for listed && len(s.texts) < 3 {
		s.texts = append(s.texts, b.draw(t))
	}
	req := &fleet.Request{Content: new(fleet.Content), PromptBytes: len(s.texts[0]) * fleet.BlockBytes}
	*req.Content = s.texts[0].content()
	if listed {
		heard = false
		req.Content.List = []fleet.Listed{}
		for _, w := range s.texts {
			c := w.content()
			req.Content.List = append(req.Content.List, fleet.Listed{Blocks: c.Blocks, Bytes: c.Bytes})
		}
	}
	model := size.NewModel()
	p := &Prompt{
		Request: req, Now: b.now, Size: model.Prompt(req, size.Last{}), TokensPerByte: model.TokensPerByte,
		CountsActive: true,
	}
	var x Lookups
	missed := b.t.Begin(&x)
	if heard {
		b.t.look(&x, req, "")
		b.t.AddPeerRequest(n, &PeerRequest{
			Slot: s.slot, Turn: true, PromptTokens: 10, Bytes: req.Content.Bytes, Chain: x.keys, TokensPerByte: 0.25,
		})
	} else {
		p.Size.Tokens = max(1, p.Size.Tokens)
		s.refused = !listed && b.memory[s.slot] > 0 && p.Size.Tokens > b.memory[s.slot]
		s.first = rapid.Bool().Draw(t, "first")
		v := &pick.View{Now: b.now, PromptTokens: p.Size.Tokens, FirstTurn: s.first}
		for i := range b.computed {
			v.Candidates = append(v.Candidates, pick.Candidate{
				Endpoint: pick.Endpoint{Slot: i, Epoch: b.t.Epoch(i)},
			})
		}
		held, all, missed := b.t.Predict(&x, p, pick.EndpointsOf(v.Candidates), -1, missed, nil)
		for i := range held {
			v.Candidates[i].Cached = held[i]
			if all.Counted {
				b.checkActive(t, i, s.texts[0], p, &held[i])
			}
		}
		if !listed {
			b.checkSharers(t, s.texts[0], b.t.Sharers(&x, p, pick.EndpointsOf(v.Candidates), held), held)
		}
		if all.Counted == listed {
			t.Fatalf("what is active is counted: %t, with several prompts: %t", all.Counted, listed)
		}
		b.t.Note(&x, missed)
		b.t.Open(n, v, s.slot, &x, p)
	}
	b.live[n], b.order = s, append(b.order, n)
}

// checkSharers compares those who share what is cached of a text with all that are outstanding.
func (b *believer) checkSharers(t *rapid.T, w text, got pick.Sharers, held []pick.Cached) {
	longest, want, oldest := 0, 0, 0.0
	for _, h := range held {
		longest = max(longest, h.Blocks)
	}
	for _, n := range b.order {
		if s := b.live[n]; s.first && len(s.texts) == 1 && longest > 0 && sharedBy(w, s.texts[0]) >= longest &&
			held[s.slot].Blocks == longest {
			want, oldest = want+1, max(oldest, fleet.Ms(b.now.Sub(s.at)))
		}
	}
	if float64(want) != got.Turns {
		t.Fatalf("%v first turns share %d blocks, want %d", got.Turns, longest, want)
	}
	if got.OldestMs != oldest {
		t.Fatalf("the first was placed %v ms ago, want %v", got.OldestMs, oldest)
	}
}

// some is an outstanding request.
func (b *believer) some(t *rapid.T) (uint32, *sent) {
	if len(b.order) == 0 {
		t.Skip("nothing is outstanding")
	}
	n := rapid.SampledFrom(b.order).Draw(t, "lease")
	return n, b.live[n]
}

func (b *believer) firstByte(t *rapid.T) {
	n, s := b.some(t)
	if s.done {
		t.Skip("it has come")
	}
	b.t.Computed(b.now, n)
	if s.done = true; !s.stale { // else it is not known which cache computed it
		b.compute(s)
	}
}

// first reports whether a request is the first of those outstanding at its endpoint.
func (b *believer) first(n uint32) bool {
	for _, k := range b.order {
		if b.live[k].slot == b.live[n].slot {
			return k == n
		}
	}
	return false
}

func (b *believer) compute(s *sent) {
	b.computed[s.slot] = append(b.computed[s.slot], s.texts...)
}

// end ends a request in any way, without a report of cached tokens.
func (b *believer) end(t *rapid.T) {
	n, s := b.some(t)
	o := rapid.SampledFrom([]fleet.Outcome{
		fleet.OK, fleet.ClientGone, fleet.EngineError, fleet.ConnectFailed, fleet.Busy, fleet.TimedOut,
		fleet.ClientError, fleet.Abandoned,
	}).Draw(t, "outcome")
	var a AnswerReuse
	taken := rapid.Bool().Draw(t, "taken")
	b.t.Close(b.now, &Ended{Lease: fleet.Lease(n), Outcome: o, Usage: &fleet.Usage{}, Sent: taken, AnswerReuse: &a})
	if c := b.computed[s.slot]; s.slot == onePrompt && taken && !s.done && b.first(n) && len(c) > 0 {
		switch o {
		case fleet.ClientGone, fleet.EngineError, fleet.TimedOut, fleet.Abandoned:
			// it has begun, and made room for itself
			c[len(c)-1] = c[len(c)-1][:sharedBy(c[len(c)-1], s.texts[0])]
		}
	}
	i := slices.Index(b.order, n)
	b.order = slices.Delete(b.order, i, i+1)
	if o == fleet.OK && !s.done || s.done && s.slot != onePrompt && (!s.stale || o == fleet.OK) {
		b.compute(s) // if the cache was lost since, it is there again
	}
	delete(b.live, n)
	b.free = append(b.free, n)
}

// lose empties a cache.
func (b *believer) lose(t *rapid.T) {
	slot := rapid.IntRange(0, 2).Draw(t, "slot")
	if rapid.IntRange(0, 4).Draw(t, "really") > 0 {
		t.Skip("it is rare")
	}
	b.t.Lost(slot)
	b.computed[slot] = nil
	for _, s := range b.live {
		if s.slot == slot {
			s.stale = true
		}
	}
}

// want is how many blocks of a text are at a slot.
func (b *believer) want(slot int, w text) (n int) {
	held := b.computed[slot]
	if slot == onePrompt {
		held = held[max(0, len(held)-1):]
	}
	for _, k := range b.order {
		s := b.live[k]
		if s.slot != slot || s.done || s.stale || s.refused {
			continue
		}
		if slot == onePrompt {
			held = nil // the prompt placed last will have replaced all others
		}
		held = append(slices.Clip(held), s.texts...)
	}
	for _, h := range held {
		n = max(n, sharedBy(h, w))
	}
	return n
}

// blocksOf is the set of the blocks of a slot's outstanding requests with one prompt. The name of a block covers all
// before it.
func (b *believer) blocksOf(slot int) map[uint64]bool {
	set := map[uint64]bool{}
	for _, s := range b.live {
		if s.slot == slot && len(s.texts) == 1 {
			for _, name := range s.texts[0].content().Blocks {
				set[name] = true
			}
		}
	}
	return set
}

// checkActive compares the tokens of outstanding requests, shared ones counted once, and those that a prompt would add
// to them.
func (b *believer) checkActive(t *rapid.T, slot int, w text, p *Prompt, held *pick.Cached) {
	set, shared := b.blocksOf(slot), 0
	for _, name := range w.content().Blocks {
		if set[name] {
			shared++
		}
	}
	active, adds := int64(float64(len(set)*fleet.BlockBytes)*p.TokensPerByte),
		p.Size.Tokens-p.Size.At(shared*fleet.BlockBytes)
	if held.ActiveTokens != active || held.AddsTokens != adds {
		t.Fatalf("endpoint %d holds %d tokens, and %v adds %d; want %d and %d",
			slot, held.ActiveTokens, w, held.AddsTokens, active, adds)
	}
}

func (b *believer) check(t *rapid.T) {
	for slot := range b.computed { // all of these prompts are of 4 bytes a token, and 10 tokens have no known content
		prompts := b.t.endpoints.Get(slot).outstanding.prompts
		if got, want := b.t.Resident(slot, prompts+10),
			10+int64(len(b.blocksOf(slot))*fleet.BlockBytes/4); got != want {
			t.Fatalf("endpoint %d has %d tokens in its memory, want %d", slot, got, want)
		}
	}
	for _, w := range b.asked {
		var x Lookups
		c := w.content()
		b.t.look(&x, &fleet.Request{Content: &c}, "")
		for slot := range b.computed {
			if got, want := x.matches.Depth(slot), b.want(slot, w); got != want {
				t.Fatalf("endpoint %d is believed to hold %d blocks of %v, want %d; computed %v",
					slot, got, w, want, b.computed[slot])
			}
		}
	}
}

// TestBeliefIsWhatIsBacked: what an endpoint is believed to hold of a prompt is the longest beginning that it has
// computed, or that a request outstanding there brings. How another request ended changes nothing about it.
func TestBeliefIsWhatIsBacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBeliever()
		t.Repeat(map[string]func(*rapid.T){
			"place": b.place, "place more": b.place, "first byte": b.firstByte, "end": b.end, "end more": b.end,
			"lose": b.lose, "": b.check,
		})
	})
}

// TestNothingUnbackedIsBelieved: in caches that evict, all that is believed and not computed belongs to an outstanding
// request, and with none outstanding all that is believed is computed.
func TestNothingUnbackedIsBelieved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBeliever()
		for i := range b.computed {
			b.memory[i] = 32 * rapid.IntRange(5, 60).Draw(t, "blocks")
			b.t.Describe(i, Facts{OnePrompt: i == onePrompt, CacheTokens: int64(b.memory[i])})
		}
		unbacked := func(t *rapid.T) {
			for _, w := range b.asked {
				var x Lookups
				c := w.content()
				b.t.look(&x, &fleet.Request{Content: &c}, "")
				for slot := range b.computed {
					if got, most := x.matches.Depth(slot), b.want(slot, w); got > most {
						t.Fatalf("endpoint %d is believed to hold %d blocks of %v, at most %d can be there",
							slot, got, w, most)
					}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"place": b.place, "place more": b.place, "first byte": b.firstByte, "end": b.end, "end more": b.end,
			"": unbacked,
		})
		for i := range b.computed {
			if err := b.t.Audit(i); err != nil && len(b.order) == 0 {
				t.Error(fmt.Errorf("endpoint %d: %w", i, err))
			}
		}
	})
}

// TestRowsOfSeveralModels: what is still on its way to an endpoint is not there, whichever model was looked up last.
func TestRowsOfSeveralModels(t *testing.T) {
	for _, order := range [][]string{{"m"}, {"m", "n"}, {"n", "m"}, {"m", "n", "m"}} {
		b := newBeliever()
		c := text{1, 2, 3, 4}.content()
		model := size.NewModel()
		req := &fleet.Request{Content: &c, PromptBytes: c.Bytes}
		p := &Prompt{Request: req, Now: b.now, Size: model.Prompt(req, size.Last{})}
		p.TokensPerByte = model.TokensPerByte
		ask := func(x *Lookups) []pick.Candidate {
			rows := make([]pick.Candidate, len(order))
			for i, model := range order {
				at := &rows[i].Endpoint
				at.Slot, at.Model, at.Epoch = i, model, b.t.Epoch(i)
				at.Load.TransferRequests = int(b.next)
			}
			missed := b.t.Begin(x)
			held, _, _ := b.t.Predict(x, p, pick.EndpointsOf(rows), -1, missed, nil)
			for i := range rows {
				rows[i].Cached = held[i]
			}
			return rows
		}
		var x Lookups
		for i := range order { // to each of them a decode leg is on its way
			v := &pick.View{Leg: fleet.LegDecode, PromptTokens: p.Size.Tokens, Candidates: ask(&x)}
			b.t.Open(b.next, v, i, &x, p)
			b.next++
		}
		for i, row := range ask(&x) {
			if row.CachedTokens == 0 || row.PresentTokens != 0 {
				t.Errorf("%v: row %d has %d tokens, %d of them are there, want none",
					order, i, row.CachedTokens, row.PresentTokens)
			}
		}
	}
}

// TestTransfersThatBringNothing: what another request has computed at an endpoint is there, and what one is about to
// compute there is by the time that the next one is, although transfers of the same blocks are on their way.
func TestTransfersThatBringNothing(t *testing.T) {
	for name, c := range map[string]struct {
		leg      fleet.Leg // of the other request
		computed bool
		present  bool
	}{
		"a prompt in front":   {fleet.LegUnsplit, false, true},
		"a computed prompt":   {fleet.LegUnsplit, true, true},
		"a transfer":          {fleet.LegDecode, false, false},
		"an arrived transfer": {fleet.LegDecode, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, content, model := newBeliever(), text{1, 2, 3, 4}.content(), size.NewModel()
			req := &fleet.Request{Content: &content, PromptBytes: content.Bytes}
			p := &Prompt{Request: req, Now: b.now, Size: model.Prompt(req, size.Last{})}
			p.TokensPerByte = model.TokensPerByte
			var x Lookups
			ask := func() []pick.Candidate {
				rows := make([]pick.Candidate, 1)
				at := &rows[0].Endpoint
				at.Epoch, at.Load.TransferRequests = b.t.Epoch(0), int(b.next)
				missed := b.t.Begin(&x)
				found, _, _ := b.t.Predict(&x, p, pick.EndpointsOf(rows), -1, missed, nil)
				rows[0].Cached = found[0]
				return rows
			}
			place := func(leg fleet.Leg) (n uint32) {
				n = b.next
				b.t.Open(n, &pick.View{Leg: leg, PromptTokens: p.Size.Tokens, Candidates: ask()}, 0, &x, p)
				b.next++
				return n
			}
			place(fleet.LegDecode)
			other := place(c.leg)
			place(fleet.LegDecode)
			if c.computed {
				b.t.Computed(b.now, other)
			}
			row := ask()[0]
			want := 0
			if c.present {
				want = row.CachedTokens
			}
			if row.CachedTokens == 0 || row.PresentTokens != want {
				t.Errorf("%d of %d tokens count as there, want %d", row.PresentTokens, row.CachedTokens, want)
			}
		})
	}
}

// TestRefusedPrompts: a prompt that the engine is to refuse for its length evicts nothing that is believed to be there,
// also where another router has placed it. If it is computed after all, it is there.
func TestRefusedPrompts(t *testing.T) {
	chat, long := make(text, 20), make(text, 25)
	for i := range long {
		long[i] = i + 1
	}
	const perBlock = fleet.BlockBytes / 4 // tokens
	for _, tt := range []struct {
		name    string
		context int // tokens
		cache   int64
		answer  int
		refused bool
	}{
		{"a cache for one of both", 0, 30 * perBlock, 0, false},
		{"a smaller cache", 0, 24 * perBlock, 0, true},
		{"a context for it", 25 * perBlock, 30 * perBlock, 0, false},
		{"a smaller context", 24 * perBlock, 30 * perBlock, 0, true},
		{"a context without room for its answer", 25 * perBlock, 30 * perBlock, 1, false},
	} {
		for _, peer := range []bool{false, true} {
			table := New(0)
			table.AddEndpoint(0)
			table.Describe(0, Facts{CacheTokens: tt.cache})
			model, now, next := size.NewModel(), time.Unix(1_700_000_000, 0), uint32(0)
			prompt := func(w text) (*Lookups, *Prompt, *pick.View) {
				content := w.content()
				req := &fleet.Request{Content: &content, PromptBytes: content.Bytes, MaxTokens: tt.answer}
				p := &Prompt{Request: req, Now: now, Size: model.Prompt(req, size.Last{}), TokensPerByte: 0.25}
				p.Size.Tokens = len(w) * perBlock
				x, v := &Lookups{}, &pick.View{Now: now, PromptTokens: p.Size.Tokens}
				missed := table.Begin(x)
				v.Candidates = []pick.Candidate{{Endpoint: pick.Endpoint{
					Epoch: table.Epoch(0), Context: tt.context, CacheTokens: tt.cache,
				}}}
				held, _, missed := table.Predict(x, p, pick.EndpointsOf(v.Candidates), -1, missed, nil)
				v.Candidates[0].Cached = held[0]
				table.Note(x, missed)
				return x, p, v
			}
			blocksOf := func(w text) int {
				_, _, v := prompt(w)
				return v.Candidates[0].Blocks
			}
			place := func(w text) (n uint32) {
				x, p, v := prompt(w)
				n, next = next, next+1
				if peer {
					table.look(x, p.Request, "")
					table.AddPeerRequest(n, &PeerRequest{
						Turn: true, PromptTokens: p.Size.Tokens, Bytes: p.Request.Content.Bytes, Chain: x.keys,
						TokensPerByte: p.TokensPerByte, Context: tt.context,
					})
				} else {
					table.Open(n, v, 0, x, p)
				}
				return n
			}
			end := func(n uint32, o fleet.Outcome) {
				table.Close(now, &Ended{
					Lease: fleet.Lease(n), Outcome: o, Usage: &fleet.Usage{}, Sent: true, AnswerReuse: &AnswerReuse{},
				})
			}
			before := place(chat)
			table.Computed(now, before)
			end(before, fleet.OK)
			had := blocksOf(chat)
			end(place(long), fleet.ClientError)
			if left := blocksOf(chat); had == 0 || (left == had) != tt.refused {
				t.Errorf("%s, peer %t: %d of %d blocks of the chat are left", tt.name, peer, left, had)
			}
			after := place(long)
			table.Computed(now, after)
			if n := blocksOf(long); n == 0 {
				t.Errorf("%s, peer %t: it was computed and is not there", tt.name, peer)
			}
			end(after, fleet.OK)
			if err := table.Audit(0); err != nil {
				t.Error(err)
			}
		}
	}
}
