package kvevents

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// words is a tokenizer that takes the length of each word of a body for its token.
type words struct{}

func (words) Request(body []byte) (out []int32, err error) {
	if strings.Contains(string(body), "picture") {
		return nil, errors.New("the tokens of pictures are not known")
	}
	for _, w := range strings.Fields(string(body)) {
		out = append(out, int32(len(w)))
	}
	return out, nil
}

// lent is a body in memory that counts.
type lent struct {
	body     string
	full     bool // there is no more memory
	taken    atomic.Int64
	released atomic.Int64
}

func (l *lent) Bytes() []byte { return []byte(l.body) }
func (l *lent) Release()      { l.released.Add(1) }

func (l *lent) Take(n int) bool {
	l.taken.Add(int64(n))
	return !l.full
}

// TestTokens: where the tokens of a request come from, and what cannot be had is counted.
func TestTokens(t *testing.T) {
	var asked atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tokenize":
			asked.Add(1)
			_, _ = io.WriteString(w, engineSays)
		default:
			_, _ = io.WriteString(w, "[]")
		}
	}))
	defer engine.Close()
	for name, c := range map[string]struct {
		with     Tokenizer
		tokenize bool
		kind     fleet.Kind
		ids      bool
		body     string
		want     []uint32 // none: it is counted
		copied   bool     // a copy of the body is made
		none     bool     // there is no memory for it
		full     bool     // nor for an answer
	}{
		"by the tokenizer": {
			with: words{}, kind: fleet.KindTRTLLM, body: `{"prompt": "a bc"}`, want: []uint32{10, 2, 4}, copied: true,
		},
		"by the tokenizer, vLLM": {
			with: words{}, kind: fleet.KindVLLM, body: `{"prompt": "a bc"}`, want: []uint32{10, 2, 4}, copied: true,
		},
		"by the engine, with a tokenizer": {
			with: words{}, tokenize: true, kind: fleet.KindVLLM, body: `{"prompt": "a"}`,
			want: []uint32{8, 9}, copied: true,
		},
		"by the tokenizer, not the engine": {
			with: words{}, tokenize: true, kind: fleet.KindTRTLLM, body: `{"prompt": "a"}`,
			want: []uint32{10, 4}, copied: true,
		},
		"ids, by nobody": {
			kind: fleet.KindTRTLLM, ids: true, body: `{"prompt":[1,2,4294967295]}`,
			want: []uint32{1, 2, 4294967295}, copied: true,
		},
		"ids in a list of one": {
			kind: fleet.KindTRTLLM, ids: true, body: `{"prompt": [ [7] ]}`, want: []uint32{7}, copied: true,
		},
		"ids of a chat": {
			kind: fleet.KindTRTLLM, ids: true,
			body: `{"messages":[{"role":"user","content":"x"}],"prompt_token_ids":[5,6]}`,
			want: []uint32{5, 6}, copied: true,
		},
		"ids before a tokenizer": {
			with: words{}, kind: fleet.KindTRTLLM, ids: true, body: `{"prompt":[3]}`, want: []uint32{3}, copied: true,
		},
		"negative ids":       {kind: fleet.KindTRTLLM, ids: true, body: `{"prompt":[1,-2]}`, copied: true},
		"ids beyond 32 bits": {kind: fleet.KindTRTLLM, ids: true, body: `{"prompt":[4294967296]}`, copied: true},
		"ids that are none":  {kind: fleet.KindTRTLLM, ids: true, body: `{"prompt":[1.5]}`, copied: true},
		"two prompts": {
			kind: fleet.KindTRTLLM, ids: true, body: `{"prompt":[[1],[2]]}`, copied: true,
		},
		"what the tokenizer does not know": {
			with: words{}, kind: fleet.KindTRTLLM, body: `{"messages":"picture"}`, copied: true,
		},
		"with an adapter": {
			with: words{}, kind: fleet.KindTRTLLM, body: `{"prompt":"a","lora_request":{"lora_name":"x"}}`,
			copied: true,
		},
		"no memory for the body": {
			tokenize: true, kind: fleet.KindVLLM, body: `{"prompt":"a"}`, copied: true, none: true,
		},
		"no memory for the answer": {
			tokenize: true, kind: fleet.KindVLLM, body: `{"prompt":"a"}`, copied: true, full: true,
		},
		"nobody to ask, so nobody is asked": {kind: fleet.KindTRTLLM, body: `{"prompt":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Tokenize = c.tokenize
			f, h := followWith(t, cfg, c.with, fleet.Endpoint{Name: "e", URL: engine.URL, KVEvents: pollEvents})
			h.until(t, "a stream", func(*heard) bool { return f.follows("e") })
			copied, kept := false, &lent{body: c.body, full: c.full}
			f.Placed(&route.Decision{
				Lease: 3, Kind: c.kind, Endpoint: fleet.Endpoint{Name: "e", URL: engine.URL},
			}, c.ids, func(int) Body {
				if copied = true; c.none {
					return nil
				}
				return kept
			})
			if copied != c.copied {
				t.Errorf("the body was copied: %v, want %v", copied, c.copied)
			}
			if !c.copied {
				return
			}
			h.until(t, "tokens, or that there are none",
				func(h *heard) bool { return len(h.tokens) > 0 || f.Unasked() > 0 })
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(c.want) == 0 != (f.Unasked() == 1) ||
				len(c.want) > 0 && (!slices.Equal(h.tokens[0].Tokens, c.want) || h.tokens[0].Lease != 3) {
				t.Errorf("got %+v, %d not had; want %v", h.tokens, f.Unasked(), c.want)
			}
			if n := kept.released.Load(); n != 1 == !c.none {
				t.Errorf("the body was released %d times", n)
			}
			if slices.Equal(c.want, []uint32{8, 9}) && kept.taken.Load() != int64(len(engineSays)) {
				t.Errorf("%d bytes count for the answer, want %d", kept.taken.Load(), len(engineSays))
			}
		})
	}
	if asked.Load() != 2 {
		t.Errorf("the engine was asked %d times, want twice", asked.Load())
	}
}

const engineSays = `{"count":2,"tokens":[8,9]}`

// TestTokensAtTheEnd: bodies that still wait when Run ends are released, and so are those that find the queue full.
func TestTokensAtTheEnd(t *testing.T) {
	asked, goOn := make(chan struct{}, tokenAskers), make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" {
			asked <- struct{}{}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "[]")
	}))
	defer engine.Close()
	defer close(goOn)
	cfg := DefaultConfig()
	cfg.Tokenize = true
	h := &heard{}
	f := New(cfg, nil, http.DefaultClient, h.observe, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	f.Set([]fleet.Endpoint{{Name: "e", URL: engine.URL, KVEvents: pollEvents}})
	h.until(t, "a stream", func(*heard) bool { return f.follows("e") })
	var all []*lent
	place := func() {
		l := &lent{body: `{"prompt":"a"}`}
		all = append(all, l)
		f.Placed(&route.Decision{
			Kind: fleet.KindVLLM, Endpoint: fleet.Endpoint{Name: "e", URL: engine.URL},
		}, false, func(int) Body { return l })
	}
	for range tokenAskers {
		place()
	}
	for range tokenAskers {
		<-asked
	}
	for range tokenQueue + 3 {
		place()
	}
	cancel()
	<-done
	f.mu.Lock()
	f.streams[target{endpoint: "e"}] = nil // a request that was sent at the same moment
	f.mu.Unlock()
	place()
	for i, l := range all {
		if n := l.released.Load(); n != 1 {
			t.Errorf("body %d of %d was released %d times", i, len(all), n)
		}
	}
}

func followWith(t *testing.T, cfg Config, with Tokenizer, e fleet.Endpoint) (*Follower, *heard) {
	t.Helper()
	h := &heard{}
	f := New(cfg, with, http.DefaultClient, h.observe, slog.New(slog.NewTextHandler(io.Discard, nil)))
	running(t, f, e)
	return f, h
}

// running runs a follower of these endpoints until the test ends.
func running(t *testing.T, f *Follower, endpoints ...fleet.Endpoint) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	f.Set(endpoints)
}

// TestPolledOnNews: an engine is asked when an answer begins or ends there, without waiting for the next time that it
// would be.
func TestPolledOnNews(t *testing.T) { synctest.Test(t, polledOnNews) }

// engineOf is an engine in this process.
type engineOf func() string

func (e engineOf) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(e())), Request: r}, nil
}

func polledOnNews(t *testing.T) {
	var polls atomic.Int64
	client := &http.Client{Transport: engineOf(func() string {
		polls.Add(1)
		return "[]"
	})}
	h := &heard{}
	f := New(DefaultConfig(), nil, client, h.observe, slog.New(slog.NewTextHandler(io.Discard, nil)))
	f.cfg.Poll = 10 * time.Minute // slower than anybody may set it: longer than h.until waits
	running(t, f, fleet.Endpoint{Name: "e", URL: "http://e", KVEvents: pollEvents})
	h.until(t, "the first question", func(*heard) bool { return polls.Load() == 1 })
	entry := f.Listener().Entry
	entry(&route.Entry{Decision: &route.Decision{Lease: 1, Endpoint: fleet.Endpoint{Name: "e"}}})
	entry(&route.Entry{Decision: &route.Decision{Lease: 2, Endpoint: fleet.Endpoint{Name: "elsewhere"}}})
	entry(&route.Entry{Event: route.FirstByte{Lease: 2}})
	for range 100 {
		entry(&route.Entry{Event: route.FirstByte{Lease: 1}})
	}
	h.until(t, "a question after a first byte", func(*heard) bool { return polls.Load() >= 2 })
	entry(&route.Entry{Event: route.Finished{Lease: 1}})
	h.until(t, "a question after an end", func(*heard) bool { return polls.Load() >= 3 })
	if n := polls.Load(); n > 4 {
		t.Errorf("asked %d times; many at once are to be one question", n)
	}
	f.news.mu.Lock()
	defer f.news.mu.Unlock()
	if len(f.news.waiting) != 0 {
		t.Errorf("%d requests are remembered after their end", len(f.news.waiting))
	}
}
