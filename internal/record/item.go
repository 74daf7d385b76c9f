package record

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// refused is the outcome of a request that no endpoint could take.
const refused = "refused"

// item is one request under way, or waiting to be written. Ids are hashed by the writer.
type item struct {
	line    requestLine
	blocks  []uint64 // of the prompt, nil when it is not known
	scope   uint64
	content bool
	tenant  string
	session string
	parent  string
	at      time.Time // of the first attempt
	sent    time.Time // of the last
	first   time.Time
	end     time.Time
	outcome string

	engine *engineLine // a line about an engine in place of a request
}

var items = sync.Pool{New: func() any { return new(item) }}

func newItem() *item { return items.Get().(*item) }

// mostKept bounds the memory of an item that is used again, in blocks.
const mostKept = 8192

// free lets go of an item.
func (r *Recorder) free(it *item) {
	r.held.Add(-8 * int64(len(it.blocks)))
	blocks := it.blocks[:0]
	if cap(blocks) > mostKept {
		blocks = nil
	}
	*it = item{blocks: blocks}
	items.Put(it)
}

// take copies what a request says. It is nil when too much is held.
func (r *Recorder) take(e *route.Entry) *item {
	q := e.Request
	it := newItem()
	it.tenant, it.session, it.parent, it.at, it.sent = q.Tenant, q.Session, q.Parent, e.Now, e.Now
	l := &it.line
	l.Class, l.Stream = "turn", q.Stream
	if q.Class == fleet.Embed {
		l.Class = "embed"
	}
	l.PromptBytes, l.MaxTokens = q.PromptBytes, q.MaxTokens
	c := q.Content
	if c == nil {
		c = q.Overheard
	}
	if c != nil && len(c.List) == 0 { // a line has room for one prompt
		size := 8 * int64(len(c.Blocks))
		if r.held.Add(size) > mostHeld {
			r.held.Add(-size)
			r.dropped.Add(1)
			r.free(it)
			return nil
		}
		it.blocks = append(it.blocks[:0], c.Blocks...)
		it.content, it.scope, l.Bytes, l.Lead = true, c.Scope, c.Bytes, c.Lead
	}
	return it
}

// attempt notes where the request is sent.
func (it *item) attempt(e *route.Entry) {
	q, d := e.Request, e.Decision
	l := &it.line
	it.sent, it.session = e.Now, d.Session
	l.Endpoint, l.Model, l.Retries, l.Split = d.Endpoint.Name, d.Pool, len(q.Tried), d.Leg == fleet.LegDecode
	l.Estimate, l.Predicted = d.PromptTokens, d.CachedTokens
}

// finish notes what became of it.
func (it *item) finish(e *route.Entry) {
	x := e.Ended
	it.first, it.end, it.outcome = x.FirstByte, e.Now, x.Outcome.String()
	if x.Sent.After(it.sent) { // it stood in the router's line
		it.sent = x.Sent
	}
	l, u := &it.line, &x.Usage
	l.PromptTokens, l.OutputTokens = u.PromptTokens, u.OutputTokens
	if u.CachedKnown {
		cached := u.CachedTokens
		l.CachedTokens = &cached
	}
}
