package transfers

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/prompt"
)

// Returns has the KV cache that decoders report to hold for conversations, for the prefillers of the next turns
// (handover.Returner). Each report is used once, before it expires, and only for a prompt that continues the reported
// one: an engine trusts the report, and would answer from another text.
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

// Returned is the KV cache that a decoder reports to hold for a conversation.
type Returned struct {
	Key    ReturnKey
	Before handover.Before
	Scope  uint64 // hash of what the prompt depends on besides its text
	Bytes  int    // length of the decoder's prompt in the request body
	Hash   uint64 // hash of these bytes
	until  time.Time
}

const (
	mostReturned      = 16384    // conversations
	mostReturnedBytes = 64 << 20 // bytes of reports
)

// NewReturns makes a memory whose reports expire after keep; nil if that is not positive.
func NewReturns(keep time.Duration) *Returns {
	if keep <= 0 {
		return nil
	}
	return &Returns{keep: keep, seed: maphash.MakeSeed(), byKey: map[ReturnKey]*list.Element{}}
}

// Put stores a report and replaces the conversation's earlier one.
func (r *Returns) Put(now time.Time, v Returned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.byKey[v.Key])
	v.until = now.Add(r.keep)
	r.byKey[v.Key] = r.order.PushBack(&v)
	r.bytes += len(v.Before.Params)
	for e := r.order.Front(); e != nil && (r.order.Len() > mostReturned || r.bytes > mostReturnedBytes ||
		now.After(e.Value.(*Returned).until)); e = r.order.Front() {
		r.drop(e)
	}
}

// Take removes and returns the report for a conversation if its prompt continues the reported one; nil otherwise. One
// that does not fit is dropped too: the conversation has branched.
func (r *Returns) Take(now time.Time, key ReturnKey, scope uint64, said spoken) *handover.Before {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[key]
	if e == nil {
		return nil
	}
	v := e.Value.(*Returned)
	r.drop(e)
	if now.After(v.until) || scope != v.Scope || !said.goesOn(v.Bytes) ||
		maphash.Bytes(r.seed, said.text[:v.Bytes]) != v.Hash {
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

// spoken is the conversation in a request's body: the list of messages without the final bracket, or the text of a
// completion without the final quote. A turn continues another if it begins with the same bytes: text that is equal
// only in meaning may be rendered differently.
type spoken struct {
	text     []byte // empty if the API has none, or it is encoded differently
	messages bool
}

// SpokenOf finds the conversation in a body.
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

// goesOn reports whether the text continues validly after its first n bytes.
func (s *spoken) goesOn(n int) bool {
	if len(s.text) < n {
		return false
	}
	return !s.messages || bytes.HasPrefix(bytes.TrimLeft(s.text[n:], " \t\r\n"), []byte(","))
}

// SpokenNote is what remains of a conversation's text after the body is released.
type SpokenNote struct {
	Bytes int // 0 to remember nothing
	Hash  uint64
}

// Note summarises the text.
func (r *Returns) Note(said spoken) SpokenNote {
	return SpokenNote{Bytes: len(said.text), Hash: maphash.Bytes(r.seed, said.text)}
}
