package session

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("session-", i)
	}
	return out
}

func has(t *Table, now time.Time, id string) bool {
	_, ok := t.Get(now, name("", "m", id))
	return ok
}

func TestTwoTurns(t *testing.T) {
	table := New(Config{})
	if _, ok := table.Get(start, name("acme", "m", "c")); ok {
		t.Fatal("a conversation is known before its first turn")
	}
	first := Entry{Endpoint: "e1", Model: "m-resolved", Tokens: 10, Turns: 1}
	table.Put(start, name("acme", "m", "c"), first)
	first.Last = start
	if got, ok := table.Get(start, name("acme", "m", "c")); !ok || got != first {
		t.Fatalf("after the first turn: %+v, %v", got, ok)
	}
	later := start.Add(time.Minute)
	second := Entry{Endpoint: "e2", Model: "m-resolved", Tokens: 30, Turns: 2}
	table.Put(later, name("acme", "m", "c"), second)
	second.Last = later
	if got, ok := table.Get(later, name("acme", "m", "c")); !ok || got != second {
		t.Fatalf("after the second turn: %+v, %v", got, ok)
	}
	if table.Len() != 1 {
		t.Fatalf("%d entries for one conversation", table.Len())
	}
	if got, want := table.Stats(), (Stats{Hits: 2, Misses: 1}); got != want {
		t.Fatalf("stats %+v, want %+v", got, want)
	}
}

func TestScopes(t *testing.T) {
	for _, hashOnly := range []bool{false, true} {
		table := New(Config{HashOnly: hashOnly})
		names := [][3]string{
			{"", "m", "session-1"},
			{"", "m", "session-12"},
			{"", "m", "session-"},
			{"acme", "m", "session-1"},
			{"", "m2", "session-1"},
			{"acm", "em", "session-1"},
			{"", "m", ""},
		}
		for i, n := range names {
			if _, ok := table.Get(start, name(n[0], n[1], n[2])); ok {
				t.Errorf("hashOnly=%v: %q is known before it was put", hashOnly, n)
			}
			table.Put(start, name(n[0], n[1], n[2]), Entry{Turns: i})
		}
		for i, n := range names {
			if got, ok := table.Get(start, name(n[0], n[1], n[2])); !ok || got.Turns != i {
				t.Errorf("hashOnly=%v: %q is %+v, %v", hashOnly, n, got, ok)
			}
		}
	}
}

func TestTTLAtTheEdge(t *testing.T) {
	const ttl = time.Minute
	tests := []struct {
		name string
		use  func(t *Table, now time.Time) // half a TTL after the Put
		at   time.Duration                 // time of the Get, after the Put
		want bool
	}{
		{"just before", nil, ttl - 1, true},
		{"at", nil, ttl, false},
		{"after", nil, ttl + 1, false},
		{"reading does not extend", func(t *Table, now time.Time) { t.Get(now, name("", "m", "c")) }, ttl, false},
		{"writing restarts", func(t *Table, now time.Time) {
			t.Put(now, name("", "m", "c"), Entry{})
		}, ttl*3/2 - 1, true},
		{"writing restarts no more than once", func(t *Table, now time.Time) {
			t.Put(now, name("", "m", "c"), Entry{})
		}, ttl * 3 / 2, false},
		{"another conversation does not extend", func(t *Table, now time.Time) {
			t.Put(now, name("", "m", "d"), Entry{})
		}, ttl, false},
		{"a clock that steps back stands still", func(t *Table, now time.Time) {
			t.Put(now.Add(-time.Hour), name("", "m", "c"), Entry{})
		}, ttl - 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := New(Config{IdleTTL: ttl})
			table.Put(start, name("", "m", "c"), Entry{})
			if tt.use != nil {
				tt.use(table, start.Add(ttl/2))
			}
			if got := has(table, start.Add(tt.at), "c"); got != tt.want {
				t.Errorf("remembered %v, want %v", got, tt.want)
			}
		})
	}
}

