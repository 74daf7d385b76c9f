// Package conversation recognises whose turn a request is, and remembers where each conversation was last answered.
//
// It owns the table of conversations by id, a smaller one of those under an id that the router minted and no client has sent back yet,
// who holds which response, and what tells conversations without an id apart (texts and users). A Reader finds and changes nothing;
// what it found is noted once, when the request is placed. The package chooses no endpoint.
package conversation

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/session"
)

// Config bounds what is remembered.
type Config struct {
	Sessions    session.Config
	Responses   int           // response ids
	ResponseTTL time.Duration // for how long a response id is remembered
}

// Table is all that is remembered of conversations.
type Table struct {
	claimed   *session.Table // conversations whose id a client has sent
	unclaimed *session.Table // those under a minted id with which nobody has gone on yet
	responses *session.Table // response id -> endpoint that holds it
	trails    *session.Trails
	users     *session.Users
	seen      *session.Seen // ids that clients have sent of late
	hits      uint64
	misses    uint64
}

// New makes an empty table.
func New(c Config) *Table {
	// Ids that no client ever sends back must not push out conversations that live: they have a table of their own.
	unclaimed := c.Sessions
	unclaimed.Max = max(1, c.Sessions.Max/4)
	unclaimed.HashOnly = true
	return &Table{
		claimed:   session.New(c.Sessions),
		unclaimed: session.New(unclaimed),
		responses: session.New(session.Config{Max: c.Responses, IdleTTL: c.ResponseTTL, HashOnly: true}),
		trails:    session.NewTrails(c.Sessions.Max),
		users:     session.NewUsers(c.Sessions),
		seen:      session.NewSeen(c.Sessions.WithDefaults().SeenIDs),
	}
}

// Scope is where conversations are told apart by id: a pool, or the prefill side of one.
type Scope struct {
	Tenant string
	Pool   string
}

// Found is what is known of a request's conversation.
type Found struct {
	ID      string
	Minted  bool // under an id that the client has not sent, and new
	Known   bool
	Entry   session.Entry // the zero value when it is not known
	Claims  bool          // known under an id that the router minted, and gone on with now for the first time
	Hint    string        // endpoint of its last turn, as the client says; counts while the conversation is not known
	Parent  string        // endpoint of the conversation that started this one, "" for none
	Repeats bool          // the prompt is its latest one, word for word: tried again, or one of many that begin alike
	NewID   bool          // the client named it by an id that is not among the latest: is_first_turn as TensorRT-LLM PR 14744 has it

	user  session.Key   // the user's id is all that tells whose conversation it is; zero when more does
	text  session.Trail // the request's, in its scope
	trail session.Found
	how   recognition
}

// recognition says what the conversation of a request without an id was recognised by.
type recognition uint8

const (
	byNothing recognition = iota
	byText
	byUser
)

// Reader finds what a Table knows. Nothing that it does changes the table.
type Reader struct{ t *Table }

// Reader is what steps that may not write are handed.
func (t *Table) Reader() Reader { return Reader{t} }

// Find finds the conversation of a request: by its own id, by the response that it goes on from, by what it says, by its user.
func (r Reader) Find(now time.Time, s Scope, req *fleet.Request) Found {
	f := Found{ID: req.Session, Hint: req.Hint}
	if f.ID == "" {
		r.recognise(now, s, req, &f)
	}
	if len(req.Tried) > 0 && req.User != "" && req.Class == fleet.Turn { // the attempt that failed is still open, and ends next
		f.user = session.KeyOf(s.Tenant, s.Pool, req.User)
	}
	if !f.Minted || len(req.Tried) > 0 {
		r.recall(now, s, &f)
	}
	if !f.Known {
		f.Parent = r.parent(now, s, req)
	}
	if req.Class == fleet.Turn && req.Session != "" {
		again := len(req.Tried) > 0 || len(req.TriedPrefill) > 0 || req.Leg != fleet.LegWhole
		f.NewID = r.t.seen.Is(session.KeyOf(s.Tenant, s.Pool, req.Session), again) && !f.Claims
	}
	return f
}

// FindOther finds the same conversation in another scope, where it has a home of its own.
func (r Reader) FindOther(now time.Time, s Scope, same *Found) Found {
	f := Found{ID: same.ID, Minted: same.Minted, Repeats: same.Repeats, NewID: same.NewID}
	if f.ID != "" {
		r.recall(now, s, &f)
	}
	return f
}

// Holder is the endpoint that holds a response; ok is false when that is not known.
func (r Reader) Holder(now time.Time, tenant, response string) (endpoint string, ok bool) {
	if response == "" {
		return "", false
	}
	e, ok := r.t.responses.Peek(now, tenant, "", response)
	return e.Endpoint, ok
}

// Entry is what is remembered of a conversation.
func (r Reader) Entry(now time.Time, s Scope, id string) (session.Entry, bool) {
	_, e, ok := r.t.lookup(now, s, id)
	return e, ok
}

func (r Reader) recall(now time.Time, s Scope, f *Found) {
	if f.Entry, f.Known = r.t.claimed.Peek(now, s.Tenant, s.Pool, f.ID); f.Known {
		return
	}
	if f.Entry, f.Known = r.t.unclaimed.Peek(now, s.Tenant, s.Pool, f.ID); f.Known {
		f.Claims = !f.Minted
	}
}

