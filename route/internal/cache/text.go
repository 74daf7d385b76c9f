package cache

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/session"
)

// Prompt is a request with what other rooms know of it.
type Prompt struct {
	Request       *fleet.Request
	Now           time.Time
	Leg           fleet.Leg
	Size          size.Prompt
	TokensPerByte float64 // mean of the model's prompts
	Session       string  // conversation id, "" for none
	Known         bool    // Entry is valid
	Entry         session.Entry
	Repeats       bool        // it equals its conversation's previous prompt
	AnswerReuse   AnswerReuse // of the model
	CountsActive  bool        // a policy asks for ActiveTokens and AddsTokens
}

// Lookups is the memory of one decision: the prompt's block names and which endpoints hold them. It is used again.
type Lookups struct {
	*lookup           // the latest; nil before the first
	done    int       // how many of lookups this decision has made
	lookups []*lookup // one for each model
	ids     reported.IDs
	slots   []int32 // scratch of Look
}

// lookup is a prompt looked up for one model: endpoints name what they cache by the model too.
type lookup struct {
	keys    []uint64 // the prompt's kept blocks for model
	model   string
	matches prefix.Matches
	near    prefix.Matches // in the engines' own memory, where they have a second tier
	chain   reported.Chain // what events say of it
	chained bool           // chain was found
}

// Missed is what prompts were found to miss so far, see Predict.
type Missed struct{ tokens fit.Mean }

// isText reports whether a request has one prompt, the blocks and tokens of which are known.
func isText(req *fleet.Request, tokens int) bool {
	c := req.Content
	return c != nil && len(c.List) == 0 && len(c.Blocks) > 0 && tokens > 0
}

// Names are the names of the prompt's blocks for a model, each of which stands for all before it; nil if its content is
// unknown. They are valid until the next decision.
func (r Reader) Names(x *Lookups, req *fleet.Request, tokens int, model string) []uint64 {
	if !isText(req, tokens) {
		return nil
	}
	r.look(x, req, model)
	return x.keys
}

// Begin resets x for a decision.
func (r Reader) Begin(x *Lookups) Missed {
	x.lookup, x.done = nil, 0
	x.ids.Of(nil)
	return Missed{r.t.missed}
}

// look finds the endpoints that hold blocks of the prompt for a model.
func (r Reader) look(x *Lookups, req *fleet.Request, model string) {
	for _, l := range x.lookups[:x.done] {
		if l.model == model {
			x.lookup = l
			return
		}
	}
	x.next(model)
	x.keys = blocks.Keys(x.keys, blocks.Scope(model, req.Tenant, req.Content), req.Content)
	r.t.index.Match(x.keys, &x.matches)
	if r.t.near != nil {
		r.t.near.Match(x.keys, &x.near)
	}
}

// next begins the lookup for another model. Of more than bound.Few the last are made anew each time.
func (x *Lookups) next(model string) {
	if x.done == len(x.lookups) && x.done < bound.Few {
		x.lookups = append(x.lookups, &lookup{})
	}
	x.lookup = x.lookups[min(x.done, bound.Few-1)]
	x.model, x.done, x.chained = model, min(x.done+1, bound.Few), false
	x.chain.Reset()
}

// Look looks a prompt up before its endpoints are known, which all serve it by one model name. The result is how many
// of its tokens each slot is believed to hold; it may be shorter than there are slots.
func (r Reader) Look(x *Lookups, p *Prompt, model string) []int32 {
	if !isText(p.Request, p.Size.Tokens) {
		return nil
	}
	r.look(x, p.Request, model)
	r.lookInEvents(x, p)
	n := r.t.endpoints.Len()
	cached := slices.Grow(x.slots[:0], n)[:n]
	clear(cached)
	last, tokens := 0, 0
	for slot, depth := range x.matches.All() {
		if depth != last {
			last, tokens = depth, p.Size.At(blocks.Bytes(depth))
		}
		cached[slot] = int32(tokens)
	}
	if x.chain.Known {
		for slot := range cached {
			if tokens, ok := r.t.Events.ByChain(slot, &x.chain, p.Size.Tokens); ok {
				cached[slot] = max(cached[slot], int32(tokens))
			}
		}
	}
	x.slots = cached
	return cached
}

// lookInEvents finds what events say of the prompt, by the names of the latest model that it was looked up for.
func (r Reader) lookInEvents(x *Lookups, p *Prompt) {
	if !x.chained {
		r.t.Events.Find(&x.chain, p.Request.Tenant, p.Session, x.keys, &x.matches)
		x.ids.Of(p.Request.Tokens)
		x.chained = true
	}
}

// Note stores a decision's findings, before Open or without it.
func (t *Table) Note(x *Lookups, m Missed) {
	t.missed = m.tokens
	for _, l := range x.lookups[:x.done] {
		t.Events.Touch(&l.chain)
	}
}

// wholeBlocks rounds down to whole blocks of an endpoint's engine, or to the unit in which it finds prompts again; 0 if
// it finds none again.
func (r Reader) wholeBlocks(c *pick.Endpoint, tokens int) int {
	e := r.t.endpoints.Get(c.Slot)
	if e.off() {
		return 0
	}
	if n := e.grain.block(c.BlockTokens); n > 1 {
		return tokens - tokens%n
	}
	return tokens
}

// marksOf are the names of a chain at its quarters: enough to see later that another prompt goes on with it, or between
// which two of them it begins to differ.
func marksOf(chain []uint64) (m [4]uint32) {
	for i := range m {
		if at := len(chain) * (i + 1) / len(m); at > 0 {
			m[i] = uint32(chain[at-1])
		}
	}
	return m
}

// Difference is where a prompt begins to differ from an earlier one, in canonical bytes. The zero value is unknown.
type Difference struct {
	Known     bool
	Continues bool // the prompt has all of the earlier one, and From and To say nothing
	// the bytes that both have, and those by the end of which they differ
	From, To int
}

// DifferenceOf says where a prompt, of which names is the Names, differs from an earlier one. Of the earlier one, bytes
// is its length and marks are what was kept of its text. cached is the number of the prompt's blocks that the earlier
// one's endpoint has cached. If they end between two marks, the prompts differ where they end.
func DifferenceOf(names []uint64, bytes int, marks [4]uint32, cached int) (d Difference) {
	n := blocks.Kept(bytes / fleet.BlockBytes)
	if names == nil || n == 0 || marks == ([4]uint32{}) {
		return d
	}
	d = Difference{Known: true, To: bytes}
	for i, mark := range marks {
		at := n * (i + 1) / len(marks)
		switch {
		case at == 0:
			continue
		case at <= len(names) && uint32(names[at-1]) == mark:
			d.From = blocks.Bytes(at)
			continue
		}
		d.To = blocks.Bytes(at)
		if b := blocks.Bytes(cached); b > d.From && b < d.To {
			d.From, d.To = b, blocks.Bytes(cached+1)
		}
		return d
	}
	d.Continues = true
	return d
}

// Work is how many canonical bytes an endpoint has computed since a conversation's last turn ended there, but for those
// of a lease.
func (r Reader) Work(n, since uint32) int64 {
	l := r.t.leases.Get(int(n))
	return int64(uint32(r.t.endpoints.Get(l.slot).flow)-uint32(l.flow)-since) * fleet.BlockBytes
}
