package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/internal/zmtp"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// heard collects what a Follower tells.
type heard struct {
	mu     sync.Mutex
	states []route.KVStreamState
	ops    int
	most   int // of them at once
	blocks int
	tokens []route.KVTokens
	hear   func(route.KVStreamState) // is called with each state, unless it is nil
}

func (h *heard) observe(ev route.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch ev := ev.(type) {
	case route.KVStreamState:
		h.states = append(h.states, ev)
		if h.hear != nil {
			h.hear(ev)
		}
	case route.KVApplied:
		h.ops += ev.Ops.Len()
		h.most = max(h.most, ev.Ops.Len())
		h.blocks = ev.Blocks
	case route.KVTokens:
		h.tokens = append(h.tokens, ev)
	}
}

func (h *heard) until(t *testing.T, what string, ok func(h *heard) bool) {
	t.Helper()
	for range 60_000 { // two minutes and more
		h.mu.Lock()
		yes := ok(h)
		h.mu.Unlock()
		if yes {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Fatalf("%s: it never came: %+v, %d operations, %d blocks", what, h.states, h.ops, h.blocks)
}

func follow(t *testing.T, cfg Config, e fleet.Endpoint) (*Follower, *heard) {
	t.Helper()
	h := &heard{}
	f := New(cfg, nil, http.DefaultClient, h.observe, slog.New(slog.NewTextHandler(io.Discard, nil)))
	running(t, f, e)
	return f, h
}

// bound is a PUB socket that tests write to.
func bound(t *testing.T) (*zmtp.Publisher, string) {
	t.Helper()
	addr := freeport.Address()
	pub, err := zmtp.ListenPublisher(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pub.Close)
	return pub, "tcp://" + addr
}

func stored(at float64, hash uint64) []byte {
	b := msgp.AppendArrayHeader(msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), at), 1)
	b = msgp.AppendString(msgp.AppendArrayHeader(b, 5), "BlockStored")
	b = msgp.AppendUint64(msgp.AppendArrayHeader(b, 1), hash)
	b = msgp.AppendNil(b)
	b = msgp.AppendUint64(msgp.AppendArrayHeader(b, 1), hash)
	return msgp.AppendInt(b, 1)
}

func cleared(at float64) []byte {
	b := msgp.AppendArrayHeader(msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), at), 1)
	return msgp.AppendString(msgp.AppendArrayHeader(b, 1), "AllBlocksCleared")
}

func message(seq uint64, payload []byte) [][]byte {
	return [][]byte{[]byte("kv"), binary.BigEndian.AppendUint64(nil, seq), payload}
}

// TestForeignMessages: what is no message of ours is counted, and what comes after it is taken in.
func TestForeignMessages(t *testing.T) {
	pub, addr := bound(t)
	f, h := follow(t, DefaultConfig(), fleet.Endpoint{Name: "e", URL: "http://127.0.0.1:1", KVEvents: addr})
	seq := uint64(0)
	h.until(t, "the first message", func(h *heard) bool { // a subscription takes a moment to reach the publisher
		pub.Send(message(seq, stored(float64(seq)+1, seq+100))...)
		seq++
		return h.ops > 0
	})
	pub.Send(message(seq, cleared(float64(seq)+1))...)
	seq++
	h.until(t, "what was still on its way", func(*heard) bool { return f.Figures()[0].Counts.Cleared == 1 })
	before := f.Figures()[0].Counts.Stored
	for _, m := range [][][]byte{
		{[]byte("kv")},
		{[]byte("kv"), []byte("short"), stored(1, 1)},
		message(seq, []byte("not msgpack at all")),
		{[]byte("kv"), nil, nil},
		message(seq+1, nil),
	} {
		pub.Send(m...)
	}
	pub.Send(message(seq+2, stored(float64(seq)+3, 7))...)
	h.until(t, "the message after them", func(*heard) bool { return f.Figures()[0].Counts.Stored == before+1 })
	if c := f.Figures()[0].Counts; c.Skipped < 4 || c.Missing != 0 || c.Restarts != 0 {
		t.Errorf("got %+v; want the foreign ones skipped and nothing lost", c)
	}
}

// TestEndpointsComeAndGo: an endpoint that is not declared any more is not followed, and its goroutines end.
func TestEndpointsComeAndGo(t *testing.T) {
	pub, addr := bound(t)
	f, h := follow(t, DefaultConfig(), fleet.Endpoint{Name: "e", URL: "http://127.0.0.1:1", KVEvents: addr})
	seq := uint64(0)
	h.until(t, "a message", func(h *heard) bool {
		pub.Send(message(seq, stored(float64(seq)+1, seq+1))...)
		seq++
		return h.ops > 0
	})
	f.Set([]fleet.Endpoint{{Name: "e", URL: "http://127.0.0.1:1", KVEvents: off}})
	h.until(t, "that it is not followed",
		func(h *heard) bool { return h.states[len(h.states)-1].State == kvstream.None })
	f.Set(nil)
	h.until(t, "no figures", func(*heard) bool { return len(f.Figures()) == 0 })
}

