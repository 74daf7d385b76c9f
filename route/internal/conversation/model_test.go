package conversation

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

const idle = time.Hour

// naive remembers conversations that are named by ids, and responses, in maps.
type naive struct {
	convs     map[string]*known // by scope and id
	responses map[string]*known // by tenant and id; id is that of the conversation
	seen      map[string]bool   // ids that clients have sent
	hits      uint64
	misses    uint64
	idled     bool // some were idle for so long that they are forgotten, sooner or later
}

type known struct {
	endpoint string
	id       string
	claimed  bool // a client has sent the id
	at       time.Time
	turns    int
}

func in(s Scope, id string) string { return s.Tenant + "\x00" + s.Pool + "\x00" + id }

func live(m map[string]*known, name string, now time.Time) *known {
	if k := m[name]; k != nil && now.Sub(k.at) < idle {
		return k
	}
	return nil
}

// find is what Find should find.
func (n *naive) find(now time.Time, s Scope, req *fleet.Request) (f Found) {
	switch r := live(n.responses, req.Follows+"\x00"+s.Tenant, now); {
	case req.Session != "":
		f.ID = req.Session
	case req.Follows != "" && r != nil && r.id != "":
		f.ID = r.id
	default:
		f.ID, f.Minted = req.MintedID, true
	}
	c := live(n.convs, in(s, f.ID), now)
	if f.Known = c != nil && !f.Minted; f.Known {
		f.Claims = !c.claimed
		f.Entry.Endpoint, f.Entry.Turns = c.endpoint, c.turns
	} else if p := live(n.convs, in(s, req.Parent), now); req.Parent != "" && p != nil {
		f.Parent = p.endpoint
	}
	f.NewID = req.Session != "" && !n.seen[in(s, req.Session)] && !f.Claims
	return f
}

// TestAgainstMaps: what the table finds of conversations that are named, by their ids, by what they go on from, and
// by their parents, is what maps without bounds, hashes and recency find.
func TestAgainstMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New(Config{
			Sessions: session.Config{Max: 1000, IdleTTL: idle}.WithDefaults(), Responses: 1000,
			ResponseTTL: idle,
		}, nil)
		n := &naive{convs: map[string]*known{}, responses: map[string]*known{}, seen: map[string]bool{}}
		now := time.Unix(1000, 0)
		ids, answers := []string{"a", "b", "c"}, []string{"none"}
		refs := map[string]Ref{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			waits := []time.Duration{0, time.Second, time.Minute, idle / 2, idle}
			now = now.Add(rapid.SampledFrom(waits).Draw(t, "later"))
			for _, c := range n.convs {
				n.idled = n.idled || now.Sub(c.at) >= idle
			}
			s := Scope{
				Tenant: rapid.SampledFrom([]string{"", "t"}).Draw(t, "tenant"),
				Pool:   rapid.SampledFrom([]string{"m", "n"}).Draw(t, "pool"),
			}
			switch rapid.SampledFrom([]string{"turn", "turn", "turn", "turn", "revise", "forget"}).Draw(t, "what") {
			case "turn":
				req := &fleet.Request{Class: fleet.Turn, MintedID: fmt.Sprint("minted", i)}
				switch rapid.SampledFrom([]string{"named", "named", "follows", "new"}).Draw(t, "how") {
				case "named":
					req.Session = rapid.SampledFrom(ids).Draw(t, "id")
				case "follows":
					req.Follows = rapid.SampledFrom(answers).Draw(t, "response")
				}
				if rapid.Bool().Draw(t, "child") {
					req.Parent = rapid.SampledFrom(ids).Draw(t, "parent")
				}
				n.turn(t, table, now, s, req, refs, fmt.Sprint("e", i%3))
				ids = append(ids, req.MintedID)
				answers = append(answers, "response of "+req.MintedID)
			case "revise": // by the end of a turn: unless the conversation has been placed elsewhere since
				id := rapid.SampledFrom(ids).Draw(t, "id")
				ref, ok := refs[in(s, id)]
				endpoint := rapid.SampledFrom([]string{"e0", "e1", "e2"}).Draw(t, "endpoint")
				if !ok {
					continue
				}
				table.Revise(now, &ref, endpoint, func(e session.Entry) session.Entry { e.Turns += 100; return e })
				if c := live(n.convs, in(s, id), now); c != nil && c.endpoint == endpoint {
					c.turns, c.at = c.turns+100, now
				}
			case "forget":
				id := rapid.SampledFrom(ids).Draw(t, "id")
				table.ForgetKey(session.KeyOf(s.Tenant, s.Pool, id))
				delete(n.convs, in(s, id))
			}
			for _, id := range ids {
				e, ok := stored(table, now, s, id)
				c := live(n.convs, in(s, id), now)
				if ok != (c != nil) || ok && (e.Endpoint != c.endpoint || e.Turns != c.turns) {
					t.Fatalf("%s is known as %+v, %t, want %+v", id, e, ok, c)
				}
			}
			if st := table.Stats(); !n.idled && st.Sessions != len(n.convs) {
				t.Fatalf("%d conversations are remembered of %d", st.Sessions, len(n.convs))
			}
			if st := table.Stats(); st.Hits != n.hits || st.Misses != n.misses {
				t.Fatalf("%d hits and %d misses, want %d and %d", st.Hits, st.Misses, n.hits, n.misses)
			}
		}
	})
}

