package record

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// refused is the outcome of a request for which there was no endpoint.
const refused = "refused"

// item is one request that is in flight or waits to be written. The writer hashes its ids.
type item struct {
	line    requestLine
	blocks  []uint64 // of the prompt; nil if unknown
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

	engine *engineLine // if set, the item is about an engine, not a request
}

var items = sync.Pool{New: func() any { return new(item) }}

func newItem() *item { return items.Get().(*item) }

// mostKept bounds the blocks that an item in the pool may have room for.
const mostKept = 8192

// free returns an item to the pool.
func (r *Recorder) free(it *item) {
	r.held.Add(-8 * int64(len(it.blocks)))
	blocks := it.blocks[:0]
	if cap(blocks) > mostKept {
		blocks = nil
	}
	*it = item{blocks: blocks}
	items.Put(it)
}

// take copies a request into an item. It returns nil if too much memory is in use.
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
		c = q.ShadowContent
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

// attempt records where the request is sent.
func (it *item) attempt(e *route.Entry) {
	q, d := e.Request, e.Decision
	l := &it.line
	it.sent, it.session = e.Now, d.Session
	l.Endpoint, l.Model, l.Retries, l.Split = d.Endpoint.Name, d.Pool, len(q.Tried), d.Leg == fleet.LegDecode
	l.Estimate, l.Predicted = d.PromptTokens, d.CachedTokens
}

// finish records the result.
func (it *item) finish(e *route.Entry) {
	x := e.Ended
	it.first, it.end, it.outcome = x.FirstByte, e.Now, x.Outcome.String()
	if x.Sent.After(it.sent) { // it waited in the router's queue
		it.sent = x.Sent
	}
	l, u := &it.line, &x.Usage
	l.PromptTokens, l.OutputTokens = u.PromptTokens, u.OutputTokens
	if u.CachedKnown {
		cached := u.CachedTokens
		l.CachedTokens = &cached
	}
}
