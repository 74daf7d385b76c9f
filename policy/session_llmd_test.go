package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// The behaviours covered by the tests of llm-d's session affinity (inference payload processor, PR 178), on a router
// with the policy session. Its candidates are models, ours endpoints; it learns from responses, ours from decisions.
// Package session tests the store alone.

// affinity is a router with bounded sessions, and a clock.
type affinity struct {
	t   *testing.T
	r   *route.Router
	now time.Time
	ids int
}

func newLLMDSessions(t *testing.T, c session.Config, endpoints ...string) *affinity {
	t.Helper()
	f, err := New(Config{Name: "session", Session: SessionConfig{Fallback: "least_requests"}})
	if err != nil {
		t.Fatal(err)
	}
	l := &affinity{t: t, r: route.New(route.Config{Policy: f, Sessions: c}), now: time.Unix(1_000_000, 0)}
	l.declare(endpoints...)
	return l
}

func (l *affinity) declare(names ...string) {
	var all []fleet.Endpoint
	for _, name := range names {
		all = append(all, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
	}
	l.r.Observe(l.now, route.Declared{Source: "static", Endpoints: all})
	for _, name := range names {
		l.r.Observe(l.now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
}

// turn plays a whole request; id "" means none.
func (l *affinity) turn(id string, exclude ...string) route.Decision {
	l.t.Helper()
	l.ids++
	d, err := l.r.Decide(l.now, &fleet.Request{
		Model: "m", Session: id, MintedID: fmt.Sprintf("minted-%d", l.ids), Seed: uint64(l.ids), PromptBytes: 100,
		Exclude: exclude,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.r.Observe(l.now, route.Finished{Lease: d.Lease, Outcome: fleet.OK})
	l.now = l.now.Add(time.Second)
	return d.Decision
}

func (l *affinity) stays(d route.Decision, at string) {
	l.t.Helper()
	if d.Endpoint.Name != at || d.Reason != pick.ReasonSession {
		l.t.Errorf("at %s for %s, want %s", d.Endpoint.Name, d.Reason, at)
	}
}

func TestLLMDSessionTwoTurns(t *testing.T) {
	l := newLLMDSessions(t, session.Config{}, "a", "b", "c", "d")
	first := l.turn("s")
	if first.Reason != reasons.LeastRequests || !first.FirstTurn || first.Session != "s" {
		t.Errorf("unknown id: no opinion, %+v", first)
	}
	for range 20 {
		d := l.turn("s")
		l.stays(d, first.Endpoint.Name)
		if d.Session != "s" || d.FirstTurn {
			t.Errorf("echoes %q", d.Session)
		}
		if other := l.turn("other " + fmt.Sprint(l.ids)); other.Reason != reasons.LeastRequests {
			t.Errorf("another id: %s", other.Reason)
		}
	}
}

// A client without support for sessions gets an id in the first response and can send it back.
func TestLLMDSessionWithAGeneratedID(t *testing.T) {
	l := newLLMDSessions(t, session.Config{}, "a", "b", "c", "d")
	first := l.turn("")
	if first.Session == "" || first.Reason != reasons.LeastRequests {
		t.Fatalf("no id: %+v", first)
	}
	l.stays(l.turn(first.Session), first.Endpoint.Name)
	if again := l.turn(""); again.Session == first.Session {
		t.Error("two clients got one id")
	}
}

// The remembered endpoint is missing: another is picked and remembered. The conversation does not return by itself.
func TestLLMDSessionWhoseEndpointIsMissing(t *testing.T) {
	l := newLLMDSessions(t, session.Config{}, "a", "b", "c")
	home := l.turn("s").Endpoint.Name
	moved := l.turn("s", home)
	if moved.Endpoint.Name == home || moved.Reason != reasons.LeastRequests {
		t.Fatalf("excluded: %+v", moved)
	}
	l.stays(l.turn("s"), moved.Endpoint.Name)
	left := []string{"a", "b", "c"}
	for i, name := range left {
		if name == moved.Endpoint.Name {
			left = append(left[:i:i], left[i+1:]...)
			break
		}
	}
	l.declare(left...)
	next := l.turn("s")
	if next.Endpoint.Name == moved.Endpoint.Name || next.Reason != reasons.LeastRequests {
		t.Errorf("gone: %+v", next)
	}
	l.stays(l.turn("s"), next.Endpoint.Name)
	l.declare()
	if _, err := l.r.Decide(l.now, &fleet.Request{Model: "m", Session: "s"}); err == nil {
		t.Error("an empty list of candidates took the request")
	}
}

// The least recently used session goes; a look-up does not extend its life, a turn does; capacity is never exceeded.
func TestLLMDSessionBounds(t *testing.T) {
	l := newLLMDSessions(t, session.Config{Max: 2, IdleTTL: 10 * time.Second}, "a", "b")
	at := map[string]string{}
	for _, id := range []string{"s1", "s2"} {
		at[id] = l.turn(id).Endpoint.Name
	}
	l.stays(l.turn("s1"), at["s1"])
	l.turn("s3")
	if d := l.turn("s2"); !d.FirstTurn {
		t.Error("s2 was used longest ago and is still known")
	}
	if n := l.r.Stats().Sessions; n > 2 {
		t.Errorf("%d sessions", n)
	}
	home := l.turn("s9").Endpoint.Name
	l.now = l.now.Add(8 * time.Second) // nine after its turn
	l.stays(l.turn("s9"), home)
	l.now = l.now.Add(8 * time.Second)
	l.stays(l.turn("s9"), home)
	l.now = l.now.Add(9 * time.Second) // ten after its turn
	if d := l.turn("s9"); !d.FirstTurn {
		t.Error("s9 has expired and is still known")
	}
	if c := (session.Config{}).WithDefaults(); c.IdleTTL != time.Hour {
		t.Errorf("a session lives for %v, in llm-d for 3600 s", c.IdleTTL)
	}
}