// streams is how many an endpoint's events come by.
func streams(f *Follower) (n int) {
	for _, x := range f.Figures() {
		n += x.Streams
	}
	return n
}

// TestMoves: where an endpoint's events come from elsewhere, the end of the stream before is told before another
// begins; its last state would be none otherwise.
func TestMoves(t *testing.T) {
	_, before := bound(t)
	_, after := bound(t)
	f, h := follow(t, DefaultConfig(), fleet.Endpoint{Name: "e", URL: "http://127.0.0.1:1", KVEvents: before})
	h.until(t, "a stream", func(*heard) bool { return streams(f) == 1 })
	ended, begun := false, 0
	h.mu.Lock()
	h.hear = func(s route.KVStreamState) {
		if s.State == kvstream.None && s.Lost {
			ended, begun = true, streams(f)
		}
	}
	h.mu.Unlock()
	f.Set([]fleet.Endpoint{{Name: "e", URL: "http://127.0.0.1:1", KVEvents: after}})
	h.until(t, "the end of the stream before", func(*heard) bool { return ended })
	h.until(t, "the one after", func(*heard) bool { return streams(f) == 1 })
	if begun != 0 {
		t.Errorf("%d streams had begun when the one before ended", begun)
	}
}

// TestRankGoes: an endpoint that has fewer ranks than before is followed as before.
func TestRankGoes(t *testing.T) {
	sources := make([]fleet.KVSource, 2)
	for i := range sources {
		_, addr := bound(t)
		sources[i] = fleet.KVSource{
			Rank: i, Events: strings.Replace(addr, "127.0.0.1", "*", 1), Topic: "kv",
		}
	}
	f, h := follow(t, DefaultConfig(), fleet.Endpoint{Name: "e", URL: "http://127.0.0.1:1"})
	tell := func(s []fleet.KVSource) {
		f.Listener().Entry(&route.Entry{Event: route.Probed{Endpoint: "e", Report: fleet.Report{KVSources: s}}})
	}
	tell(sources)
	h.until(t, "both ranks", func(*heard) bool { return streams(f) == 2 })
	tell(sources[:1])
	h.until(t, "that one has gone", func(h *heard) bool {
		return len(h.states) > 0 && strings.HasSuffix(h.states[len(h.states)-1].Detail, "not followed any more")
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.states[len(h.states)-1]; s.State == kvstream.None || !s.Lost {
		t.Errorf("told %+v; the other rank is followed", s)
	}
}

// TestUnreachable: an address at which nobody listens is said once, and tried again.
func TestUnreachable(t *testing.T) {
	pub, addr := bound(t)
	pub.Close()
	_, h := follow(t, DefaultConfig(), fleet.Endpoint{Name: "e", URL: "http://127.0.0.1:1", KVEvents: addr})
	h.until(t, "that it is broken", func(h *heard) bool {
		return len(h.states) == 1 && h.states[0].State == kvstream.Silent
	})
	time.Sleep(3 * reconnect)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.states) != 1 {
		t.Errorf("said %d times: %+v", len(h.states), h.states)
	}
}

// TestPolling: TensorRT-LLM's list, with a gap, and a worker that has started anew.
func TestPolling(t *testing.T) {
	answers := make(chan string, 10)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/kv_cache_events" ||
			r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		select {
		case a := <-answers:
			_, _ = io.WriteString(w, a)
		default:
			_, _ = io.WriteString(w, "[]")
		}
	}))
	defer engine.Close()
	cfg := DefaultConfig()
	cfg.Poll = 10 * time.Millisecond
	f, h := follow(t, cfg, fleet.Endpoint{Name: "e", URL: engine.URL, APIKey: "k", KVEvents: pollEvents})
	event := func(id, hash string) string {
		return `{"event_id":` + id + `,"data":{"type":"stored","parent_hash":null,"blocks":[{"block_hash":` + hash +
			`,"tokens":[{"token_id":` + hash + `}]}]},"window_size":8}`
	}
	answers <- `[{"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[9]}},` + event("1", "5") + `,` +
		event("2", "6") + `, 8]`
	h.until(t, "the first events", func(h *heard) bool {
		return h.blocks == 2 && h.states[len(h.states)-1].State == kvstream.Exact
	})
	answers <- `[` + event("9", "7") + `]`
	h.until(t, "a gap", func(h *heard) bool {
		last := h.states[len(h.states)-1]
		return last.Lost && last.State == kvstream.Partial && h.blocks == 1
	})
	answers <- `[` + event("0", "8") + `]`
	h.until(t, "a restart", func(h *heard) bool { return h.states[len(h.states)-1].Restart })
	answers <- `{"detail":"no events"}`
	if c := f.Figures()[0].Counts; c.Missing != 6 || c.Restarts != 1 || c.Skipped != 1 {
		t.Errorf("got %+v", c)
	}
}

