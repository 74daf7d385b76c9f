package lease

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/external"
)

// door is one that sends each request to the same endpoint, and remembers how the exchanges ended.
type door struct{ ends chan error }

func (d door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	res, err := external.Of(r.Context()).Carry(httptest.NewRequestWithContext(r.Context(), r.Method, "http://e"+r.URL.Path, nil), fleet.Endpoint{Name: "e"})
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	d.ends <- err
}

// TestExpires: a lease that nobody speaks of ends after its time, counted from what was said last, and once.
func TestExpires(t *testing.T) {
	for _, tt := range []struct {
		name    string
		begins  time.Duration // when the first byte is told; 0 for never
		expires time.Duration // when it is over
	}{{"nobody speaks", 0, time.Minute}, {"it has begun", 50 * time.Second, 110 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := door{make(chan error, 1)}
				s := New(Config{Door: d, Memory: body.NewBudget(1 << 20), Expires: time.Minute, Most: 1, Log: slog.New(slog.DiscardHandler)})
				began := time.Now()
				post := func(path string) int {
					w := httptest.NewRecorder()
					s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader("")))
					return w.Code
				}
				if code := post("/v1/route"); code != http.StatusOK || s.Open() != 1 {
					t.Fatal(code, s.Open())
				}
				id := ""
				s.mu.Lock()
				for id = range s.open { //nolint:revive // the only one
				}
				s.mu.Unlock()
				if tt.begins > 0 {
					time.Sleep(tt.begins)
					if code := post("/v1/route/" + id + "/first_byte"); code != http.StatusNoContent {
						t.Fatal(code)
					}
				}
				err := <-d.ends
				synctest.Wait()
				if took := time.Since(began); err == nil || took != tt.expires || s.Open() != 0 || s.Expired() != 1 || len(s.open) != 0 {
					t.Errorf("%v after %v, %d open, %d expired, %d known; want an error after %v", err, took, s.Open(), s.Expired(), len(s.open), tt.expires)
				}
				if code := post("/v1/route/" + id + "/finish"); code != http.StatusNotFound {
					t.Errorf("its end afterwards got %d", code)
				}
				if code := post("/v1/route"); code != http.StatusOK {
					t.Errorf("the next one got %d", code)
				}
				s.Close()
				if s.Open() != 0 || s.Expired() != 1 {
					t.Errorf("%d open, %d expired at the end", s.Open(), s.Expired())
				}
			})
		})
	}
}

// FuzzHashes: prompts given by hashes are refused or within their bounds, and equal beginnings have equal blocks.
func FuzzHashes(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","prompt_hashes":[1,2],"prompt_tokens":1000}`, `{"prompt_hashes":[18446744073709551615],"prompt_tokens":9,"block_tokens":16,"max_tokens":3,"stream":true}`,
		`{"prompt_hashes":[],"prompt_tokens":0}`, `{"prompt_hashes":[-1],"prompt_tokens":1}`, `{"prompt_tokens":4194304,"block_tokens":1,"prompt_hashes":[1,2,3]}`, `[]`, `{} {}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := readHashes(bytes.NewReader(raw))
		if err != nil {
			return
		}
		n := len(h.content.Blocks)
		if n > mostHashBlocks || n*fleet.BlockBytes > h.content.Bytes || n*fleet.BlockBytes > len(h.Hashes)*h.Block*tokenBytes {
			t.Fatalf("%d blocks of %d bytes, %d hashes", n, h.content.Bytes, len(h.Hashes))
		}
		if len(h.Hashes) > 1 {
			shorter := *h
			shorter.Hashes = h.Hashes[:len(h.Hashes)-1]
			shorter.divide()
			for i, b := range shorter.content.Blocks {
				if b != h.content.Blocks[i] {
					t.Fatalf("block %d differs", i)
				}
			}
		}
	})
}

// FuzzReport: what is said of a lease never ends it with figures out of bounds.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"status":200,"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":5}}}`))
	f.Add([]byte(`{"failed":"broken","retry_after":1e9}`))
	f.Add([]byte(`{"usage":{"prompt_tokens":-1}}`))
	s := New(Config{Memory: body.NewBudget(1 << 20), Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/route/x/finish", bytes.NewReader(raw)))
		if w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
