package conversation

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

// asked is a table that requests come to, one a second.
type asked struct {
	table *Table
	now   time.Time
}

func newAsked(c session.Config) *asked {
	return &asked{New(Config{Sessions: c.WithDefaults(), Responses: 8, ResponseTTL: idle}, nil), time.Unix(1000, 0)}
}

// ask finds a request's conversation and places it.
func (x *asked) ask(req fleet.Request) (f Found) {
	x.now = x.now.Add(time.Second)
	s := Scope{Tenant: req.Tenant, Pool: "m"}
	x.table.Find(x.now, s, &req, &f)
	x.table.Note(x.now, s, &req, &f)
	ref := x.table.Bind(x.now, s, &f, session.Entry{Endpoint: "e"})
	x.table.Close(x.now, &ref)
	return f
}

// TestNewID: is_first_turn is true once per id, equal for all attempts of a request, and false without an id.
func TestNewID(t *testing.T) {
	x := newAsked(session.Config{})
	for i, step := range []struct {
		req  fleet.Request
		want bool
	}{
		{fleet.Request{Session: "s"}, true},
		{fleet.Request{Session: "s", Attempt: fleet.Attempt{Tried: []string{"a"}}}, true}, // the same turn, retried
		{fleet.Request{Session: "s"}, false},
		{fleet.Request{Session: "s", Attempt: fleet.Attempt{Tried: []string{"a"}}}, false},
		{fleet.Request{Session: "s", Tenant: "t"}, true}, // another tenant
		{fleet.Request{MintedID: "minted"}, false},       // no client id
		{fleet.Request{Session: "minted"}, false},        // sent back by the client: the conversation is known
		{fleet.Request{Session: "e", Class: fleet.Embed}, false},
		{fleet.Request{Session: "e"}, true}, // not a turn, does not count
	} {
		if got := x.ask(step.req).NewID; got != step.want {
			t.Errorf("step %d, %+v: %v, want %v", i, step.req, got, step.want)
		}
	}
}

// TestSeenIDsAreBounded: an id counts as a first turn again after enough others.
func TestSeenIDsAreBounded(t *testing.T) {
	x := newAsked(session.Config{SeenIDs: 2})
	for i, step := range []struct {
		id   string
		want bool
	}{{"1", true}, {"2", true}, {"1", false}, {"3", true}, {"1", false}, {"2", true}} {
		if got := x.ask(fleet.Request{Session: step.id}).NewID; got != step.want {
			t.Errorf("step %d, %s: %v, want %v", i, step.id, got, step.want)
		}
	}
}

// TestRetriesDoNotClaimMintedIDs: a retried first turn moved its minted id among the ids that clients have sent back,
// and evicted those.
func TestRetriesDoNotClaimMintedIDs(t *testing.T) {
	x := newAsked(session.Config{Max: 10})
	x.ask(fleet.Request{Session: "alive"})
	for i := range 50 {
		minted := fleet.Request{MintedID: fmt.Sprint("minted", i)}
		first := x.ask(minted)
		minted.Tried = []string{"e"}
		if second := x.ask(minted); second.ID != first.ID || !second.Minted {
			t.Fatalf("the retry is of %q, minted %t", second.ID, second.Minted)
		}
	}
	if !x.ask(fleet.Request{Session: "alive"}).Known {
		t.Error("a conversation that lives was forgotten")
	}
}
