package handoff

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/prompt"
)

// Returns is what decoders said that they hold of conversations, for the prefillers of the next turns (handover.Returner). Each is given out
// once, not after its time, and only for a prompt that goes on from the one it is of: an engine believes what it is told, and
// answers from another text.
type Returns struct {
	keep time.Duration
	seed maphash.Seed

	mu    sync.Mutex
	byKey map[ReturnKey]*list.Element
	order list.List // of returned, the oldest first
	bytes int
}

// ReturnKey names a conversation.
type ReturnKey struct{ Tenant, Pool, Session string }

// Returned is what a decoder said that it holds of a conversation.
type Returned struct {
	Key    ReturnKey
	Before handover.Before
	Scope  uint64 // what the prompt depends on besides its text
	Bytes  int    // of the prompt that the decoder had, as it lay in the request
	Hash   uint64 // of these
	until  time.Time
}

const (
	mostReturned      = 16384    // conversations
	mostReturnedBytes = 64 << 20 // of what was said
)

// NewReturns keeps what is put for so long; nil when that is not positive.
func NewReturns(keep time.Duration) *Returns {
	if keep <= 0 {
		return nil
	}
	return &Returns{keep: keep, seed: maphash.MakeSeed(), byKey: map[ReturnKey]*list.Element{}}
}

// Put remembers what a decoder holds; what was held of the conversation before is forgotten.
func (r *Returns) Put(now time.Time, v Returned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.byKey[v.Key])
	v.until = now.Add(r.keep)
	r.byKey[v.Key] = r.order.PushBack(&v)
	r.bytes += len(v.Before.Params)
	for e := r.order.Front(); e != nil && (r.order.Len() > mostReturned || r.bytes > mostReturnedBytes || now.After(e.Value.(*Returned).until)); e = r.order.Front() {
		r.drop(e)
	}
}

// Take gives out what is held of a conversation whose prompt is now the given one; nil for nothing. What does not fit is forgotten too: the
// conversation has gone another way.
func (r *Returns) Take(now time.Time, key ReturnKey, scope uint64, said spoken) *handover.Before {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[key]
	if e == nil {
		return nil
	}
	v := e.Value.(*Returned)
	r.drop(e)
	if now.After(v.until) || scope != v.Scope || !said.goesOn(v.Bytes) || maphash.Bytes(r.seed, said.text[:v.Bytes]) != v.Hash {
		return nil
	}
	return &v.Before
}

// drop forgets an entry; nil is none.
func (r *Returns) drop(e *list.Element) {
	if e == nil {
		return
	}
	v := r.order.Remove(e).(*Returned)
	delete(r.byKey, v.Key)
	r.bytes -= len(v.Before.Params)
}

// spoken is the part of a request's body that is the conversation: its list of messages without the bracket at the end, or the text of a
// completion without the quote. A turn goes on from another one when it begins with the very same bytes: whatever is the same only
// in meaning may be rendered otherwise.
type spoken struct {
	text     []byte // empty when the API has none that is known, or it is written otherwise
	messages bool
}

// SpokenOf finds it in a body.
func SpokenOf(api prompt.API, p *prompt.Prompt, body []byte) (s spoken) {
	name := "prompt"
	if api == prompt.Chat {
		name, s.messages = "messages", true
	} else if api != prompt.Completions {
		return s
	}
	at := p.Field(name)
	text := bytes.TrimSpace(body[at.Start:at.End])
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

// SpokenNote is what is kept of what was said when the body is let go of.
type SpokenNote struct {
	Bytes int // 0 when nothing is to be remembered
	Hash  uint64
}

// Note is what is kept of what was said.
func (r *Returns) Note(said spoken) SpokenNote {
	return SpokenNote{Bytes: len(said.text), Hash: maphash.Bytes(r.seed, said.text)}
}
