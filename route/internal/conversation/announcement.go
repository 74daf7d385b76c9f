package conversation

import (
	"encoding/binary"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// Announce returns what others need to know of a request whose conversation Find found. It comes before Note.
func (r Reader) Announce(s Scope, req *fleet.Request, f *Found) (h learnt.Announcement) {
	h = learnt.Announcement{
		Minted: f.Minted, Named: req.Session != "", First: first(req), Opens: f.user != (session.Key{}),
	}
	h.Key, h.Parent = r.Keys(s, req, f)
	if f.how != byNothing || f.Minted {
		h.ID = f.ID
	}
	if f.how != byNothing {
		h.Trail = r.t.trails.Noted(&f.text, &f.trail)
	}
	if req.User != "" && (f.how != byNothing || h.Opens) {
		h.User, h.ByUser = session.KeyOf(s.Tenant, s.Pool, req.User), f.how == byUser
	}
	return h
}

// NoteAnnounced is Note for a request placed by another router.
func (t *Table) NoteAnnounced(now time.Time, h *learnt.Announcement) {
	t.trails.Apply(&h.Trail)
	switch {
	case h.User == (session.Key{}):
	case h.ByUser:
		t.users.Claim(now, h.User, h.ID)
	case h.Trail.Main != 0:
		t.users.Said(now, h.User, h.Trail.ID)
	}
	if h.Named {
		t.seen.First(h.Key, !h.First)
	}
}

// Recall is the stored entry of such a request's conversation.
func (r Reader) Recall(now time.Time, h *learnt.Announcement) (session.Entry, bool) {
	name := session.Hashed(h.Key)
	e, known, _ := r.peek(now, &name)
	return e, known
}

// BindAnnounced is Bind for such a request.
func (t *Table) BindAnnounced(now time.Time, h *learnt.Announcement, e session.Entry) Ref {
	if h.Key == (session.Key{}) {
		return Ref{}
	}
	ref := Ref{name: session.Hashed(h.Key)}
	if h.Opens {
		ref.user = h.User
	}
	_, claimed := t.claimed.Peek(now, &ref.name)
	t.bind(now, &ref, e, h.Minted && !claimed, true)
	return ref
}

// Leader is the conversation id stored with a response where other routers are told of it. An id that the client sent
// is hashed.
func (f *Found) Leader(s Scope) string {
	if f.own {
		return byKey(keyOf(s, f.ID))
	}
	return f.ID
}

// LeaderOf is the conversation id stored with a response of another router's request.
func LeaderOf(h *learnt.Announcement) string {
	if h.ID == "" && h.Key != (session.Key{}) {
		return byKey(h.Key)
	}
	return h.ID
}

// A conversation from another router is known by its key alone. In place of the id it has a byte 0 and the key, which
// cannot be a client's id.

const keyBytes = 16

// byKey is that string.
func byKey(k session.Key) string {
	hi, lo := k.Halves()
	var b [1 + keyBytes]byte
	binary.BigEndian.PutUint64(b[1:], hi)
	binary.BigEndian.PutUint64(b[9:], lo)
	return string(b[:])
}

// IsKey reports whether an id stands for one that is unknown here. It must not be sent to clients.
func IsKey(id string) bool { return len(id) == 1+keyBytes && id[0] == 0 }

// own is the id that a client sent. One that looks like such a string is changed.
func own(id string) string {
	if IsKey(id) {
		return id + " "
	}
	return id
}

func keyOf(s Scope, id string) session.Key {
	name := nameOf(s, id)
	return name.Key()
}

// nameOf is the name of a conversation in a scope.
func nameOf(s Scope, id string) session.Name {
	if IsKey(id) {
		b := []byte(id[1:])
		return session.Hashed(session.KeyFrom(binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])))
	}
	return session.NameOf(s.Tenant, s.Pool, id)
}
