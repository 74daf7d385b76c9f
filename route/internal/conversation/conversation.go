// Package conversation recognises the conversation of a request, and remembers where each conversation was last
// answered.
//
// It owns the table of conversations by id, a smaller one for minted ids that no client has sent back yet, the holders
// of responses, and the means of recognising conversations without an id (content and users). A Reader finds and
// changes nothing; its result is noted once, when the request is placed. The tables are those of package session,
// which has their bounds and evictions. In comes a request with its ids and its content, out comes Found: the
// conversation, its entry and the endpoints to prefer. What other routers are told of one is an Announcement. The
// package chooses no endpoint.
package conversation

import (
	"cmp"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/session"
)

// Config bounds the memory.
type Config struct {
	Sessions    session.Config
	Responses   int           // response ids
	ResponseTTL time.Duration // lifetime of a response id
}

// unclaimed bounds the table of minted ids that no client has sent back: they must not evict live conversations.
func (c Config) unclaimed() session.Config {
	s := c.Sessions
	s.Max, s.HashOnly = max(1, c.Sessions.Max/4), true
	return s
}

func (c Config) responses() session.Config {
	return session.Config{Max: c.Responses, IdleTTL: c.ResponseTTL, HashOnly: true}
}

// Table is the memory of conversations.
type Table struct {
	Reader
	claimed   *session.Table // conversations whose id a client has sent
	unclaimed *session.Table // conversations under a minted id that no client has sent back
	responses *session.Table // response id -> endpoint that holds it
	trails    *session.Trails
	users     *session.Users
	seen      *session.Seen // ids that clients sent recently
	hits      uint64
	misses    uint64
	walked    int // tables that the walk has finished, see Next
	dropped   func(session.Entry)
}

// New returns an empty table. dropped is called with the entry of each conversation that is forgotten, for whatever
// reason; it may be nil.
func New(c Config, dropped func(session.Entry)) *Table {
	t := &Table{
		claimed:   session.New(c.Sessions),
		unclaimed: session.New(c.unclaimed()),
		responses: session.New(c.responses()),
		trails:    session.NewTrails(c.Sessions.Max),
		users:     session.NewUsers(c.Sessions),
		seen:      session.NewSeen(c.Sessions.WithDefaults().SeenIDs),
		dropped:   dropped,
	}
	t.Reader = Reader{t}
	t.claimed.OnDrop(dropped)
	t.unclaimed.OnDrop(dropped)
	return t
}

// SetConfig replaces the bounds. A table above a smaller bound shrinks gradually, with each new conversation.
func (t *Table) SetConfig(c Config) {
	t.claimed.SetConfig(c.Sessions)
	t.unclaimed.SetConfig(c.unclaimed())
	t.responses.SetConfig(c.responses())
	t.trails.SetMost(c.Sessions.Max)
	t.users.SetConfig(c.Sessions)
	t.seen.SetMost(c.Sessions.WithDefaults().SeenIDs)
}

// Scope is the namespace of conversation ids: a pool, or the prefill side of one.
type Scope struct {
	Tenant string
	Pool   string
}

// Found is the result of looking up a request's conversation.
type Found struct {
	ID     string
	Minted bool // the router minted the id for this request
	Known  bool
	Entry  session.Entry // zero when unknown
	Claims bool          // known under a minted id that a client sends back for the first time
	// endpoint of its last turn according to the client; used only while the conversation is unknown
	Hint    string
	Parent  string // endpoint of the conversation that started this one; "" for none
	Repeats bool   // the prompt equals its latest one: a retry, or one of many with the same beginning
	// the engine puts what the entry is about before what the request says, which does not have it
	Unsaid bool
	NewID  bool // the client named it by an id not seen recently: is_first_turn of TensorRT-LLM PR 14744

	name  session.Name  // of the id in its scope, once it was looked up
	own   bool          // the client sent the id
	named session.Key   // hash of the id that the client sent
	user  session.Key   // the user, if it is recognised by the user alone; else zero
	text  session.Trail // of the request, in its scope
	trail session.Found
	how   recognition
}

// recognition is what the conversation of a request without an id was recognised by.
type recognition uint8

const (
	byNothing recognition = iota
	byText
	byUser // also its opening may be noted
)

// Reader reads a Table and never changes it.
type Reader struct{ t *Table }

// Find fills in what is known of a request's conversation: by id, by the response that it continues, by content, or by
// user.
func (r Reader) Find(now time.Time, s Scope, req *fleet.Request, f *Found) {
	*f = Found{}
	f.ID, f.Hint, f.own = own(req.Session), req.Hint, req.Session != ""
	if f.ID == "" {
		r.recognise(now, s, req, f)
	}
	// the failed attempt is still open and ends next
	if len(req.Tried) > 0 && req.User != "" && req.Class == fleet.Turn {
		f.user = session.KeyOf(s.Tenant, s.Pool, req.User)
	}
	if !f.Minted || len(req.Tried) > 0 {
		r.recall(now, s, f)
		r.goesOn(now, s, req, f)
	}
	if !f.Known {
		f.Parent = r.parent(now, s, req)
	}
	if req.Class == fleet.Turn && req.Session != "" {
		if f.named = f.name.Key(); f.named == (session.Key{}) || f.ID != req.Session {
			f.named = session.KeyOf(s.Tenant, s.Pool, req.Session)
		}
		f.NewID = r.t.seen.Is(f.named, !first(req)) && !f.Claims
	}
}

