package identity

import (
	"slices"
	"sync"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/session"
)

// leastOwn is how many bytes a prompt needs beyond shared text (tools, system prompt) to identify its conversation:
// many begin with the same greeting.
const leastOwn = 64

// Content is the content of one prompt, by which its conversation is recognised.
type Content struct {
	Chain  prompt.Chain
	ids    prompt.Chain // of the token ids that accompany a chat's messages
	body   []byte       // scratch
	trail  session.Trail
	about  fleet.Content
	tokens fleet.Tokens
	listed [fleet.MaxListed]fleet.Listed // of about
	lists  [fleet.MaxListed]fleet.Tokens // of listed
	ends   []int                         // of about
}

// NewContent returns an empty Content. Release gives it back.
func NewContent() *Content { return contents.Get().(*Content) }

// ReadIDs reads the token ids, a JSON list, that accompany a chat's messages. Engines compute and cache these; the
// conversation is still recognised by the messages.
func (c *Content) ReadIDs(p *prompt.Parser, list []byte) {
	c.body = slices.Grow(c.body[:0], len(`{"prompt":}`)+len(list))
	c.body = append(append(append(c.body, `{"prompt":`...), list...), '}')
	if _, err := p.ParseChain(prompt.Completions, c.body, nil, &c.ids); err != nil {
		c.ids.Reset()
	}
}

// ForRouter is the content for the router's cache prediction; nil when there is none.
func (c *Content) ForRouter(api prompt.API) *fleet.Content {
	if c.Chain.Bytes == 0 && len(c.Chain.List) == 0 {
		return nil
	}
	if c.ids.Bytes > 0 { // the ids include tools and documents
		c.about = fleet.Content{
			Scope: c.Chain.Space, Blocks: c.ids.Blocks, Bytes: c.ids.Bytes, Hash: c.ids.Whole, Start: c.start(api),
		}
		return &c.about
	}
	c.about = fleet.Content{
		Scope: c.Chain.Scope, Lead: c.Chain.ToolsBytes, Blocks: c.Chain.Blocks, Bytes: c.Chain.Bytes,
		Hash: c.Chain.Whole, Start: c.start(api), Text: c.textOf(api),
		List: c.listed[:len(c.Chain.List)],
	}
	if c.ends = c.ends[:0]; len(c.Chain.Marks) > 1 {
		for i := range c.Chain.Marks {
			c.ends = append(c.ends, c.Chain.Marks[i].Bytes)
		}
		c.about.Ends = c.ends
	}
	for i := range c.Chain.List {
		p := &c.Chain.List[i]
		c.listed[i] = fleet.Listed{Blocks: p.Blocks, Bytes: p.Bytes, Hash: p.Whole, IDs: p.IDs}
	}
	return &c.about
}

// mostIDs bounds the token ids read of a prompt before it is placed, and thereby the time: BenchmarkTokens.
const mostIDs = 1 << 16

// Tokens are the token ids of a prompt that consists of ids; nil for another, and if the engine's blocks depend on more
// than ids: a salt, an adapter, an image. The ids of several prompts go into the List of the content, and the result is
// nil.
func (c *Content) Tokens() *fleet.Tokens {
	if c.Chain.Space != 0 || c.Chain.Media > 0 {
		return nil
	}
	if len(c.about.List) > 0 {
		c.tokensOfList()
		return nil
	}
	from := &c.Chain
	if c.ids.Bytes > 0 {
		from = &c.ids
	}
	ids, whole := from.TokenIDs(c.tokens.IDs[:0], mostIDs)
	c.tokens = fleet.Tokens{IDs: ids, More: !whole}
	if len(ids) == 0 {
		return nil
	}
	return &c.tokens
}

// tokensOfList adds the ids of several prompts to the content, at most mostIDs in total.
func (c *Content) tokensOfList() {
	c.tokens.IDs = c.tokens.IDs[:0]
	for i := range c.about.List {
		from := len(c.tokens.IDs)
		ids, whole := c.Chain.ListedIDs(i, c.tokens.IDs, mostIDs-from)
		c.tokens.IDs = ids
		c.lists[i] = fleet.Tokens{More: !whole}
	}
	from := 0
	for i := range c.about.List {
		n := min(c.about.List[i].IDs, len(c.tokens.IDs)-from)
		if c.lists[i].IDs = c.tokens.IDs[from : from+n]; n > 0 {
			c.about.List[i].Tokens = &c.lists[i]
		}
		from += n
	}
}

