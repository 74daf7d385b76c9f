package route

import (
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/blocks"
)

// KVApplied is what an endpoint's event stream brought.
type KVApplied struct {
	Endpoint string
	Ops      *kvstream.Ops // read during Observe only
	Blocks   int           // held by the engine, as far as it is known
	Size     int           // tokens a block; 0 unknown

	Asked time.Time // when the engine was asked for it; zero of a stream that tells by itself
}

// KVHeard says how an endpoint's event stream is. Lost empties what it is believed to hold: the engine has started anew, or messages are
// missing that cannot be asked for.
type KVHeard struct {
	Endpoint string
	State    kvstream.State
	Detail   string // what happened, for people
	Lost     bool   // what was stored before is void
	Restart  bool   // the engine has started anew: nothing that was believed of its cache holds
}

// KVTick lets the router notice silence. It is sent twice a second or so while there are event streams.
type KVTick struct{}

// KVTokens tells the tokens of an open request's prompt, as the engine's tokenizer gives them.
type KVTokens struct {
	Lease  fleet.Lease
	Tokens []uint32
	Salt   string // kvstream.Event.Salt and kvstream.Event.Extra of the prompt's first block, see kvstream.Names
	Extra  uint64
}

func (KVApplied) event() {}
func (KVHeard) event()   {}
func (KVTick) event()    {}
func (KVTokens) event()  {}

// KVFigures are what is known of an endpoint's KV events.
type KVFigures struct {
	State  kvstream.State
	Blocks int    // held, as far as it is known
	Untied uint64 // blocks stored of which it is not known whose conversation they are
	Tied   uint64 // blocks stored in conversations that are known
	Wrong  uint64 // times that the belief made of events was given up for a while
}

// mirror is what the router knows of an endpoint's cache by its events.
type mirror struct {
	KVFigures
	base   kvstream.State // Exact or Partial: what the state is when nothing speaks against it
	block  int            // tokens
	stored uint64         // blocks stored so far
	owed   time.Time      // since when blocks must have been stored and nothing was heard; zero when nothing is owed
	full   int            // blocks held at most when some were evicted: what the cache has room for; 0 unknown
	misses int            // predictions in a row that were wrong
	hits   int            // and, while it is not gone by, right

	unheard        []kvUnheard // what was computed of late and may not have been told yet, in a ring
	next           int         // its oldest
	strange, alike int         // token lists in a row of another length than the engine counted, and of the same
	foreign        bool        // token lists are not gone by
}

// Parameters of the mirror.
const (
	kvOverdue   = time.Second // of blocks that an answer must have brought; engines take milliseconds
	kvMisses    = 4           // wrong predictions in a row after which events are not gone by
	kvHits      = 8           // right ones in a row after which they are again
	kvMinBlocks = 2           // blocks that must have been stored for silence to be told from a prompt that was cached nearly whole
)

// trusted reports whether predictions go by the events.
func (m *mirror) trusted() bool { return m.State == kvstream.Exact || m.State == kvstream.Partial }

// kvTable is what KV events say, over all endpoints.
type kvTable struct {
	index    *prefix.Index // by endpoint, the blocks that its engine told of, under the names of kvstream.Stream
	ties     kvTies
	chain    []uint64 // scratch
	loose    kvLoose
	heads    []kvHead // the last runs of blocks that are nobody's, in a ring
	nextHead int
	over     []kvEnd // the last requests that are over, in a ring
	overs    int
	any      bool // an endpoint has events
	tenants  bool // there was a request of a tenant
	tokens   bool // token ids were told
}

// kvApply takes in what a stream brought.
func (r *Router) kvApply(now time.Time, ep *endpoint, ev *KVApplied) {
	m := &ep.mirror
	r.kv.open()
	if m.base == kvstream.None {
		m.base = kvstream.Partial
	}
	if ev.Size > 0 && ev.Size != m.block {
		m.block = ev.Size
	}
	r.kv.index.SetCapacity(ep.slot, max(ev.Blocks+1024, kvstream.DefaultBlocks))
	late := false
	for i := range ev.Ops.List {
		op := &ev.Ops.List[i]
		names := ev.Ops.Of(op)
		switch op.Kind {
		case kvstream.Stored:
			m.stored += uint64(len(names))
			if m.State == kvstream.Silent {
				r.kvSay(ep, "heard again")
			}
			if m.owed = (time.Time{}); m.State == kvstream.Silent || m.State == kvstream.None {
				m.State = m.base
			}
			r.kv.index.Store(ep.slot, op.Parent, names)
			label, only := r.kvSpeaker(ep, op)
			if r.kv.tie(label, only, op.Parent, names) {
				m.Tied += uint64(len(names))
			} else {
				m.Untied += uint64(len(names))
				r.kv.noteHead(ep.slot, op.Parent, names)
				late = true
			}
		case kvstream.Removed:
			r.kv.index.Remove(ep.slot, names)
			m.full = max(m.full, m.Blocks)
		case kvstream.Cleared:
			r.kv.index.Clear(ep.slot)
			r.belief.index.Clear(ep.slot)
			r.renew(ep)
			m.base, m.misses, m.hits = kvstream.Exact, 0, 0 // whatever was there before it began is gone
			m.State = kvstream.Exact
		}
	}
	m.Blocks = ev.Blocks
	m.hear(now, ev.Asked)
	if late {
		r.kv.claimLate(ep.slot)
	}
}

