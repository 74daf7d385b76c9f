package conversation

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// asks draws a request of one of some conversations: named, of a user, going on from a response, or recognised by
// what it says.
func asks(t *rapid.T, fresh string) *fleet.Request {
	req := &fleet.Request{Class: fleet.Turn, MintedID: fresh}
	switch rapid.SampledFrom([]string{"named", "user", "follows", "chat", "new"}).Draw(t, "how") {
	case "named":
		req.Session = rapid.SampledFrom([]string{"a", "b", "minted0", "minted1", "minted2"}).Draw(t, "id")
	case "user":
		req.User = rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user")
	case "follows":
		req.Follows = "response" + rapid.StringMatching("[0-5]").Draw(t, "response")
	case "chat":
		h := uint64(rapid.IntRange(1, 3).Draw(t, "chat"))
		req.Trail = &session.Trail{}
		for turn := range rapid.IntRange(1, 4).Draw(t, "messages") {
			if turn > 0 {
				req.Trail.Marks = append([]uint64{h}, req.Trail.Marks...)
			}
			h = h*0x9e3779b97f4a7c15 + 1
		}
		req.Trail.Whole, req.Trail.Strict, req.Trail.StrictMarks = h, h, req.Trail.Marks
	}
	return req
}

// TestRestoredIsTheSame: a table that was walked piece by piece and restored finds of any request what the first one
// finds, and forgets it at the same time. A conversation is warm only where its endpoint's cache has not been lost.
func TestRestoredIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Sessions: session.Config{Max: 1000, IdleTTL: idle}.WithDefaults(), Responses: 1000,
			ResponseTTL: idle,
		}
		table, back := New(c, nil), New(c, nil)
		now := time.Unix(1000, 0)
		var open []Ref
		for i := range rapid.IntRange(1, 40).Draw(t, "turns") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, idle / 3}).Draw(t, "later"))
			s := Scope{Tenant: rapid.SampledFrom([]string{"", "t"}).Draw(t, "tenant"), Pool: "m"}
			req := asks(t, fmt.Sprint("minted", i))
			var f Found
			table.Find(now, s, req, &f)
			table.Note(now, s, req, &f)
			e := session.Entry{
				Endpoint: fmt.Sprint("e", i%3), Model: "m", Tokens: i, Bytes: 4 * i,
				Epoch: uint32(7 + i%2), Turns: f.Entry.Turns + 1,
			}
			ref := table.Bind(now, s, &f, e)
			table.Respond(now, ResponseKey(s.Tenant, fmt.Sprint("response", i%6)), 0,
				session.Entry{Endpoint: e.Endpoint, Leader: f.ID})
			if open = append(open, ref); rapid.Bool().Draw(t, "others go on") {
				continue
			}
			for i := range open {
				table.Close(now, &open[i])
			}
			open = nil
		}
		for i := range open {
			table.Close(now, &open[i])
		}
		table.Rewind()
		n := rapid.IntRange(1, 5).Draw(t, "at a time")
		later := rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "restored later")
		for {
			p, more := table.Next(now, n, func(_ string, epoch uint32) bool { return epoch == 7 })
			size := len(p.Claimed) + len(p.Unclaimed) + len(p.Responses)
			if size += len(p.Ends) + len(p.Tails) + len(p.Users) + len(p.Seen); size > n {
				t.Fatalf("a piece of %d has %d", n, size)
			}
			if !more {
				break
			}
			back.Restore(now.Add(later), &p, later, func(endpoint string) (epoch, ahead uint32) { return 9, 0 })
		}
		now = now.Add(later)
		for _, after := range []time.Duration{0, idle / 3, idle / 3, idle / 3} {
			now = now.Add(after)
			for range 10 {
				s := Scope{Tenant: rapid.SampledFrom([]string{"", "t", "stranger"}).Draw(t, "tenant"), Pool: "m"}
				req := asks(t, "fresh")
				var want, got Found
				table.Find(now, s, req, &want)
				back.Find(now, s, req, &got)
				if warm := map[uint32]uint32{7: 9}[want.Entry.Epoch]; got.Entry.Epoch != warm {
					t.Fatalf("the epoch %d has become %d, want %d", want.Entry.Epoch, got.Entry.Epoch, warm)
				}
				got.Entry.Epoch = want.Entry.Epoch
				if got.ID != want.ID || got.Minted != want.Minted || got.Known != want.Known ||
					got.Claims != want.Claims || got.NewID != want.NewID || got.Repeats != want.Repeats ||
					!got.Entry.Last.Equal(want.Entry.Last) || got.Entry.Endpoint != want.Entry.Endpoint ||
					got.Entry.Tokens != want.Entry.Tokens || got.Entry.Bytes != want.Entry.Bytes ||
					got.Entry.Turns != want.Entry.Turns {
					t.Fatalf("%v later: of %+v was found\n%+v, want\n%+v", after, req, got, want)
				}
				holder, held := table.Holder(now, s.Tenant, req.Follows)
				if again, ok := back.Holder(now, s.Tenant, req.Follows); ok != held || again != holder {
					t.Fatalf("%s is held by %q, %t, want %q, %t", req.Follows, again, ok, holder, held)
				}
			}
		}
	})
}

// TestNonsenseIsRestored: a piece from a file or another router may say anything.
func TestNonsenseIsRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(-3, 3)
		p := &learnt.Conversations{Names: []string{"e", "m"}}
		for range number.Draw(t, "entries") + 3 {
			e := learnt.Conversation{
				Hi: uint64(number.Draw(t, "hi")), Lo: uint64(number.Draw(t, "lo")),
				Endpoint: number.Draw(t, "endpoint"), Model: number.Draw(t, "model"), Leader: number.Draw(t, "leader"),
				Tokens: number.Draw(t, "tokens"), Turns: number.Draw(t, "turns"),
				Age: time.Duration(number.Draw(t, "age")) * idle, Warm: rapid.Bool().Draw(t, "warm"),
			}
			p.Claimed, p.Responses = append(p.Claimed, e), append(p.Responses, e)
			p.Ends = append(p.Ends, learnt.End{Key: e.Hi, Main: e.Lo, ID: e.Endpoint})
			p.Users = append(p.Users, learnt.User{Key: e.Lo, ID: e.Model, Age: e.Age})
		}
		now := time.Unix(1000, 0)
		table := New(Config{
			Sessions: session.Config{Max: 4, IdleTTL: idle}.WithDefaults(), Responses: 4,
			ResponseTTL: idle,
		}, nil)
		table.Restore(now, p, 0, func(string) (epoch, ahead uint32) { return 1, 0 })
		if s := table.Stats(); s.Sessions > 4 || s.Responses > 4 {
			t.Fatalf("%+v", s)
		}
		for _, e := range p.Claimed {
			got, ok := table.Recall(now, &learnt.Announcement{Key: session.KeyFrom(e.Hi, e.Lo)})
			if ok && (got.Tokens < 0 || got.Turns < 0 || got.Last.After(now) || got.Endpoint != "" &&
				got.Endpoint != "e" && got.Endpoint != "m") {
				t.Fatalf("%+v", got)
			}
		}
	})
}
