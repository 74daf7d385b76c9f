package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// lists asks a router for its models with a key.
func (r *rig) lists(ctx context.Context, key string) string {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/models", http.NoBody)
	req.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	r.proxy.ServeHTTP(w, req)
	return w.Body.String()
}

// tally counts by name, from any goroutine.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[name]++
}

func (c *tally) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

// TestModelsForEachKey: an engine that is up and shows its models to keys only is asked once for each key. Who has
// another key does not wait for it, who leaves waits no longer, and one key too many costs one list.
func TestModelsForEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked tally
		held := make(chan struct{})
		r := newRouter(t, proxy.Config{}, wire(func(q *http.Request) (*http.Response, error) {
			key := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer ")
			if asked.add(key); key == "slow" {
				<-held
			}
			return says(`{"data":[{"id":"for-` + key + `"}]}`)
		}), route.Config{Policy: func() pick.Policy { return inOrder{} }}, []fleet.Endpoint{
			{Name: "e0", URL: "http://e0", Weight: 1},
		},
			func(fleet.Kind) fleet.Report { return fleet.Report{Kind: fleet.KindVLLM} })
		lists := make(chan string, 2)
		for range 2 {
			go func() { lists <- r.lists(t.Context(), "slow") }()
		}
		synctest.Wait()
		began := time.Now()
		gone, leave := context.WithCancel(t.Context())
		leave()
		r.lists(gone, "slow")
		if got := r.lists(t.Context(), "quick"); !strings.Contains(got, `"for-quick"`) || time.Since(began) > 0 {
			t.Errorf("beside another key's: %s after %v", got, time.Since(began))
		}
		close(held)
		for range 2 {
			if got := <-lists; !strings.Contains(got, `"for-slow"`) || asked.of("slow") != 1 {
				t.Errorf("%s, asked %d times", got, asked.of("slow"))
			}
		}
		for i := range 257 {
			time.Sleep(time.Millisecond)
			r.lists(t.Context(), fmt.Sprint(i))
		}
		for i := 2; i < 257; i++ { // one place is the list's that has no key
			if r.lists(t.Context(), fmt.Sprint(i)); asked.of(fmt.Sprint(i)) != 1 {
				t.Fatalf("key %d: asked %d times", i, asked.of(fmt.Sprint(i)))
			}
		}
		if r.lists(t.Context(), "0"); asked.of("0") != 2 {
			t.Errorf("the oldest list is kept beyond the bound")
		}
	})
}

// TestKeysShareModels: where no engine that is up wants a key all clients share one list, whatever is down or was never
// reached.
func TestKeysShareModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := newFleet(t, proxy.Config{},
			wire(func(*http.Request) (*http.Response, error) { asked++; return says(`{"data":[{"id":"m"}]}`) }),
			[]fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}})
		r.fleet.Observe(route.Declared{Source: "more", Endpoints: []fleet.Endpoint{
			{Name: "down", URL: "http://down", Weight: 1}, {Name: "new", URL: "http://e0", Weight: 1},
		}})
		r.fleet.Observe(route.Probed{Endpoint: "down", Report: fleet.Report{}})
		for _, key := range []string{"a", "b"} {
			if got := r.lists(t.Context(), key); !strings.Contains(got, `"m"`) || asked != 1 {
				t.Errorf("%s: %s, asked %d times", key, got, asked)
			}
		}
	})
}

// TestKeysCostOtherEnginesNothing: beside an engine that shows its models to keys only, a key never seen before costs
// the others no request.
func TestKeysCostOtherEnginesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked tally
		long := `{"data":[{"id":"mine"}` + strings.Repeat(`,{"id":"mine"}`, 3) + `]}`
		r := newRouter(t, proxy.Config{}, wire(func(q *http.Request) (*http.Response, error) {
			asked.add(q.URL.Host)
			switch key := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "); {
			case q.URL.Host == "e0":
				return says(`{"data":[{"id":"m","x_kept":1}]}`)
			case key == "":
				return says(`{"data":[]}`)
			default:
				return says(strings.ReplaceAll(long, "mine", "for-"+key))
			}
		}), route.Config{Policy: func() pick.Policy { return inOrder{} }}, []fleet.Endpoint{
			{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
		},
			func(fleet.Kind) fleet.Report { return fleet.Report{Kind: fleet.KindVLLM} })
		r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}},
		}})
		const keys = 50
		for i := range keys {
			key := fmt.Sprint(i)
			got := r.lists(t.Context(), key)
			if !strings.Contains(got, `"x_kept"`) || strings.Count(got, `"for-`+key+`"`) != 1 {
				t.Fatalf("key %s: %.300s", key, got)
			}
		}
		if e0, e1 := asked.of("e0"), asked.of("e1"); e0 != 1 || e1 != keys+1 {
			t.Errorf("asked %d and %d times for %d keys", e0, e1, keys)
		}
	})
}

// TestListsForKeysWaitOnce: engines that do not answer delay a list for a key no longer than one without.
func TestListsForKeysWaitOnce(t *testing.T) {
	for _, key := range []string{"", "Bearer k"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRouter(t, proxy.Config{}, wire(func(q *http.Request) (*http.Response, error) {
				<-q.Context().Done()
				return nil, q.Context().Err()
			}), route.Config{Policy: func() pick.Policy { return inOrder{} }},
				[]fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}},
				func(fleet.Kind) fleet.Report { return fleet.Report{} })
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", http.NoBody)
			req.Header.Set("Authorization", key)
			w, began := httptest.NewRecorder(), time.Now()
			r.proxy.ServeHTTP(w, req)
			if took := time.Since(began); w.Code != 200 || took != 2*time.Second {
				t.Errorf("%q got %d after %v, want 200 after 2s", key, w.Code, took)
			}
		})
	}
}
