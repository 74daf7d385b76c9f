package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// shelf is a store in memory.
type shelf struct {
	mu     sync.Mutex
	values map[string]Kept
	until  map[string]time.Time
	fault  error
	after  int // values that are taken before one is refused; 0 for any number
	puts   int
}

func (s *shelf) Put(_ context.Context, _ Self, all []Kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	if s.after > 0 && s.puts >= s.after {
		return errors.New("OOM")
	}
	for _, k := range all {
		s.puts++
		if old, ok := s.values[k.Name]; ok && len(old.Value) >= versionBytes &&
			binary.BigEndian.Uint64(old.Value) > binary.BigEndian.Uint64(k.Value) {
			continue
		}
		s.values[k.Name], s.until[k.Name] = k, time.Now().Add(k.For)
	}
	return nil
}

func (s *shelf) Get(_ context.Context, _ Self, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[name].Value, s.fault
}

func (s *shelf) Remove(_ context.Context, _ Self, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		delete(s.values, n)
	}
	return s.fault
}

func (s *shelf) Each(_ context.Context, _ Self, f func(string, []byte) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.values {
		if time.Now().Before(s.until[name]) && !f(name, k.Value) {
			break
		}
	}
	return s.fault
}

func (s *shelf) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func onShelf() *wire {
	return &wire{shelf: &shelf{values: map[string]Kept{}, until: map[string]time.Time{}}}
}

// talk has a turn of a conversation served that only its content names, and returns the conversation.
func (n *node) talk(t *testing.T, whole uint64, marks ...uint64) string {
	t.Helper()
	p, err := n.Decide(&fleet.Request{
		Model: "m", MintedID: fmt.Sprint("minted", whole), PromptTokens: 1000,
		Trail: &session.Trail{Whole: whole, Strict: whole, Marks: marks, StrictMarks: marks},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Observe(route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 10}})
	return p.Session
}

// TestKept: what routers have learnt outlives a restart of all of them.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onShelf()
		a, b := w.node(t, "", "x", "y"), w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		want := map[string]string{}
		for i := range 500 {
			want[fmt.Sprint("chat", i)] = []string{"x", "y"}[i%3%2]
			[]*node{a, b}[i%2].serve(t, fmt.Sprint("chat", i), want[fmt.Sprint("chat", i)])
		}
		a.serve(t, "moved", "x")
		time.Sleep(5 * time.Second)
		b.serve(t, "moved", "y")
		talk := a.talk(t, 1)
		want["moved"] = "y"
		time.Sleep(2 * time.Second)
		a.serve(t, "late", "y") // it is written when the router ends
		want["late"] = "y"
		a.stop()
		b.stop()
		if s := a.group.Status().Kept; s.Waiting != 0 || s.Failed != 0 {
			t.Errorf("a router that ends leaves %+v", s)
		}
		for name, k := range w.shelf.values {
			if k.For > time.Hour && len(k.Value) < 250 || strings.Contains(string(k.Value), "chat") {
				t.Errorf("%s is kept for %v as %q", name, k.For, k.Value)
			}
		}

		again := &wire{shelf: w.shelf}
		c := again.node(t, "", "x", "y")
		began := time.Now()
		for !c.ready() {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > learnFor {
			t.Errorf("it was ready after %v", took)
		}
		for chat, home := range want {
			if got := c.home(t, chat); got != home {
				t.Errorf("%s is at home at %s, want %s", chat, got, home)
			}
		}
		if got := c.talk(t, 9, 2, 1); got != talk || talk == "" {
			t.Errorf("the next turn of a conversation without an id is one of %q, want %q", got, talk)
		}
		if got, want := c.Status()[0].PrefillPerSec, b.Status()[0].PrefillPerSec; got != want { // b wrote last
			t.Errorf("x computes %v tokens a second, want %v", got, want)
		}
		c.stop()

		time.Sleep(2 * time.Hour)
		d := (&wire{shelf: w.shelf}).node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		if got := d.home(t, "chat1"); got != "nowhere" {
			t.Errorf("a conversation of two hours ago is at home at %s", got)
		}
		d.stop()
	})
}

// TestKeptWhenTheStoreFails: requests are served as before, it is said once, and what had to wait is written later.
func TestKeptWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onShelf()
		a := w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		w.shelf.set(func() { w.shelf.fault = errors.New("READONLY it is a replica") })
		for i := range 100 {
			a.serve(t, fmt.Sprint("chat", i), "y")
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if ok, why := a.group.Note(); !ok || !strings.Contains(why, "READONLY") {
			t.Errorf("ready is %t: %s", ok, why)
		}
		if s := a.group.Status().Kept; s.Waiting != 100 || s.Written != 0 || s.Problem == "" {
			t.Errorf("%+v", s)
		}
		w.shelf.set(func() { w.shelf.fault = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := a.group.Status().Kept; s.Waiting != 0 || s.Written != 100 || s.Problem != "" {
			t.Errorf("afterwards %+v", s)
		}
		a.stop()
		if log := a.log.String(); strings.Count(log, "cannot be kept") != 1 ||
			strings.Count(log, "is kept again") != 1 {
			t.Errorf("the log:\n%s", log)
		}
	})
}

