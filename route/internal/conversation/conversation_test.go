package conversation

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

// TestFindChangesNothing: a table asked twice before each Note stays equal to one asked once, and finds the same.
func TestFindChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Sessions: session.Config{Max: 16, IdleTTL: time.Minute}.WithDefaults(), Responses: 8,
			ResponseTTL: time.Minute,
		}
		once, twice := New(c, nil), New(c, nil)
		now := time.Unix(1000, 0)
		for i := range rapid.IntRange(1, 60).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			s := Scope{Tenant: rapid.SampledFrom([]string{"", "t"}).Draw(t, "tenant"), Pool: "m"}
			req := &fleet.Request{Class: fleet.Turn, MintedID: "minted" + strconv.Itoa(i)}
			switch rapid.IntRange(0, 3).Draw(t, "how") {
			case 0:
				req.Session = rapid.SampledFrom([]string{"a", "b", "c", "minted1", "minted2"}).Draw(t, "id")
			case 1:
				req.User = rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user")
			case 2:
				req.Follows = rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "follows")
			}
			var want, got, other Found
			once.Find(now, s, req, &want)
			for range 2 {
				if twice.Find(now, s, req, &got); !reflect.DeepEqual(got, want) {
					t.Fatalf("asked again it found %+v, at first %+v", got, want)
				}
				twice.FindOther(now, Scope{Tenant: s.Tenant, Pool: "other"}, &want, &other)
				twice.Holder(now, s.Tenant, req.Follows)
			}
			for _, table := range []*Table{once, twice} {
				table.Note(now, s, req, &want)
				ref := table.Bind(now, s, &want, session.Entry{Endpoint: "e", Turns: want.Entry.Turns + 1})
				stored := session.Entry{Endpoint: "e", Leader: want.ID}
				table.Respond(now, ResponseKey(s.Tenant, "r"+strconv.Itoa(i%3)), 0, stored)
				table.Close(now, &ref)
			}
			if once.Stats() != twice.Stats() {
				t.Fatalf("%+v and %+v", once.Stats(), twice.Stats())
			}
		}
	})
}

// TestStatsCountWhatIsForgotten: conversations count as evicted when others took their place, and when they were idle
// for too long.
func TestStatsCountWhatIsForgotten(t *testing.T) {
	table := New(Config{
		Sessions: session.Config{Max: 8, IdleTTL: time.Minute}.WithDefaults(), Responses: 1, ResponseTTL: time.Minute,
	}, nil)
	turn := func(now time.Time, id string) {
		req, found := &fleet.Request{Class: fleet.Turn, Session: id}, Found{}
		table.Find(now, Scope{Pool: "m"}, req, &found)
		table.Note(now, Scope{Pool: "m"}, req, &found)
		ref := table.Bind(now, Scope{Pool: "m"}, &found, session.Entry{Endpoint: "e"})
		table.Close(now, &ref)
	}
	now := time.Unix(1000, 0)
	for i := range 12 {
		turn(now, "full"+strconv.Itoa(i))
	}
	full := table.Stats().Evictions
	if full != 4 {
		t.Errorf("%d of 12 conversations evicted from a table of 8, want 4", full)
	}
	now = now.Add(2 * time.Minute)
	for i := range 8 {
		turn(now, "idle"+strconv.Itoa(i))
	}
	if got := table.Stats().Evictions; got != 12 {
		t.Errorf("%d conversations evicted after the rest was idle for too long, want 12", got)
	}
}