// Keys identify a request's conversation and that of its parent; zero for none.
func (r Reader) Keys(s Scope, req *fleet.Request, f *Found) (own, parent session.Key) {
	if own = f.name.Key(); f.ID == "" {
		own = session.Key{}
	} else if own == (session.Key{}) {
		own = keyOf(s, f.ID)
	}
	if req.Parent != "" {
		parent = keyOf(s, req.Parent)
	}
	return own, parent
}

// FindOther finds the same conversation in another scope, where it has its own home.
func (r Reader) FindOther(now time.Time, s Scope, same, f *Found) {
	*f = Found{}
	f.ID, f.Minted, f.Repeats, f.NewID, f.own = same.ID, same.Minted, same.Repeats, same.NewID, same.own
	if f.ID != "" {
		r.recall(now, s, f)
	}
}

// Holder is the endpoint that holds a response; ok is false when unknown.
func (r Reader) Holder(now time.Time, tenant, response string) (endpoint string, ok bool) {
	e, ok := r.response(now, tenant, response)
	return e.Endpoint, ok
}

// response is the stored entry of a response; ok is false for "" and one that is unknown.
func (r Reader) response(now time.Time, tenant, id string) (e session.Entry, ok bool) {
	if id == "" {
		return e, false
	}
	name := session.NameOf(tenant, "", id)
	return r.t.responses.Peek(now, &name)
}

// peek is the stored entry of a conversation, and whether a client has sent its id.
func (r Reader) peek(now time.Time, name *session.Name) (e session.Entry, known, claimed bool) {
	if e, known = r.t.claimed.Peek(now, name); known {
		return e, true, true
	}
	e, known = r.t.unclaimed.Peek(now, name)
	return e, known, false
}

func (r Reader) recall(now time.Time, s Scope, f *Found) {
	claimed := false
	f.name = nameOf(s, f.ID)
	f.Entry, f.Known, claimed = r.peek(now, &f.name)
	f.Claims = f.Known && !claimed && !f.Minted
}

// goesOn sets the entry of a conversation back to the response that the request goes on from: the engine puts that
// one's prompt and text before what the request says, even if the conversation has gone on elsewhere since.
func (r Reader) goesOn(now time.Time, s Scope, req *fleet.Request, f *Found) {
	if req.Class != fleet.Turn || !f.Known {
		return
	}
	e, ok := r.response(now, s.Tenant, req.Follows)
	if !ok || e.Tokens <= 0 || e.Tokens > bound.Tokens || e.Endpoint != f.Entry.Endpoint {
		return
	}
	g := &f.Entry
	g.Tokens, g.Prompt, g.Flow, g.Epoch, g.Model = e.Tokens, e.Prompt, e.Flow, e.Epoch, e.Model
	g.Bytes, g.Marks, f.Unsaid = 0, [4]uint32{}, true
}

// recognise finds the conversation of a request that does not name it.
func (r Reader) recognise(now time.Time, s Scope, req *fleet.Request, f *Found) {
	f.ID, f.Minted = req.MintedID, true
	if req.Class != fleet.Turn || len(req.Tried) > 0 { // a retry was recognised before
		return
	}
	if e, ok := r.response(now, s.Tenant, req.Follows); ok && e.Leader != "" {
		f.ID, f.Minted = e.Leader, false
		return
	}
	user := session.Key{}
	if req.User != "" {
		user = session.KeyOf(s.Tenant, s.Pool, req.User)
	}
	if req.Trail.Says() || req.Trail.Opens() {
		f.text, f.how = *req.Trail, byText
		f.text.Scope, f.text.Speaker = blocks.Hash(s.Tenant, s.Pool), user.Uint64()
		f.trail = r.t.trails.Find(&f.text, req.MintedID)
		f.ID, f.Minted, f.Repeats = f.trail.ID, !f.trail.Known, f.trail.Repeats
		if f.trail.Known || req.User == "" || req.Trail.Says() {
			return
		}
	}
	if req.User == "" || req.Follows != "" {
		return
	}
	f.user, f.how = user, byUser
	known := false
	f.ID, known = r.t.users.Of(now, user, req.MintedID)
	f.Minted, f.trail.ID = !known, f.ID
}

// parent is the home of the conversation that started this one.
func (r Reader) parent(now time.Time, s Scope, req *fleet.Request) string {
	if req.Parent == "" || req.Class != fleet.Turn {
		return ""
	}
	name := nameOf(s, req.Parent)
	e, _, _ := r.peek(now, &name)
	return e.Endpoint
}

