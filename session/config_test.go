package session

import (
	"fmt"
	"testing"
	"time"
)

// TestSetConfig: a table given a smaller bound shrinks gradually, least recently used first, and keeps entries known by
// hash alone.
func TestSetConfig(t *testing.T) {
	table := New(Config{Max: 100, HashOnly: true})
	for i := range 100 {
		table.Put(start, name("", "m", fmt.Sprint(i)), Entry{Endpoint: "a"})
	}
	table.SetConfig(Config{Max: 10, IdleTTL: time.Minute})
	if e, ok := table.Peek(start, name("", "m", "99")); !ok || e.Endpoint != "a" {
		t.Error("what is kept by its hash alone is not found any more")
	}
	for i := range 40 {
		table.Put(start, name("", "m", fmt.Sprint("new", i)), Entry{})
	}
	if table.Len() != 10 {
		t.Errorf("%d entries", table.Len())
	}
	if _, ok := table.Peek(start, name("", "m", "new39")); !ok {
		t.Error("the latest is gone")
	}
	if _, ok := table.Peek(start.Add(time.Minute), name("", "m", "new39")); ok {
		t.Error("the new idle_ttl does not hold")
	}
	seen := NewSeen(10)
	for i := range 10 {
		seen.First(KeyOf("", "", fmt.Sprint(i)), false)
	}
	seen.SetMost(5)
	seen.First(KeyOf("", "", "x"), false)
	if seen.Len() != 10 {
		t.Errorf("%d ids, want no more than before", seen.Len())
	}
}