// turn places a turn and ends it with a response.
func (n *naive) turn(t *rapid.T, table *Table, now time.Time, s Scope, req *fleet.Request, refs map[string]Ref,
	endpoint string,
) {
	want, got, other := n.find(now, s, req), Found{}, Found{}
	table.Find(now, s, req, &got)
	if got.ID != want.ID || got.Minted != want.Minted || got.Known != want.Known || got.Claims != want.Claims ||
		got.Parent != want.Parent || got.NewID != want.NewID ||
		got.Entry.Endpoint != want.Entry.Endpoint || got.Entry.Turns != want.Entry.Turns {
		t.Fatalf("%+v of %+v: found\n%+v, want\n%+v", req, s, got, want)
	}
	elsewhere := Scope{Tenant: s.Tenant, Pool: "other side of " + s.Pool}
	table.FindOther(now, elsewhere, &got, &other)
	if c := live(n.convs, in(elsewhere, got.ID), now); other.ID != got.ID || other.Known != (c != nil) ||
		c != nil && other.Entry.Endpoint != c.endpoint {
		t.Fatalf("in its other scope: found %+v, want %+v", other, c)
	}
	table.Note(now, s, req, &got)
	if want.Known {
		n.hits++
	} else {
		n.misses++
	}
	if req.Session != "" {
		n.seen[in(s, req.Session)] = true
	}
	ref := table.Bind(now, s, &got, session.Entry{Endpoint: endpoint, Turns: got.Entry.Turns + 1})
	refs[in(s, got.ID)] = ref
	n.convs[in(s, got.ID)] = &known{endpoint: endpoint, claimed: !got.Minted, at: now, turns: want.Entry.Turns + 1}
	if rapid.Bool().Draw(t, "both sides") {
		table.Bind(now, elsewhere, &other, session.Entry{Endpoint: endpoint})
		n.convs[in(elsewhere, got.ID)] = &known{endpoint: endpoint, claimed: true, at: now}
	}
	response := "response of " + req.MintedID
	leader := rapid.SampledFrom([]string{got.ID, ""}).Draw(t, "leader")
	table.Respond(now, ResponseKey(s.Tenant, response), 0, session.Entry{Endpoint: endpoint, Leader: leader})
	n.responses[response+"\x00"+s.Tenant] = &known{endpoint: endpoint, id: leader, at: now}
	for _, tenant := range []string{"", "t"} {
		holder, ok := table.Holder(now, tenant, response)
		if r := live(n.responses, response+"\x00"+tenant, now); ok != (r != nil) || ok && holder != r.endpoint {
			t.Fatalf("%s of %q is held by %q, %t, want %+v", response, tenant, holder, ok, r)
		}
	}
	table.Close(now, &ref)
}