// recognise finds the conversation of a request that does not name it.
func (r Reader) recognise(now time.Time, s Scope, req *fleet.Request, f *Found) {
	f.ID, f.Minted = req.MintedID, true
	if req.Class != fleet.Turn || len(req.Tried) > 0 { // a retry has been recognised: only of a new conversation does it not say which
		return
	}
	if req.Follows != "" {
		if e, ok := r.t.responses.Peek(now, s.Tenant, "", req.Follows); ok && e.Leader != "" {
			f.ID, f.Minted = e.Leader, false
			return
		}
	}
	user := session.Key{}
	if req.User != "" {
		user = session.KeyOf(s.Tenant, s.Pool, req.User)
	}
	if req.Trail.Says() {
		f.text, f.how = *req.Trail, byText
		f.text.Scope, f.text.Speaker = blocks.Hash(s.Tenant, s.Pool), user.Uint64()
		f.trail = r.t.trails.Find(&f.text, req.MintedID)
		f.ID, f.Minted, f.Repeats = f.trail.ID, !f.trail.Known, f.trail.Repeats
		return
	}
	if req.User == "" || req.Follows != "" {
		return
	}
	f.user, f.how = user, byUser
	known := false
	f.ID, known = r.t.users.Of(now, user, req.MintedID)
	f.Minted = !known
}

// parent is the endpoint of the conversation that started this one.
func (r Reader) parent(now time.Time, s Scope, req *fleet.Request) string {
	if req.Parent == "" || req.Class != fleet.Turn {
		return ""
	}
	_, e, _ := r.t.lookup(now, s, req.Parent)
	return e.Endpoint
}

// lookup finds a conversation in either table.
func (t *Table) lookup(now time.Time, s Scope, id string) (in *session.Table, e session.Entry, ok bool) {
	if e, ok = t.claimed.Peek(now, s.Tenant, s.Pool, id); ok {
		return t.claimed, e, true
	}
	e, ok = t.unclaimed.Peek(now, s.Tenant, s.Pool, id)
	return t.unclaimed, e, ok
}

// Note remembers that a request was seen whose conversation Find found. It comes before Bind.
func (t *Table) Note(now time.Time, s Scope, req *fleet.Request, f *Found) {
	switch f.how {
	case byText:
		t.trails.Note(&f.text, &f.trail)
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
	first := len(req.Tried) == 0 && len(req.TriedPrefill) == 0 && req.Leg == fleet.LegWhole
	if req.Session != "" {
		t.seen.First(session.KeyOf(s.Tenant, s.Pool, req.Session), !first)
	}
	switch {
	case !first:
	case f.Known:
		t.hits++
	default:
		t.misses++
	}
}

// Ref names the conversation of a request that is under way. The zero Ref names none.
type Ref struct {
	Scope
	ID   string
	user session.Key
}

// Bind remembers where a conversation's turn goes, and returns what its end is told by. A request without an id has no conversation.
func (t *Table) Bind(now time.Time, s Scope, f *Found, e session.Entry) Ref {
	if f.ID == "" {
		return Ref{}
	}
	if f.user != (session.Key{}) {
		t.users.Begin(f.user)
	}
	if f.Minted {
		t.unclaimed.Put(now, s.Tenant, s.Pool, f.ID, e)
	} else {
		t.claimed.Put(now, s.Tenant, s.Pool, f.ID, e)
		if f.Claims {
			t.unclaimed.Delete(s.Tenant, s.Pool, f.ID)
		}
	}
	return Ref{Scope: s, ID: f.ID, user: f.user}
}

// At is what is remembered of a conversation whose turn is at an endpoint; ok is false when it is forgotten, or has been placed elsewhere
// since.
func (t *Table) At(now time.Time, r *Ref, endpoint string) (e session.Entry, ok bool) {
	if r.ID == "" {
		return session.Entry{}, false
	}
	_, e, ok = t.lookup(now, r.Scope, r.ID)
	return e, ok && e.Endpoint == endpoint
}

// Update replaces what is remembered of a conversation that At has found.
func (t *Table) Update(now time.Time, r *Ref, e session.Entry) {
	in, _, ok := t.lookup(now, r.Scope, r.ID)
	if ok {
		in.Put(now, r.Tenant, r.Pool, r.ID, e)
	}
}

// Close notes that a turn is over.
func (t *Table) Close(now time.Time, r *Ref) {
	if r.user != (session.Key{}) {
		t.users.End(now, r.user)
	}
}

// Respond notes which endpoint holds a response, and whose it is: leader is the conversation, "" when it is of none.
func (t *Table) Respond(now time.Time, tenant, response, endpoint, leader string) {
	e, ok := t.responses.Get(now, tenant, "", response)
	if ok && e.Endpoint == endpoint && (leader == "" || leader == e.Leader) {
		return
	}
	e.Endpoint = endpoint
	if leader != "" {
		e.Leader = leader
	}
	t.responses.Put(now, tenant, "", response, e)
}

// Forget forgets a conversation.
func (t *Table) Forget(s Scope, id string) {
	t.claimed.Delete(s.Tenant, s.Pool, id)
	t.unclaimed.Delete(s.Tenant, s.Pool, id)
}

// Stats are the sizes and counters of a Table.
type Stats struct {
	Sessions  int    // conversations remembered
	Responses int    // response ids remembered
	Hits      uint64 // turns whose conversation was known
	Misses    uint64 // turns of conversations that were not
	Evictions uint64
}

// Stats is a snapshot.
func (t *Table) Stats() Stats {
	return Stats{
		Sessions: t.claimed.Len() + t.unclaimed.Len(), Responses: t.responses.Len(),
		Hits: t.hits, Misses: t.misses, Evictions: t.claimed.Stats().Evictions,
	}
}
