package proxy

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"net/url"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
)

// returns is what decoders said that they hold of conversations, for the prefillers of the next turns (handover.Returner). Each is given out
// once, not after its time, and only for a prompt that goes on from the one it is of: an engine believes what it is told, and
// answers from another text.
type returns struct {
	keep time.Duration
	seed maphash.Seed

	mu    sync.Mutex
	byKey map[returnKey]*list.Element
	order list.List // of returned, the oldest first
	bytes int
}

// returnKey names a conversation.
type returnKey struct{ tenant, pool, session string }

type returned struct {
	key    returnKey
	before handover.Before
	scope  uint64 // what the prompt depends on besides its text
	bytes  int    // of the prompt that the decoder had, as it lay in the request
	hash   uint64 // of these
	until  time.Time
}

const (
	mostReturned      = 16384    // conversations
	mostReturnedBytes = 64 << 20 // of what was said
)

func newReturns(keep time.Duration) *returns {
	if keep <= 0 {
		return nil
	}
	return &returns{keep: keep, seed: maphash.MakeSeed(), byKey: map[returnKey]*list.Element{}}
}

// put remembers what a decoder holds; what was held of the conversation before is forgotten.
func (r *returns) put(now time.Time, v returned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.byKey[v.key])
	v.until = now.Add(r.keep)
	r.byKey[v.key] = r.order.PushBack(&v)
	r.bytes += len(v.before.Params)
	for e := r.order.Front(); e != nil && (r.order.Len() > mostReturned || r.bytes > mostReturnedBytes || now.After(e.Value.(*returned).until)); e = r.order.Front() {
		r.drop(e)
	}
}

// take gives out what is held of a conversation whose prompt is now the given one; nil for nothing. What does not fit is forgotten too: the
// conversation has gone another way.
func (r *returns) take(now time.Time, key returnKey, scope uint64, said spoken) *handover.Before {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[key]
	if e == nil {
		return nil
	}
	v := e.Value.(*returned)
	r.drop(e)
	if now.After(v.until) || scope != v.scope || !said.goesOn(v.bytes) || maphash.Bytes(r.seed, said.text[:v.bytes]) != v.hash {
		return nil
	}
	return &v.before
}

// drop forgets an entry; nil is none.
func (r *returns) drop(e *list.Element) {
	if e == nil {
		return
	}
	v := r.order.Remove(e).(*returned)
	delete(r.byKey, v.key)
	r.bytes -= len(v.before.Params)
}

// len is how many conversations are remembered.
func (r *returns) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len()
}

// spoken is the part of a request's body that is the conversation: its list of messages without the bracket at the end, or the text of a
// completion without the quote. A turn goes on from another one when it begins with the very same bytes: whatever is the same only
// in meaning may be rendered otherwise.
type spoken struct {
	text     []byte // empty when the API has none that is known, or it is written otherwise
	messages bool
}

func (c *call) spoken() (s spoken) {
	name := "prompt"
	if c.api == prompt.Chat {
		name, s.messages = "messages", true
	} else if c.api != prompt.Completions {
		return s
	}
	at := c.prompt.Field(name)
	text := bytes.TrimSpace(c.body.Bytes[at.Start:at.End])
	switch {
	case s.messages && bytes.HasPrefix(text, []byte("[")) && bytes.HasSuffix(text, []byte("]")):
		s.text = bytes.TrimRight(text[:len(text)-1], " \t\r\n")
	case !s.messages && len(text) > 1 && text[0] == '"':
		s.text = text[:len(text)-1]
	}
	return s
}

// goesOn reports whether something follows the first n bytes that can follow what ended there.
func (s *spoken) goesOn(n int) bool {
	if len(s.text) < n {
		return false
	}
	return !s.messages || bytes.HasPrefix(bytes.TrimLeft(s.text[n:], " \t\r\n"), []byte(","))
}

// known is what the prompt consists of, as far as it is still known.
func (c *call) known() *fleet.Content {
	if c.req.Content != nil {
		return c.req.Content
	}
	return c.req.Overheard
}

// fetchBack looks whether the prefiller can fetch the beginning of the conversation from the decoder of its latest turn.
func (s *split) fetchBack() {
	s.x.Before = nil
	if r := s.c.p.returns; r != nil {
		if _, can := s.conn.(handover.Returner); can {
			d := &s.plan.Prefill
			if content := s.c.known(); content != nil {
				s.x.Before = r.take(time.Now(), returnKey{s.c.req.Tenant, d.Pool, d.Session}, content.Scope, s.c.spoken())
			}
		}
	}
}

// misled reports whether a prefill leg failed that was to fetch from a decoder: it may not have got that, and is not to blame. It may be asked
// again, without.
func (s *split) misled(a *attempt) bool {
	if s.x.Before == nil || a.status == 0 || a.fin.Outcome != fleet.EngineError && a.fin.Outcome != fleet.ClientError {
		return false
	}
	a.fin.Outcome = fleet.TransferFailed
	return true
}

// spokenNote is what is kept of what was said when the body is let go of.
type spokenNote struct {
	bytes int // 0 when nothing is to be remembered
	hash  uint64
}

// noteSpoken keeps what keepReturned needs of the body.
func (a *attempt) noteSpoken() {
	c := a.c
	r := c.p.returns
	if r == nil || a.d.Leg != fleet.LegDecode || a.d.Session == "" || c.split == nil || c.body == nil {
		return
	}
	if _, can := c.split.conn.(handover.Returner); can {
		said := c.spoken()
		c.split.said = spokenNote{bytes: len(said.text), hash: maphash.Bytes(r.seed, said.text)}
	}
}

// keepReturned remembers what the decoder of a complete answer says that it holds. end is how the answer ended.
func (a *attempt) keepReturned(end []byte) {
	c := a.c
	r := c.p.returns
	if r == nil || a.d.Leg != fleet.LegDecode || a.d.Session == "" || c.split == nil || !bytes.Contains(end, []byte("kv_transfer_params")) {
		return
	}
	a.noteSpoken()
	conn, can := c.split.conn.(handover.Returner)
	content, said := c.known(), c.split.said
	at, err := url.Parse(a.d.Endpoint.URL)
	if !can || content == nil || said.bytes == 0 || err != nil {
		return
	}
	params := conn.Returned(end)
	if params == nil {
		return
	}
	r.put(time.Now(), returned{
		key: returnKey{c.req.Tenant, a.d.Pool, a.d.Session}, before: handover.Before{Params: bytes.Clone(params), Host: at.Hostname()},
		scope: content.Scope, bytes: said.bytes, hash: said.hash,
	})
}