// TestRecognised: how the conversation of a request that names none is recognised.
func TestRecognised(t *testing.T) {
	says := func(messages ...uint64) *session.Trail {
		p, h := &session.Trail{}, uint64(77)
		for i, m := range messages {
			h = (h ^ m) * 0x9e3779b97f4a7c15
			h ^= h >> 29
			if i == len(messages)-1 {
				p.Whole, p.Strict = h, h
				break
			}
			p.Marks = append([]uint64{h}, p.Marks...)
		}
		p.StrictMarks = p.Marks
		return p
	}
	type ask struct {
		tenant, pool, user string
		trail              *session.Trail
		opens              bool // it is under way until the end
		want               string
		repeats            bool
	}
	for name, asks := range map[string][]ask{
		"a chat goes on": {
			{trail: says(1), want: "0"},
			{trail: says(1, 2, 3), want: "0"},
			{trail: says(1, 2, 3, 4, 5), want: "0"},
		},
		"another chat": {
			{trail: says(1), want: "0"},
			{trail: says(2), want: "1"},
			{trail: says(2, 3, 4), want: "1"},
			{trail: says(1, 3, 4), want: "0"},
		},
		"the same again":           {{trail: says(1), want: "0"}, {trail: says(1), want: "0", repeats: true}},
		"of another tenant":        {{trail: says(1), want: "0"}, {tenant: "t", trail: says(1, 2, 3), want: "1"}},
		"of another model":         {{trail: says(1), want: "0"}, {pool: "n", trail: says(1, 2, 3), want: "1"}},
		"a user":                   {{user: "u", want: "0"}, {user: "u", want: "0"}, {user: "v", want: "2"}},
		"a user of another tenant": {{user: "u", want: "0"}, {tenant: "t", user: "u", want: "1"}},
		"a user with two at a time": {
			{user: "u", opens: true, want: "0"},
			{user: "u", want: "1"},
			{user: "u", want: "2"},
		},
		"a user with a chat": {
			{user: "u", trail: says(1), want: "0"},
			{user: "u", want: "1"},
			{user: "u", trail: says(1, 2, 3), want: "0"},
		},
		"nothing": {{want: "0"}, {want: "1"}},
	} {
		table := New(Config{Sessions: session.Config{}.WithDefaults(), Responses: 8, ResponseTTL: idle}, nil)
		now := time.Unix(1000, 0)
		for i, a := range asks {
			now = now.Add(time.Second)
			s := Scope{Tenant: a.tenant, Pool: "m" + a.pool}
			req := &fleet.Request{Class: fleet.Turn, MintedID: fmt.Sprint(i), User: a.user, Trail: a.trail}
			var f Found
			table.Find(now, s, req, &f)
			if f.ID != a.want || f.Minted != (a.want == req.MintedID) || f.Known == f.Minted || f.Repeats != a.repeats {
				t.Errorf("%s, request %d: conversation %s, minted %t, known %t, repeats %t; want %s", name, i, f.ID,
					f.Minted, f.Known, f.Repeats, a.want)
			}
			table.Note(now, s, req, &f)
			ref := table.Bind(now, s, &f, session.Entry{Endpoint: "e"})
			if !a.opens {
				table.Close(now, &ref)
			}
		}
	}
}

// TestHeardIsAsFound: a router that only hears of the turns that another one places knows their conversations as
// well, by the same ids, and knows the ids of clients by hashes alone.
func TestHeardIsAsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Sessions: session.Config{Max: 1000, IdleTTL: idle}.WithDefaults(), Responses: 1000,
			ResponseTTL: idle,
		}
		here, there := New(c, nil), New(c, nil)
		now, s := time.Unix(1000, 0), Scope{Tenant: "t", Pool: "m"}
		ids, clients := []string{"a", "b"}, []string{"a", "b"}
		for i := range rapid.IntRange(1, 30).Draw(t, "turns") {
			now = now.Add(time.Minute)
			req := &fleet.Request{Class: fleet.Turn, MintedID: fmt.Sprint("minted", i)}
			if rapid.Bool().Draw(t, "named") {
				req.Session = rapid.SampledFrom(ids).Draw(t, "id")
			}
			var f, again Found
			here.Find(now, s, req, &f)
			there.Find(now, s, req, &again)
			if again.ID != f.ID || again.Known != f.Known || again.Minted != f.Minted || again.Claims != f.Claims ||
				again.Entry.Endpoint != f.Entry.Endpoint || again.NewID != f.NewID {
				t.Fatalf("found there %+v, here %+v", again, f)
			}
			h := here.Announce(s, req, &f)
			for _, id := range clients {
				if h.ID == id || LeaderOf(&h) == id {
					t.Fatalf("the id %s of a client was told", id)
				}
			}
			e := session.Entry{Endpoint: fmt.Sprint("e", i%3)}
			here.Note(now, s, req, &f)
			here.Bind(now, s, &f, e)
			there.NoteAnnounced(now, &h)
			if known, ok := there.Recall(now, &h); ok != f.Known || known.Endpoint != f.Entry.Endpoint {
				t.Fatalf("recalled %+v, %t, want %+v", known, ok, f.Entry)
			}
			there.BindAnnounced(now, &h, e)
			for _, table := range []*Table{here, there} {
				if got, ok := stored(table, now, s, f.Leader(s)); !ok || got.Endpoint != e.Endpoint {
					t.Fatalf("by what is told as its id the conversation is at %+v, %t, want %s", got, ok, e.Endpoint)
				}
			}
			ids = append(ids, req.MintedID)
		}
	})
}

// stored is the stored entry of a conversation.
func stored(t *Table, now time.Time, s Scope, id string) (session.Entry, bool) {
	name := nameOf(s, id)
	e, known, _ := t.peek(now, &name)
	return e, known
}