// Note records that a request was seen, with the result of Find. It comes before Bind.
func (t *Table) Note(now time.Time, s Scope, req *fleet.Request, f *Found) {
	t.trails.Note(&f.text, &f.trail)
	switch f.how {
	case byText:
		if req.User != "" {
			t.users.Said(now, session.KeyOf(s.Tenant, s.Pool, req.User), f.ID)
		}
	case byUser:
		t.users.Claim(now, f.user, req.MintedID)
	case byNothing:
	}
	if req.Class != fleet.Turn {
		return
	}
	first := first(req)
	if req.Session != "" {
		t.seen.First(f.named, !first)
	}
	switch {
	case !first:
	case f.Known:
		t.hits++
	default:
		t.misses++
	}
}

// first reports whether this is a request's first attempt.
func first(req *fleet.Request) bool {
	return len(req.Tried) == 0 && len(req.TriedPrefill) == 0 && req.Leg == fleet.LegUnsplit
}

// Ref identifies the conversation of a running request. The zero Ref is none.
type Ref struct {
	name session.Name
	user session.Key
}

// Bind stores where a conversation's turn goes and returns the Ref for its end. A request without an id has no
// conversation.
func (t *Table) Bind(now time.Time, s Scope, f *Found, e session.Entry) Ref {
	if f.ID == "" {
		return Ref{}
	}
	ref := Ref{name: f.name, user: f.user}
	if ref.name.Key() == (session.Key{}) {
		ref.name = nameOf(s, f.ID)
	}
	t.bind(now, &ref, e, f.Minted, f.Claims)
	return ref
}

// bind stores the entry of a conversation: of one whose id no client has sent, or of one that was among those till now
// if claims is set.
func (t *Table) bind(now time.Time, ref *Ref, e session.Entry, unclaimed, claims bool) {
	if ref.user != (session.Key{}) {
		t.users.Begin(ref.user)
	}
	if unclaimed {
		t.unclaimed.Put(now, &ref.name, e)
		return
	}
	t.claimed.Put(now, &ref.name, e)
	if claims {
		other := ref.name
		t.unclaimed.Delete(&other)
	}
}

// Revise changes the entry of a conversation whose turn is at an endpoint by f, unless it was forgotten or has been
// placed elsewhere since.
func (t *Table) Revise(now time.Time, r *Ref, endpoint string, f func(session.Entry) session.Entry) {
	if r.name.Key() == (session.Key{}) {
		return
	}
	change := func(e session.Entry) (session.Entry, bool) {
		if e.Endpoint != endpoint {
			return e, false
		}
		return f(e), true
	}
	if !t.claimed.Revise(now, &r.name, change) {
		t.unclaimed.Revise(now, &r.name, change)
	}
}

// Close notes the end of a turn.
func (t *Table) Close(now time.Time, r *Ref) {
	if r.user != (session.Key{}) {
		t.users.End(now, r.user)
	}
}

// EndIdle notes that a conversation is no longer idle, though its turn is not placed yet.
func (t *Table) EndIdle(now time.Time, f *Found) {
	ref := Ref{name: f.name}
	t.Revise(now, &ref, f.Entry.Endpoint, func(e session.Entry) session.Entry {
		e.IdleSince = 0
		return e
	})
}

// Key identifies the conversation; zero for none.
func (r *Ref) Key() session.Key { return r.name.Key() }

// Respond stores which endpoint holds a response, and for which owner, by number. The Leader of what is told is its
// conversation, "" for none, and its Tokens are 0 until it has ended.
func (t *Table) Respond(now time.Time, response session.Key, owner uint8, told session.Entry) {
	name := session.Owned(response, owner)
	e, ok := t.responses.Peek(now, &name)
	if ok && told.Tokens == 0 && e.Endpoint == told.Endpoint && (told.Leader == "" || told.Leader == e.Leader) {
		return
	}
	told.Leader = cmp.Or(told.Leader, e.Leader)
	t.responses.Put(now, &name, told)
}

// ResponseKey is the key of a response.
func ResponseKey(tenant, response string) session.Key { return session.KeyOf(tenant, "", response) }

// ForgetKey forgets a conversation, and reports whether it was known.
func (t *Table) ForgetKey(key session.Key) (known bool) {
	name := session.Hashed(key)
	for _, in := range [...]*session.Table{t.claimed, t.unclaimed} {
		e, ok := in.Take(&name)
		if known = known || ok; ok && t.dropped != nil {
			t.dropped(e)
		}
	}
	return known
}

// Stats are a Table's sizes and counters.
type Stats struct {
	Sessions  int    // conversations remembered
	Responses int    // response ids remembered
	Hits      uint64 // turns whose conversation was known
	Misses    uint64 // turns whose conversation was unknown
	// conversations that clients had named and that were forgotten, since the table was full or they were idle
	Evictions uint64
}

// Stats returns the counters.
func (t *Table) Stats() Stats {
	claimed := t.claimed.Stats()
	return Stats{
		Sessions: t.claimed.Len() + t.unclaimed.Len(), Responses: t.responses.Len(),
		Hits: t.hits, Misses: t.misses, Evictions: claimed.Evictions + claimed.Expirations,
	}
}
