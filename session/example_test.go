package session_test

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/session"
)

// A conversation stays with its endpoint until it was idle for too long.
func ExampleTable() {
	t := session.New(session.Config{Max: 10_000, IdleTTL: time.Hour})
	now := time.Unix(1_800_000_000, 0)
	name := session.NameOf("tenant", "model", "chat-1")
	t.Put(now, &name, session.Entry{Endpoint: "a", Turns: 1})

	for _, later := range []time.Duration{50 * time.Minute, 61 * time.Minute} {
		entry, known := t.Get(now.Add(later), &name)
		fmt.Printf("%q %t\n", entry.Endpoint, known)
	}
	// Output:
	// "a" true
	// "" false
}
