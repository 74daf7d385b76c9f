package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/freeport"
	simtext "github.com/warmpath/warmpath/sim/text"
)

// askText sends a chat of so many characters and says where it went: the decoder, and the prefiller or "".
func (r *rig) askText(t *testing.T, characters int) (decoder, prefiller, reason string) {
	t.Helper()
	text := simtext.Of(uint64(characters), characters/4+1)[:characters]
	body := `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"` + text + `"}]}`
	req, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Warmpath-Explain", "1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, b)
	}
	return res.Header.Get("X-Warmpath-Endpoint"), res.Header.Get("X-Warmpath-Prefill"),
		res.Header.Get("X-Warmpath-Reason")
}

// TestStackConditional: a prompt of the threshold in characters / 4 goes over a prefiller, a shorter one straight to a
// decoder, in turns.
func TestStackConditional(t *testing.T) {
	for _, strategy := range []string{"round_robin", "least_loaded"} {
		var fleet []discovery.EndpointConfig
		for i := range 4 {
			role := []string{"prefill", "decode"}[i/2]
			fleet = append(fleet, discovery.EndpointConfig{
				Name: fmt.Sprintf("%c%d", role[0], i%2), Role: role, URL: engineAt(t, "--connector", "nixl",
					"--model", "m", "--speed", "20"),
			})
		}
		r := newRig(t, 0, func(cfg *config.Config) {
			cfg.Endpoints = fleet
			cfg.Disaggregation.Preset, cfg.Disaggregation.RoutingThreshold,
				cfg.Disaggregation.LoadBalancingStrategy = config.StackConditional, 100, strategy
		})
		seen := map[string]int{}
		for i := range 12 {
			characters := 399 + i%3/2 // 99 tokens, and 100; the role's name counts nothing
			d, p, reason := r.askText(t, characters)
			if (p != "") != (i%3 == 2) || d[0] != 'd' {
				t.Errorf("%s: %d characters went to %q and %q", strategy, characters, p, d)
			}
			if strategy == "round_robin" && reason != "round_robin" {
				t.Errorf("%s: %q", strategy, reason)
			}
			seen[p+d]++
		}
		if strategy == "round_robin" && len(seen) < 4 {
			t.Errorf("in turns: %v", seen)
		}
	}
}

// TestServeLMCache: the whole of it as the command line starts it, with two ranks, a registry that is changed, and
// notifications.
func TestServeLMCache(t *testing.T) {
	t.Parallel()
	notify := freeport.Address()
	p := engineAt(t, "--connector", "lmcache", "--model", "m", "--speed", "20", "--kv-ranks", "2",
		"--kv-notify", notify)
	ports := freeport.Row(4)
	d := engineAt(t, "--connector", "lmcache", "--model", "m", "--speed", "20", "--kv-ranks", "2",
		"--kv-port", fmt.Sprint(ports))
	registry := filepath.Join(t.TempDir(), "decoders.json")
	write := func(first int) {
		t.Helper()
		text := fmt.Sprintf(`{%q: {"host": "127.0.0.1", "init_port": [%d, %d], "alloc_port": [%d, %d]}}`,
			d, first, first+1, first+2, first+3)
		if err := os.WriteFile(registry, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ports)
	r := newRig(t, 0, func(cfg *config.Config) {
		cfg.Endpoints = []discovery.EndpointConfig{
			{Name: "p", URL: p, Role: "prefill"}, {Name: "d", URL: d, Role: "decode"},
		}
		g := &cfg.Disaggregation
		g.Preset, g.DisaggConnectorType, g.DecoderRegistry, g.DecoderRanks, g.NotifyListen = config.StackConditional,
			"lmcache", registry, 2, notify
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := cfg.CheckFiles(discovery.None()); err != nil {
			t.Fatal(err)
		}
	})
	if decoder, prefiller, _ := r.askText(t, 1000); decoder != "d" || prefiller != "p" {
		t.Errorf("it went to %q and %q", prefiller, decoder)
	}
	_, page := fetched(t, http.MethodGet, r.adminURL+"/metrics", "")
	if !strings.Contains(page, `warmpath_lmcache_notifications_total{result="taken"} 2`) ||
		!strings.Contains(page, `warmpath_lmcache_notifications_total{result="missing"} 0`) {
		t.Errorf("the metrics do not tell of two notifications")
	}
	write(1) // nobody receives there
	for range aWhile / (20 * time.Millisecond) {
		if _, prefiller, _ := r.askText(t, 1000); prefiller == "" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, prefiller, _ := r.askText(t, 1000); prefiller != "" {
		t.Error("the registry is not followed")
	}
	var stats struct {
		KV struct{ Refused, Loaded int }
	}
	_, said := fetched(t, http.MethodGet, d+"/_sim/stats", "")
	if err := json.Unmarshal([]byte(said), &stats); err != nil || stats.KV.Refused != 0 || stats.KV.Loaded == 0 {
		t.Errorf("the decoder says %s", said)
	}
}