// kvSpeaker is the conversation that a stored event belongs to: the label says so, or there is only one request that can have caused
// it. 0 is nobody.
func (r *Router) kvSpeaker(ep *endpoint, op *kvstream.Op) (label, only uint64) {
	if op.Session != "" {
		return r.kv.labelled(op.Session), 0
	}
	if len(ep.pending) == 1 && ep.load.Requests == 1 {
		if f := &r.flights[ep.pending[0]]; f.session != "" {
			return 0, kvKey(f.tenant, f.session)
		}
	}
	return 0, 0
}

// kvKey names a tenant's conversation in the ties.
func kvKey(tenant, session string) uint64 {
	h := xxh3.HashString(session)
	if tenant != "" {
		h ^= xxh3.HashString(tenant) * 0x9e3779b97f4a7c15
	}
	return h | 1
}

// label notes whose conversation an id is: engines label blocks with the id alone, and two tenants may use the same. Nothing has to be noted
// while there is one tenant.
func (t *kvTable) label(tenant, session string) {
	if t.tenants = t.tenants || tenant != ""; !t.tenants || session == "" {
		return
	}
	key, x := kvKey(tenant, session), t.ties.make(labelKey(session))
	switch {
	case len(x.chain) == 0:
		t.ties.set(x, 0, []uint64{key})
	case x.chain[0] != key:
		t.ties.set(x, 0, []uint64{0}) // of two tenants: it tells nothing
	}
}

// labelled is the conversation that a label stands for; 0 when several tenants use it.
func (t *kvTable) labelled(session string) uint64 {
	if x := t.ties.byKey[labelKey(session)]; x != nil && len(x.chain) == 1 {
		return x.chain[0]
	}
	return kvKey("", session)
}

// labelKey is where it is noted whose conversation an id is.
func labelKey(session string) uint64 {
	return blocks.Scramble(xxh3.HashString(session)^0x6c6162656c) &^ 1
}

func (t *kvTable) open() {
	if t.index == nil {
		t.index = prefix.New(prefix.Config{Capacity: kvstream.DefaultBlocks})
		t.ties.init()
	}
	t.any = true
}

// kvHeard takes in how a stream is, and says it.
func (r *Router) kvHeard(ep *endpoint, ev *KVHeard, to []Change) []Change {
	m := &ep.mirror
	r.kv.open()
	if ev.Lost || ev.Restart || ev.State == kvstream.None {
		r.kv.index.Clear(ep.slot)
		m.Blocks, m.misses, m.hits, m.owed = 0, 0, 0, time.Time{}
	}
	if ev.Restart {
		r.lostCache(ep)
		ep.cache.restarts++
	}
	switch ev.State {
	case kvstream.Exact, kvstream.Partial, kvstream.None:
		m.base = ev.State
	case kvstream.Silent, kvstream.Wrong:
	}
	before := m.State
	if m.State = ev.State; m.State == before && ev.Detail == "" {
		return to
	}
	told := r.health.Reader().Told(ep.id())
	return append(to, Change{Endpoint: ep.spec.Name, From: told, To: told, Detail: "KV events: " + ev.Detail})
}

// kvTick notices who is silent.
func (r *Router) kvTick(now time.Time, to []Change) []Change {
	for _, ep := range r.endpoints {
		m := &ep.mirror
		if m.owed.IsZero() || now.Sub(m.owed) < kvOverdue || !m.trusted() {
			continue
		}
		m.State, m.owed = kvstream.Silent, time.Time{}
		told := r.health.Reader().Told(ep.id())
		to = append(to, Change{
			Endpoint: ep.spec.Name, From: told, To: told,
			Detail: "KV events: silent, though blocks must have been stored; going by the answers until they are heard again",
		})
	}
	return to
}

// kvOwed notes that an answer must have brought blocks that were not heard of.
func (r *Router) kvOwed(now time.Time, f *flight, u *fleet.Usage) {
	m := &f.ep.mirror
	if !m.trusted() || m.block <= 0 || m.stored != f.kv.stored || u.PromptTokens <= 0 || !u.CachedKnown {
		return
	}
	if u.PromptTokens-u.CachedTokens >= (kvMinBlocks+1)*m.block && m.owed.IsZero() {
		m.owed = now
	}
}

// kvForget lets go of what an endpoint's events said: it is gone, or another engine is at its address.
func (r *Router) kvForget(ep *endpoint) {
	ep.mirror, ep.answers = mirror{}, 0
	if r.kv.index != nil {
		r.kv.index.Drop(ep.slot)
	}
}

// kvCapacity is how many tokens an endpoint's cache has room for, by what it held when it evicted; 0 unknown. Blocks that are not full and
// those in use that have no name yet take room too, and are not counted.
func (ep *endpoint) kvCapacity() int64 {
	if !ep.mirror.trusted() {
		return 0
	}
	return int64(ep.mirror.full) * int64(ep.mirror.block)
}