func TestExpiredIsDroppedOnRead(t *testing.T) {
	table := New(Config{IdleTTL: time.Second})
	table.Put(start, name("", "m", "c"), Entry{})
	if has(table, start.Add(time.Second), "c") || table.Len() != 0 {
		t.Errorf("%d entries after an expired read", table.Len())
	}
	if got, want := table.Stats(), (Stats{Misses: 1, Expirations: 1}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func TestLeastRecentlyUsedGoes(t *testing.T) {
	table := New(Config{Max: 3})
	for _, id := range []string{"a", "b", "c"} {
		table.Put(start, name("", "m", id), Entry{})
	}
	has(table, start, "a")                        // order of use: a c b
	table.Put(start, name("", "m", "b"), Entry{}) // b a c
	table.Put(start, name("", "m", "d"), Entry{}) // d b a, c goes
	has(table, start, "a")                        // a d b
	table.Put(start, name("", "m", "e"), Entry{}) // e a d, b goes
	has(table, start, "unknown")                  // changes no order
	table.Delete(name("", "m", "a"))              // e d
	table.Put(start, name("", "m", "f"), Entry{}) // f e d
	want := []string{"d", "e", "f"}               // and none was evicted
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		if got := has(table, start, id); got != slices.Contains(want, id) {
			t.Errorf("%s remembered: %v", id, got)
		}
	}
	if got := table.Stats().Evictions; got != 2 {
		t.Errorf("%d evictions, want 2", got)
	}
}

func TestExpiredGoBeforeLive(t *testing.T) {
	table := New(Config{Max: 3, IdleTTL: time.Minute})
	table.Put(start, name("", "m", "old"), Entry{})
	table.Put(start.Add(30*time.Second), name("", "m", "a"), Entry{})
	table.Put(start.Add(40*time.Second), name("", "m", "b"), Entry{})
	has(table, start.Add(59*time.Second), "old") // the most recently used, and about to expire
	now := start.Add(time.Minute)
	table.Put(now, name("", "m", "c"), Entry{})
	if !has(table, now, "a") || !has(table, now, "b") || !has(table, now, "c") {
		t.Error("a live conversation went while an expired one was held")
	}
	if got, want := table.Stats(), (Stats{Hits: 4, Expirations: 1}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func TestSweepIsBounded(t *testing.T) {
	table := New(Config{IdleTTL: time.Minute})
	for _, id := range ids(100) {
		table.Put(start, name("", "m", id), Entry{})
	}
	late := start.Add(time.Hour)
	for _, step := range []struct{ limit, want, left int }{{10, 10, 90}, {0, 0, 90}, {-1, 0, 90}, {1, 1, 89}} {
		if got := table.Sweep(late, step.limit); got != step.want || table.Len() != step.left {
			t.Fatalf("Sweep(%d) dropped %d, left %d; want %d and %d",
				step.limit, got, table.Len(), step.want, step.left)
		}
	}
	table.Put(late, name("", "m", "new"), Entry{})
	if got, want := table.Len(), 89-sweepPerPut+1; got != want {
		t.Fatalf("%d entries after a Put, want %d", got, want)
	}
	if got := table.Sweep(late, 1000); got != 89-sweepPerPut || table.Len() != 1 {
		t.Fatalf("the last sweep dropped %d and left %d", got, table.Len())
	}
}

func TestDelete(t *testing.T) {
	table := New(Config{})
	table.Put(start, name("acme", "m", "c"), Entry{})
	if table.Delete(name("", "m", "c")) || table.Delete(name("acme", "m", "cc")) ||
		!table.Delete(name("acme", "m", "c")) || table.Delete(name("acme", "m", "c")) {
		t.Error("deletes the wrong conversation, or one twice")
	}
	if table.Len() != 0 || table.Stats().Evictions != 0 {
		t.Errorf("%d entries, stats %+v", table.Len(), table.Stats())
	}
}

// Two names with one 128-bit hash cannot be found, so the test changes the index to make such a pair.
func TestCollisionJoinsNoConversations(t *testing.T) {
	table := New(Config{})
	table.Put(start, name("", "m", "mine"), Entry{Endpoint: "e1"})
	table.Put(start, name("", "m", "filler"), Entry{})
	mine, yours := KeyOf("", "m", "mine"), KeyOf("", "m", "yours")
	i := table.keyed(mine)
	table.index.remove(mine.lo, i)
	table.store.at(i).key = yours
	table.index.insert(yours.lo, i)
	if has(table, start, "yours") || table.Delete(name("", "m", "yours")) {
		t.Fatal("a conversation is taken for another with the same hash")
	}
	table.Put(start, name("", "m", "yours"), Entry{Endpoint: "e2"})
	if got, ok := table.Get(start, name("", "m", "yours")); !ok || got.Endpoint != "e2" || table.Len() != 2 {
		t.Fatalf("the newer of two is %+v, %v, among %d", got, ok, table.Len())
	}
	if got := table.Stats().Evictions; got != 1 {
		t.Errorf("%d evictions, want 1", got)
	}
}

func TestHashOnlyKeepsNothingOfTheClient(t *testing.T) {
	for _, hashOnly := range []bool{false, true} {
		table := New(Config{Max: 50, HashOnly: hashOnly})
		for i, id := range ids(100) {
			now := start.Add(time.Duration(i))
			table.Put(now, name("secret-tenant", "secret-model", id), Entry{Endpoint: "e1", Model: "served"})
			table.Get(now, name("secret-tenant", "secret-model", id))
			if i%7 == 0 {
				table.Delete(name("secret-tenant", "secret-model", id))
			}
		}
		var texts []string
		texts = reach(reflect.ValueOf(table), texts)
		found := slices.ContainsFunc(texts, func(s string) bool {
			return strings.Contains(s, "session-") || strings.Contains(s, "secret")
		})
		if found == hashOnly {
			t.Errorf("hashOnly=%v: a client's string is kept: %v", hashOnly, found)
		}
		if !slices.Contains(texts, "served") {
			t.Error("the walk does not reach the entries")
		}
	}
}

// reach collects every string and byte slice reachable from v.
func reach(v reflect.Value, out []string) []string {
	switch v.Kind() {
	case reflect.String:
		return append(out, v.String())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() {
			return out
		}
		return reach(v.Elem(), out)
	case reflect.Struct:
		for i := range v.NumField() {
			out = reach(v.Field(i), out)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			run := make([]byte, v.Len())
			for i := range run {
				run[i] = byte(v.Index(i).Uint())
			}
			return append(out, string(run))
		}
		for i := range v.Len() {
			out = reach(v.Index(i), out)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			out = reach(it.Value(), reach(it.Key(), out))
		}
	}
	return out
}

// An id of any length takes bounded space and is still compared whole.
func TestLongIDs(t *testing.T) {
	table := New(Config{})
	long := strings.Repeat("x", 1<<20)
	table.Put(start, name("", "m", long+"1"), Entry{Turns: 1})
	table.Put(start, name("", "m", long+"2"), Entry{Turns: 2})
	if a, ok := table.Get(start, name("", "m", long+"1")); !ok || a.Turns != 1 {
		t.Errorf("got %+v, %v", a, ok)
	}
	if has(table, start, long) || has(table, start, long+"12") {
		t.Error("a long id is matched by a part of it")
	}
	for _, text := range reach(reflect.ValueOf(table), nil) {
		if len(text) > longName+1 {
			t.Errorf("a string of %d bytes is kept", len(text))
		}
	}
}

func TestConfig(t *testing.T) {
	if got, want := (Config{}).WithDefaults(), (Config{
		Max: 100_000, IdleTTL: time.Hour, SeenIDs: 100_000,
	}); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	set := Config{Max: 5, IdleTTL: time.Second, HashOnly: true, SeenIDs: 7}
	if got := set.WithDefaults(); got != set {
		t.Errorf("defaults change %+v to %+v", set, got)
	}
	tests := []struct {
		name   string
		config Config
		want   []string
	}{
		{"nothing given", Config{}, nil},
		{"all given", set, nil},
		{"negative", Config{Max: -1}, []string{"max is -1"}},
		{"too many", Config{Max: LargestMax + 1}, []string{"max is 100000001"}},
		{
			"all at once",
			Config{Max: -2, IdleTTL: -time.Second, SeenIDs: -3},
			[]string{"max is -2", "idle_ttl is -1s", "seen_ids is -3"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.config.Validate()
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
		})
	}
	defer func() {
		if recover() == nil {
			t.Error("New takes a configuration that is not valid")
		}
	}()
	New(Config{Max: -1})
}
