package kvevents

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/zmtp"
	"github.com/warmpath/warmpath/route"
)

// TestPanics: a fault of this program while a message is taken in costs that message, however it came, and is said;
// what comes afterwards is taken in.
func TestPanics(t *testing.T) {
	polled := 0
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		polled++
		_, _ = io.WriteString(w, `[{"event_id":`+string(rune('0'+polled%10))+
			`,"data":{"type":"stored","parent_hash":null,"blocks":[{"block_hash":5,"tokens":[{"token_id":5}]}]}}]`)
	}))
	defer engine.Close()
	pub, addr := bound(t)
	for name, e := range map[string]fleet.Endpoint{
		"dialled":   {Name: "e", URL: "http://127.0.0.1:1", KVEvents: addr},
		"listening": {Name: "e", URL: "http://127.0.0.1:1", KVEvents: listenEvents},
		"polled":    {Name: "e", URL: engine.URL, KVEvents: pollEvents},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Listen = "tcp://127.0.0.1:0"
			h, said, faulty := &heard{}, &book{}, true
			f := New(cfg, nil, http.DefaultClient, func(ev route.Event) {
				if _, ok := ev.(route.KVApplied); ok && faulty {
					faulty = false
					panic("a fault")
				}
				h.observe(ev)
			}, slog.New(slog.NewTextHandler(said, nil)))
			if err := f.Listen(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); f.Run(ctx) }()
			defer func() { cancel(); <-done }()
			before, seq := panics.Counts()[panics.KVEvents], uint64(0)
			f.Set([]fleet.Endpoint{e})
			caller := zmtp.DialPublisher(strings.TrimPrefix(f.Addresses()[0], "tcp://"))
			defer caller.Close()
			h.until(t, "what comes after the fault", func(h *heard) bool {
				pub.Send(message(seq, stored(float64(seq)+1, seq+100))...)
				caller.Send(topical("kv@e@m", seq, stored(float64(seq)+1, seq+100))...)
				seq++
				return h.ops > 0
			})
			if n := panics.Counts()[panics.KVEvents]; n != before+1 {
				t.Errorf("%d panics were counted", n-before)
			}
		})
	}
}

// TestInbox: messages wait up to a number and to bytes, and one of any size if nothing else does.
func TestInbox(t *testing.T) {
	b := newInbox()
	for i := range queue {
		if !b.add([][]byte{{1}}) {
			t.Fatalf("message %d found no room", i)
		}
	}
	if b.add(nil) {
		t.Error("one too many")
	}
	if got := b.take(); len(got) != queue {
		t.Errorf("%d were taken", len(got))
	}
	big := [][]byte{make([]byte, mostQueued+1)}
	if !b.add(big) || b.add([][]byte{{1}}) {
		t.Error("a large message must be let in alone")
	}
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan bool)
	go func() { given <- b.give(ctx, nil, big) }()
	go func() { given <- b.give(ctx, nil, [][]byte{{1}}) }()
	b.take()
	if !<-given {
		t.Error("none was given when there was room")
	}
	cancel()
	<-given
}
