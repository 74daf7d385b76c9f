package conversation

import (
	"time"

	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// Rewind begins a walk over the whole memory. There is one at a time.
func (t *Table) Rewind() {
	t.walked = 0
	t.claimed.Rewind()
	t.unclaimed.Rewind()
	t.responses.Rewind()
	t.trails.Rewind()
	t.users.Rewind()
	t.seen.Rewind()
}

// Next returns the next piece of the walk, of up to n entries. warm reports whether an endpoint's cache still has an
// epoch. more is false at the end.
func (t *Table) Next(now time.Time, n int, warm func(endpoint string, epoch uint32) bool) (
	p learnt.Conversations, more bool,
) {
	w := naming{piece: &p, places: map[string]int{}}
	entries := func(in *session.Table) (out []learnt.Conversation, more bool) {
		kept, more := in.Next(now, n, make([]session.Kept, 0, n))
		out = make([]learnt.Conversation, 0, len(kept))
		for i := range kept {
			out = append(out, w.entry(&kept[i], warm))
		}
		return out, more
	}
	switch t.walked {
	case 0:
		p.Claimed, more = entries(t.claimed)
	case 1:
		p.Unclaimed, more = entries(t.unclaimed)
	case 2:
		p.Responses, more = entries(t.responses)
	case 3:
		var ends []session.End
		ends, more = t.trails.NextEnds(n, make([]session.End, 0, n))
		p.Ends = make([]learnt.End, 0, len(ends))
		for _, e := range ends {
			p.Ends = append(p.Ends, learnt.End{
				Key: e.Key, Main: e.Main, ID: w.name(e.ID),
				Answer: e.Answer, Extended: e.Extended, Repeated: e.Repeated, Shared: e.Shared,
			})
		}
	case 4:
		p.Tails, more = t.trails.NextTails(n, make([]session.Tail, 0, n))
	case 5:
		var users []session.User
		users, more = t.users.Next(now, n, nil)
		for _, u := range users {
			p.Users = append(p.Users, learnt.User{Key: u.Key, ID: w.name(u.ID), Age: u.Age, Said: u.Said, Many: u.Many})
		}
	case 6:
		p.Seen, more = t.seen.Next(n, make([]session.SeenID, 0, n))
	default:
		return p, false
	}
	if !more {
		t.walked++
	}
	return p, true
}

// Add appends the entry of one conversation or response to a piece. It returns false if there is none.
func (t *Table) Add(
	now time.Time, p *learnt.Conversations, key session.Key, warm func(endpoint string, epoch uint32) bool,
) bool {
	w := naming{piece: p, places: make(map[string]int, len(p.Names))}
	for i, s := range p.Names {
		w.places[s] = i
	}
	name := session.Hashed(key)
	for _, in := range [...]struct {
		table *session.Table
		to    *[]learnt.Conversation
	}{{t.claimed, &p.Claimed}, {t.unclaimed, &p.Unclaimed}, {t.responses, &p.Responses}} {
		if e, ok := in.table.Peek(now, &name); ok {
			*in.to = append(*in.to, w.entry(&session.Kept{Key: key, Entry: e, Age: max(0, now.Sub(e.Last))}, warm))
			return true
		}
	}
	return false
}

// Restore stores a piece. later is its age; cache returns the epoch of an endpoint's cache, 0 for an unknown endpoint,
// and how far its flow is ahead of the piece's.
func (t *Table) Restore(
	now time.Time, p *learnt.Conversations, later time.Duration, cache func(endpoint string) (epoch, ahead uint32),
) {
	names := names(p.Names)
	for _, of := range [...]struct {
		table *session.Table
		all   []learnt.Conversation
	}{{t.claimed, p.Claimed}, {t.unclaimed, p.Unclaimed}, {t.responses, p.Responses}} {
		for i := range of.all {
			k := names.kept(&of.all[i], later)
			epoch, ahead := cache(k.Entry.Endpoint)
			k.Entry.Flow += ahead
			if of.all[i].Warm {
				k.Entry.Epoch = epoch
			}
			of.table.Restore(now, &k)
		}
	}
	for _, e := range p.Ends {
		t.trails.RestoreEnd(&session.End{
			Key: e.Key, Main: e.Main, ID: names.at(e.ID),
			Answer: e.Answer, Extended: e.Extended, Repeated: e.Repeated, Shared: e.Shared,
		})
	}
	for i := range p.Tails {
		t.trails.RestoreTail(&p.Tails[i])
	}
	for _, u := range p.Users {
		t.users.Restore(now, &session.User{
			Key: u.Key, ID: names.at(u.ID), Age: max(0, u.Age) + later, Said: u.Said, Many: u.Many,
		})
	}
	for _, s := range p.Seen {
		t.seen.Restore(s)
	}
	announced := p.Announced()
	for i := range announced {
		t.NoteAnnounced(now, &announced[i])
	}
}

// names are the strings of a piece, by index.
type names []string

// at is the string with an index; "" for one that the piece does not have.
func (n names) at(i int) string {
	if i < 0 || i >= len(n) {
		return ""
	}
	return n[i]
}

// kept is an entry of a piece of that age. Its figures are made those of a table: never negative.
func (n names) kept(e *learnt.Conversation, later time.Duration) session.Kept {
	return session.Kept{
		Key: session.KeyFrom(e.Hi, e.Lo), Age: max(0, e.Age) + later,
		Entry: session.Entry{
			Endpoint: n.at(e.Endpoint), Model: n.at(e.Model), Leader: n.at(e.Leader), Tokens: max(0, e.Tokens),
			Prompt: max(0, e.Prompt), Bytes: max(0, e.Bytes), Flow: e.Flow, Turns: max(0, e.Turns),
		},
	}
}

// naming assigns an index to each string of a piece.
type naming struct {
	piece  *learnt.Conversations
	places map[string]int
}

func (w *naming) name(s string) int {
	i, ok := w.places[s]
	if !ok {
		i = len(w.piece.Names)
		w.piece.Names, w.places[s] = append(w.piece.Names, s), i
	}
	return i
}

func (w *naming) entry(k *session.Kept, warm func(string, uint32) bool) learnt.Conversation {
	hi, lo := k.Key.Halves()
	e := &k.Entry
	return learnt.Conversation{
		Hi: hi, Lo: lo, Endpoint: w.name(e.Endpoint), Model: w.name(e.Model), Leader: w.name(e.Leader),
		Tokens: e.Tokens, Prompt: e.Prompt, Bytes: e.Bytes, Flow: e.Flow, Warm: warm(e.Endpoint, e.Epoch),
		Turns: e.Turns, Age: k.Age,
	}
}
