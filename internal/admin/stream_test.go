package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
)

// flow is a ResponseWriter that keeps each flush apart.
type flow struct {
	mu     sync.Mutex
	head   http.Header
	status int
	piece  strings.Builder
	pieces []string
	broken bool
}

func (f *flow) Header() http.Header { return f.head }

func (f *flow) WriteHeader(status int) { f.status = status }

func (f *flow) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		return 0, errors.New("gone")
	}
	return f.piece.Write(b)
}

func (f *flow) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pieces = append(f.pieces, f.piece.String())
	f.piece.Reset()
}

// events are the names and the data of one piece.
func events(t *testing.T, piece string) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	for one := range strings.SplitSeq(strings.TrimSuffix(piece, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(one, "\ndata: ")
		if !ok || !json.Valid([]byte(data)) || strings.Contains(data, "\n") {
			t.Fatalf("not an event: %q", one)
		}
		out[strings.TrimPrefix(name, "event: ")] = json.RawMessage(data)
	}
	return out
}

func open(h http.Handler, ctx context.Context) (*flow, <-chan struct{}) {
	f, done := &flow{head: http.Header{}, status: 200}, make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, "GET", "/admin/stream", nil)
	r.Host = "127.0.0.1:9190"
	go func() {
		defer close(done)
		h.ServeHTTP(f, r)
	}()
	return f, done
}

func TestStreamTellsWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tally, last := newFleet(), NewTally(), 2
		a := handler(f, func(c *Config) {
			c.Tally = tally
			c.Decisions = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("after") == fmt.Sprint(last) {
					_, _ = fmt.Fprint(w, `{"decisions":[]}`)
					return
				}
				_, _ = fmt.Fprintf(w, "{\"decisions\":[\n{\"number\":%d}]}", last)
			})
			c.Replicas = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprint(w, `{"self":"r0"}`)
			})
		})
		ctx, cancel := context.WithCancel(t.Context())
		got, done := open(a, ctx)
		synctest.Wait()
		var e fleetEvent
		fleetOf := func(piece string) {
			t.Helper()
			e = fleetEvent{}
			if err := json.Unmarshal(events(t, piece)["fleet"], &e); err != nil {
				t.Fatal(err)
			}
		}
		fleetOf(got.pieces[0])
		if len(e.Names) != 2 || len(e.Endpoints) != 2 || e.Troubles == nil || e.Stats == nil {
			t.Errorf("the first look is not whole: %s", got.pieces[0])
		}
		if first := events(t, got.pieces[0]); first["decisions"] == nil || first["replicas"] == nil ||
			first["history"] != nil {
			t.Errorf("the first look: %s", got.pieces[0])
		}
		f.load("a", 5)
		time.Sleep(streamEvery)
		synctest.Wait()
		fleetOf(got.pieces[1])
		if len(e.Names) != 0 || len(e.Endpoints) != 1 || !strings.Contains(string(e.Endpoints[0]), `"name":"a"`) {
			t.Errorf("the second look tells more than what changed: %s", got.pieces[1])
		}
		if again := events(t, got.pieces[1]); again["decisions"] != nil || again["replicas"] != nil {
			t.Errorf("told twice: %s", got.pieces[1])
		}
		last = 3
		tally.Listener().Served(&live.Served{Status: 200, Outcome: fleet.OK, Ended: time.Now()})
		time.Sleep(pointSeconds * time.Second)
		synctest.Wait()
		if all := strings.Join(got.pieces[2:], ""); !strings.Contains(all, `{"number":3}`) ||
			!strings.Contains(all, "event: history") {
			t.Errorf("neither the decision nor the history was told: %s", all)
		}
		if err := f.Remove("a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(streamEvery)
		synctest.Wait()
		fleetOf(got.pieces[len(got.pieces)-1])
		if len(e.Names) != 1 {
			t.Errorf("the names after a removal: %q", e.Names)
		}
		cancel()
		<-done
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := NewStreams()
		with := func(token string) *Admin {
			return handler(newFleet(), func(c *Config) { c.Streams, c.Token = streams, token })
		}
		a := with("")
		var ends []<-chan struct{}
		for range mostStreams {
			_, done := open(a, t.Context())
			ends = append(ends, done)
		}
		synctest.Wait()
		if w := call(a, "GET", "/admin/stream", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" ||
			errorCode(t, w) != "too_many_streams" {
			t.Errorf("one too many: %d %s", w.Code, w.Body)
		}
		now := with("") // another handler takes its place
		for _, done := range ends {
			<-done
		}
		_, late := open(a, t.Context()) // a call that the one before still had
		<-late
		got, done := open(now, t.Context())
		synctest.Wait()
		got.mu.Lock()
		got.broken = true // a reader that is gone frees its place
		got.mu.Unlock()
		<-done
		if streams.open != 0 {
			t.Errorf("%d are counted, want none", streams.open)
		}
		if w := call(with("t0ken"), "GET", "/admin/stream", ""); w.Code != 401 {
			t.Errorf("without its token: %d", w.Code)
		}
	})
}

// TestStreamHasNoSecrets: what a page gets holds no more than what GET /admin/endpoints answers.
func TestStreamHasNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, done := open(handler(newFleet(), nil), ctx)
		synctest.Wait()
		cancel()
		<-done
		if s := strings.Join(got.pieces, ""); strings.Contains(s, "secret") || strings.Contains(s, "hidden") ||
			!strings.Contains(s, "user:xxxxx@") {
			t.Errorf("the stream: %s", s)
		}
	})
}