func TestReachable(t *testing.T) {
	for _, c := range []struct{ told, engine, want string }{
		{"tcp://*:5557", "http://10.0.0.1:8000", "tcp://10.0.0.1:5557"},
		{"tcp://0.0.0.0:5557", "https://gpu-1.example/path", "tcp://gpu-1.example:5557"},
		{"tcp://[::]:5557", "http://[::1]:8000", "tcp://[::1]:5557"},
		{"tcp://10.9.9.9:5557", "http://10.0.0.1:8000", ""}, // it dials out
		{"ipc:///tmp/events", "http://10.0.0.1:8000", ""},
		{"", "http://10.0.0.1:8000", ""},
	} {
		if got := reachable(c.told, c.engine); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.told, c.engine, got, c.want)
		}
	}
	if got := AddPort("tcp://h:5557", 3); got != "tcp://h:5560" {
		t.Error(got)
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{Poll: time.Hour, Blocks: 1, ListenRanks: 1, SessionHeader: "a b"}
	if err := bad.Validate(); err == nil {
		t.Error("wrong values are accepted")
	}
	for name, ok := range map[string]bool{
		"": true, "X-Session-ID": true, "session": true, "a/b": false, "a:": false, "é": false,
		"Content-Length": false, "host": false,
	} {
		c := DefaultConfig()
		c.SessionHeader = name
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("session_header %q: %v", name, err)
		}
	}
}

// TestPollingInParts: of an answer with thousands of events no more are told at once than the fleet's lock may be held
// for.
func TestPollingInParts(t *testing.T) {
	const events = 4*mostOps + 7
	var list []string
	for i := range events {
		id := strconv.Itoa(i)
		list = append(list, `{"event_id":`+id+`,"data":{"type":"stored","parent_hash":null,"blocks":[{"block_hash":`+id+
			`,"tokens":[{"token_id":`+id+`}]}]}}`)
	}
	answers := make(chan string, 1)
	answers <- "[" + strings.Join(list, ",") + "]"
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case a := <-answers:
			_, _ = io.WriteString(w, a)
		default:
			_, _ = io.WriteString(w, "[]")
		}
	}))
	defer engine.Close()
	_, h := follow(t, DefaultConfig(), fleet.Endpoint{Name: "e", URL: engine.URL, KVEvents: pollEvents})
	h.until(t, "all events", func(h *heard) bool { return h.ops == events && h.blocks == events })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.most > mostOps {
		t.Errorf("%d operations were told at once, want at most %d", h.most, mostOps)
	}
}

// TestForgets: nothing is kept of endpoints that are gone, those whose addresses are stated included.
func TestForgets(t *testing.T) {
	f, h := follow(t, DefaultConfig(), fleet.Endpoint{
		Name: "e", URL: "http://127.0.0.1:1", KVEvents: "tcp://127.0.0.1:1",
	})
	empty := func(*heard) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.streams)+len(f.engines) == 0
	}
	h.until(t, "a stream", func(h *heard) bool { return !empty(h) })
	f.Set([]fleet.Endpoint{{Name: "e", URL: "http://127.0.0.1:1", KVEvents: off}})
	h.until(t, "its counts", func(*heard) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.streams) == 0 && len(f.engines) == 1
	})
	f.Set(nil)
	h.until(t, "that nothing is left", empty)
}

// TestHostMoves: where the name of an engine's host stands for other addresses, its events count no more, though it
// lives: what it stored is lost, and the name is dialled again. A failed look-up, and one that lacks the address once,
// change nothing.
func TestHostMoves(t *testing.T) {
	pub, addr := bound(t)
	h := &heard{}
	f := New(DefaultConfig(), nil, http.DefaultClient, h.observe, slog.New(slog.NewTextHandler(io.Discard, nil)))
	here, elsewhere := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	looks := make(chan []netip.Addr)
	f.lookEvery = time.Millisecond
	f.resolve = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		select {
		case at := <-looks:
			if at == nil {
				return nil, errors.New("no answer")
			}
			return at, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	running(t, f, fleet.Endpoint{
		Name: "a", URL: "http://a", KVEvents: strings.Replace(addr, "127.0.0.1", "localhost", 1),
	})
	sends := func(seq uint64) func(h *heard) bool {
		return func(h *heard) bool {
			pub.Send(message(seq, stored(float64(seq), 7+seq))...)
			return h.blocks > 0
		}
	}
	h.until(t, "it is followed", sends(0))
	for _, at := range [][]netip.Addr{{here}, nil, {elsewhere}, {here, elsewhere}, {elsewhere}, nil} {
		looks <- at
	}
	lost := func(h *heard) bool { return len(h.states) > 0 && h.states[len(h.states)-1].Lost }
	h.mu.Lock()
	if lost(h) {
		t.Errorf("it is taken to have moved: %+v", h.states)
	}
	h.blocks = 0
	h.mu.Unlock()
	looks <- []netip.Addr{elsewhere}
	h.until(t, "it has moved", func(h *heard) bool {
		for _, s := range h.states {
			if s.Lost && strings.Contains(s.Detail, "stands for another address") {
				return true
			}
		}
		return false
	})
	h.until(t, "it is dialled again", sends(1))
}
