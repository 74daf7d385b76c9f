package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

// TestRanksOfOneEngine: with rank.first_turn and an engine that is declared by its ranks, first turns go round the
// ranks and later ones home; the engine is told the rank as its kind wants it, and the decision says which turn was the
// first.
func TestRanksOfOneEngine(t *testing.T) {
	for kind, rankOf := range map[string]func(h http.Header, body map[string]json.RawMessage) string{
		"sglang": func(_ http.Header, body map[string]json.RawMessage) string { return string(body["routed_dp_rank"]) },
		"vllm":   func(h http.Header, _ map[string]json.RawMessage) string { return h.Get("X-Data-Parallel-Rank") },
	} {
		t.Run(kind, func(t *testing.T) {
			var mu sync.Mutex
			var ranks []string
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
					var body map[string]json.RawMessage
					raw, _ := io.ReadAll(r.Body)
					_ = json.Unmarshal(raw, &body)
					mu.Lock()
					ranks = append(ranks, rankOf(r.Header, body))
					mu.Unlock()
					fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":1}}`)
				case strings.HasSuffix(r.URL.Path, "/models"):
					fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
				default:
					fmt.Fprint(w, `{}`)
				}
			}))
			t.Cleanup(engine.Close)
			r := newRig(t, 0, func(c *config.Config) {
				c.Policy.Name = "rank.first_turn"
				c.Endpoints = []discovery.EndpointConfig{{URL: engine.URL, Name: "dp", Kind: kind, Ranks: 4}}
			})
			shared := strings.Repeat("All agents begin with these words. ", 100)
			for turn := range 2 {
				for c := range 4 {
					say := fmt.Sprintf(`%s I am number %d. %s`, shared, c, strings.Repeat("Go on. ", 20*turn))
					body := fmt.Sprintf(
						`{"model":"m","routed_dp_rank":9,"messages":[{"role":"user","content":%q}]}`, say)
					req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/chat/completions",
						strings.NewReader(body))
					req.Header.Set("X-Session-ID", fmt.Sprint("agent", c))
					req.Header.Set("X-Data-Parallel-Rank", "9") // the router's counts
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					_ = res.Body.Close()
					if res.StatusCode != 200 {
						t.Fatalf("status %d", res.StatusCode)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if want := []string{"0", "1", "2", "3", "0", "1", "2", "3"}; !slices.Equal(ranks, want) {
				t.Errorf("requests went to ranks %v, want %v", ranks, want)
			}
			res, err := http.Get(r.adminURL + "/admin/decisions")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var told struct {
				Decisions []struct {
					Number  uint64
					IsFirst bool `json:"is_first_turn"`
					Reason  string
				}
			}
			if err := json.NewDecoder(res.Body).Decode(&told); err != nil || len(told.Decisions) != 8 {
				t.Fatalf("%d decisions, %v", len(told.Decisions), err)
			}
			for _, d := range told.Decisions {
				if first := d.Number <= 4; d.IsFirst != first || (d.Reason == "round_robin") != first {
					t.Errorf("decision %d: first turn %v, reason %s", d.Number, d.IsFirst, d.Reason)
				}
			}
		})
	}
}