// TestClosedOnce: what was removed from the store since conversations were closed is not removed again after a later
// turn of theirs was written, when only some of what waited could be.
func TestClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onShelf()
		a := w.node(t, "", "x")
		time.Sleep(3 * time.Second)
		const chats = 3 * mostAtOnce
		for i := range chats {
			chat := fmt.Sprint("chat", i)
			a.serve(t, chat, "x")
			a.Observe(route.Closed{Session: chat, Pools: []string{"m"}})
			a.serve(t, chat, "x")
		}
		w.shelf.set(func() { w.shelf.after = w.shelf.puts + mostAtOnce })
		time.Sleep(2 * time.Second)
		w.shelf.set(func() { w.shelf.after = 0 })
		time.Sleep(2 * time.Second)
		a.stop()
		if got := len(w.shelf.values) - 1; got != chats { // one value is what is known of endpoints
			t.Errorf("%d of %d conversations are kept", got, chats)
		}
	})
}

// TestKeptByOthers: what another fleet, another release or another program has put there is left alone and said once.
func TestKeptByOthers(t *testing.T) {
	rows := map[string]struct {
		secret string
		spoil  func(name string, b []byte) []byte
		says   string
		knows  bool
	}{
		"nothing is wrong": {knows: true, says: "knows what was kept"},
		"another secret":   {secret: "another secret of the fleet", says: "does not open"},
		"another release": {
			spoil: func(_ string, b []byte) []byte { b[versionBytes] = 9; return b }, says: "does not open",
		},
		"a bit is changed": {
			spoil: func(_ string, b []byte) []byte { b[len(b)-1] ^= 1; return b }, says: "does not open",
		},
		"a version is changed": {
			spoil: func(_ string, b []byte) []byte { b[versionBytes-1] ^= 1; return b }, says: "does not open",
		},
		"of something else":    {spoil: func(string, []byte) []byte { return []byte("hello") }, says: "does not open"},
		"nothing under a name": {spoil: func(string, []byte) []byte { return nil }, says: "does not open"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := onShelf()
				a := w.node(t, "", "x", "y")
				time.Sleep(3 * time.Second)
				a.serve(t, "chat", "y")
				time.Sleep(2 * time.Second)
				a.stop()
				if row.spoil != nil {
					for name, k := range w.shelf.values {
						k.Value = row.spoil(name, k.Value)
						w.shelf.values[name] = k
					}
				}
				before := len(w.shelf.values)
				b := (&wire{shelf: w.shelf}).node(t, row.secret, "x", "y")
				time.Sleep(3 * time.Second)
				if got := b.home(t, "chat"); (got == "y") != row.knows {
					t.Errorf("it is at home at %s", got)
				}
				if len(w.shelf.values) < before {
					t.Errorf("%d values are left of %d", len(w.shelf.values), before)
				}
				b.stop()
				if log := b.log.String(); strings.Count(log, row.says) != 1 {
					t.Errorf("the log does not say %q once:\n%s", row.says, log)
				}
			})
		})
	}
}

// TestKeptVersions: a router whose clock is behind does not take back what was written before it began, once it has
// read that.
func TestKeptVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onShelf()
		a := w.node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		a.group.clock.ahead.Store(int64(10 * time.Minute)) // as after a router with such a clock was heard
		a.serve(t, "chat", "y")
		a.stop()
		b := (&wire{shelf: w.shelf}).node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		b.serve(t, "chat", "x")
		b.stop()
		c := (&wire{shelf: w.shelf}).node(t, "", "x", "y")
		time.Sleep(3 * time.Second)
		if got := c.home(t, "chat"); got != "x" {
			t.Errorf("it is at home at %s, want x", got)
		}
		c.stop()
	})
}

// TestKeptBytes: a conversation comes back as it was, and broken ones are refused.
func TestKeptBytes(t *testing.T) {
	entry := learnt.Conversation{
		Hi: 1, Lo: 2, Endpoint: 0, Model: 1, Leader: 2, Tokens: 3, Prompt: 4, Bytes: 5, Flow: 1<<32 - 1,
		Warm: true, Turns: 7,
	}
	heard := learnt.Announcement{
		Key: session.KeyFrom(1, 2), ID: "minted", Minted: true, Trail: session.Noted{ID: "minted", Main: 9, Chat: 8},
	}
	names := []string{"x", "m", "\x00lead"}
	rows := map[string]struct {
		piece learnt.Conversations
		heard *learnt.Announcement
	}{
		"named": {
			learnt.Conversations{Names: names, Claimed: []learnt.Conversation{entry}},
			&learnt.Announcement{Key: session.KeyFrom(1, 2), Named: true, First: true},
		},
		"minted":   {learnt.Conversations{Names: names, Unclaimed: []learnt.Conversation{entry}}, &heard},
		"response": {learnt.Conversations{Names: names, Responses: []learnt.Conversation{entry}}, nil},
	}
	for name, row := range rows {
		b, _ := appendKept(nil, &row.piece, row.heard)
		var got learnt.Conversations
		h, err := readKept(b, &got)
		if err != nil || !reflect.DeepEqual(got, row.piece) || !reflect.DeepEqual(h, row.heard) {
			t.Errorf("%s: %v\n%+v %+v, want\n%+v %+v", name, err, got, h, row.piece, row.heard)
		}
		for n := range len(b) {
			if _, err := readKept(b[:n], &learnt.Conversations{}); err == nil {
				t.Errorf("%s: %d bytes of %d are taken", name, n, len(b))
			}
		}
	}
}