// start is a hash of the first two messages; 0 for a prompt without messages.
func (c *Content) start(api prompt.API) uint64 {
	if api == prompt.Completions || api == prompt.Generate || api == prompt.OllamaGenerate {
		return 0
	}
	h := uint64(0)
	for i := range min(2, len(c.Chain.Marks)) {
		h = (h ^ c.Chain.Marks[i].Own) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// textOf has the features of the prompt's text for the estimate of its tokens; it is zero for token ids, which are
// counted. Plain prompts get no chat template.
func (c *Content) textOf(api prompt.API) fleet.Text {
	k := &c.Chain.Kinds
	if *k == (prompt.TextKinds{}) {
		return fleet.Text{}
	}
	t := fleet.Text{
		Starts: k.Starts, Digits: k.Digits, CJK: k.CJK, Other: k.Other, Tools: c.Chain.ToolsBytes, Media: c.Chain.Media,
	}
	if api != prompt.Completions && api != prompt.Generate && api != prompt.OllamaGenerate {
		t.Messages = len(c.Chain.Marks)
	}
	return t
}

// mostMarks is how many messages one turn may add and still be recognised as the next turn. The search runs while the
// fleet is locked.
const mostMarks = 256

// mostScratch bounds the memory kept for token ids, in bytes.
const mostScratch = 1 << 20

// Release gives the memory back for another prompt, unless it is unusually large.
func (c *Content) Release() {
	const most = 1 << 16
	if c == nil || cap(c.trail.Marks) > most || cap(c.body) > mostScratch {
		return
	}
	c.Chain.Reset()
	if len(c.body) > 0 {
		c.body = c.body[:0]
		c.ids.Reset()
	}
	clear(c.listed[:len(c.about.List)])
	clear(c.lists[:len(c.about.List)])
	c.about, c.tokens = fleet.Content{}, fleet.Tokens{IDs: c.tokens.IDs[:0]}
	c.trail = session.Trail{Marks: c.trail.Marks[:0], StrictMarks: c.trail.StrictMarks[:0]}
	contents.Put(c)
}

var contents = sync.Pool{New: func() any { return new(Content) }}

// Follow turns the chain into a trail; nil if the prompt identifies no conversation. System messages are left out:
// agents write dates and directories into them. So is the beginning of the answer at the end: later turns have it as a
// part of the whole answer, or do not have it.
func (c *Content) Follow() *session.Trail {
	chain, t := &c.Chain, &c.trail
	if chain.Bytes == 0 || chain.Prompts > 1 {
		return nil // several prompts belong to many conversations or to none
	}
	marks, end := asked(chain)
	*t = session.Trail{
		Marks: t.Marks[:0], StrictMarks: t.StrictMarks[:0], Space: chain.Space, Text: chain.HashAt(end),
		Blocks: chain.Blocks[:end/prompt.BlockBytes], HashAt: chain.HashAt, Bytes: end,
		Least: chain.SystemBytes + leastOwn,
	}
	if n := len(marks); n > 1 {
		t.From = marks[n-2].Bytes
	}
	strict := chain.System ^ (chain.Scope^chain.Space)*0xd6e8feb86659fd93
	said, from, h := 0, 0, uint64(0)
	if chain.Media > 0 { // a picture counts as own content
		said, t.Least = leastOwn, chain.SystemBytes
	}
	for i := range marks {
		m := &marks[i]
		size := m.Bytes - from - header(m.Role)
		from = m.Bytes
		if m.Role == prompt.System {
			continue
		}
		if h == 0 {
			t.Least += header(m.Role)
		}
		h = (h ^ m.Own) * 0x9e3779b97f4a7c15
		h ^= h >> 29
		if t.Opening = said+size < leastOwn; t.Opening {
			t.Openings++
		}
		said += size
		t.Whole, t.Strict = h, h^strict
		t.Marks, t.StrictMarks = append(t.Marks, t.Whole), append(t.StrictMarks, t.Strict)
	}
	if len(marks) < 2 && len(t.Marks) > 0 && marks[0].Role == prompt.OtherRole {
		// plain text has no messages
		t.Whole, t.Strict, t.Openings, t.Opening = 0, 0, 0, false
		t.Marks, t.StrictMarks = t.Marks[:0], t.StrictMarks[:0]
	}
	if n := len(t.Marks); n > 0 { // the last one is the prompt's end; trails have the latest first
		t.Marks, t.StrictMarks = t.Marks[:n-1], t.StrictMarks[:n-1]
		slices.Reverse(t.Marks)
		slices.Reverse(t.StrictMarks)
		if t.Opening { // a short message that is extended within says nothing
			t.Openings, t.HashAt = n-1, nil
		}
		most := min(n-1, mostMarks)
		t.Openings = max(0, t.Openings-(n-1-most))
		t.Marks, t.StrictMarks = t.Marks[:most], t.StrictMarks[:most]
	}
	return t
}

// asked is a prompt's messages and its end in bytes without the beginning of the answer.
func asked(c *prompt.Chain) (marks []prompt.Mark, end int) {
	marks, end = c.Marks, c.Bytes-c.Begun()
	for n := len(marks); n > 1 && marks[n-1].Role == prompt.Assistant && marks[n-2].Role != prompt.System; n-- {
		marks, end = marks[:n-1], marks[n-2].Bytes
	}
	return marks, end
}

// header is the number of canonical bytes of a message that give its role only. Plain text has none.
func header(r prompt.Role) int {
	if r == prompt.OtherRole {
		return 0
	}
	return len(r.String()) + 2
}
