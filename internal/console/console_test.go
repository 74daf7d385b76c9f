package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// fleetOf reads what an admin listener answers.
func fleetOf(t *testing.T, text string) *Fleet {
	t.Helper()
	var f Fleet
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	return &f
}

const answer = `{"endpoints":[
	{"name":"gpu-1","kind":"vllm","state":"up","load":{"requests":3,"queued_requests":1,"prefill_tokens":120000,"decode_tokens":300},
	 "engine":{"kv_usage":0.42},"served":{"requests":90,"failed":1,"work_share":0.5,"hit_rate":0.875,"ttft_p50_seconds":0.051}},
	{"name":"an-endpoint-with-a-name-that-is-far-too-long","kind":"vllm","state":"ejected","detail":"3 requests in a row failed (engine_error), and this is a long line","load":{}},
	{"name":"gpu-3","state":"up","role":"prefill","draining":true,"load":{"requests":1}}],
	"stats":{"ready":true,"version":"1.2.3","uptime_seconds":61.2,"leases":4,"sessions":17,"served":{"requests":90,"failed":1,"hit_rate":0.875,"ttft_p90_seconds":12.5}}}`

func TestTable(t *testing.T) {
	text := Table(fleetOf(t, answer).Endpoints) + Legend()
	for _, want := range []string{"120k", "42%", "88%", "51 ms", "ejected", "draining", "3 requests in a row failed", "an-endpo…-too-long"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestScreen(t *testing.T) {
	before, now := fleetOf(t, answer), fleetOf(t, answer)
	before.Stats.Served.Requests = 70
	text := Screen(now, before, 2*time.Second, 2)
	for _, want := range []string{"warmpath 1.2.3, up 1m1s, ready", "4 open, 10.0 requests/s, 90 served", "p90 12.5 s", "ejected", "and 1 more, less busy"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "gpu-3") {
		t.Errorf("the least busy one is shown in\n%s", text)
	}
	now.Stats.Ready, now.Stats.Why = false, "no endpoint is up"
	if text := Screen(now, nil, 0, 0); !strings.Contains(text, "NOT READY: no endpoint is up") || !strings.Contains(text, "- requests/s") || !strings.Contains(text, "gpu-3") {
		t.Errorf("got\n%s", text)
	}
}
