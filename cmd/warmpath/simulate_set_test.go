package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/sim/figures"
)

// simulatedFigures runs simulate and returns the figures and what was said beside them.
func simulatedFigures(t *testing.T, args ...string) ([]figures.Figures, string) {
	t.Helper()
	var out, log bytes.Buffer
	if code := Main(t.Context(), append([]string{"simulate", "--json", "-"}, args...), nil,
		strings.NewReader(""), &out, &log); code != exitOK {
		t.Fatalf("%v: exit code %d, %s", args, code, log.String())
	}
	var all []figures.Figures
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	return all, log.String()
}

// ranks is the traffic of TensorRT-LLM's pull requests 14744 and 13198 in short: ranks behind a system prompt, first
// turns ten times as long as later ones.
func ranks(system string) []string {
	return []string{
		"--generate",
		"conversations=300,rate=5,turns=12,max_turns=24,user=300,first=10,answer=100,think=200ms,kept=true,system=" +
			system, "--endpoints", "8", "--cache-tokens", "1000000",
	}
}

// TestSimulateOptions makes the tables of pull requests 14744 and 13198 in kind: first turns in round robin spread
// requests where gate and cap do not, behind a long system prompt; gate and cap do behind a short one.
func TestSimulateOptions(t *testing.T) {
	const without = "rank.kv_cache_aware.kv_cache_routing_match_rate_threshold=0,0.1"
	all, said := simulatedFigures(t, append(ranks("2000"),
		"--policy", "rank.kv_cache_aware,rank.first_turn", "--set", without,
		"--set", "rank.kv_cache_aware.kv_cache_routing_fair_share_multiplier=1000000,2")...)
	if len(all) != 5 {
		t.Fatalf("%d columns, want 2 x 2 of the one policy and one of the other", len(all))
	}
	if all[3].Options["rank.kv_cache_routing_match_rate_threshold"] != "0.1" ||
		all[3].Options["rank.kv_cache_routing_fair_share_multiplier"] != "2" || all[4].Options != nil {
		t.Errorf("options %v and %v", all[3].Options, all[4].Options)
	}
	if !strings.Contains(said, "In brackets after a policy's name: rank.kv_cache_aware.") {
		t.Errorf("the brackets are not explained: %s", said)
	}
	for _, f := range all[:4] {
		if f.RequestsCV < 0.3 || f.LeastMean > 0.5 || f.IDs {
			t.Errorf("%v: CV of requests %v, least / mean %v, ids %v", f.Options, f.RequestsCV, f.LeastMean, f.IDs)
		}
	}
	if f := all[4]; f.RequestsCV > 0.15 || f.LeastMean < 0.8 || !f.IDs || f.HomeShare < 0.96 {
		t.Errorf("rank.first_turn: CV of requests %v, least / mean %v, ids %v, home %v",
			f.RequestsCV, f.LeastMean, f.IDs, f.HomeShare)
	}
	all, _ = simulatedFigures(t, append(ranks("200"), "--policy", "rank.kv_cache_aware",
		"--set", "rank.kv_cache_routing_match_rate_threshold=0,0.1")...)
	if open, gated := all[0], all[1]; open.RequestsCV < 2*gated.RequestsCV {
		t.Errorf("CV of requests %v without the gate, %v with it", open.RequestsCV, gated.RequestsCV)
	}
}

// TestSimulateIDs: policies that need ids get them, and are said to be blind where flags take them away.
func TestSimulateIDs(t *testing.T) {
	traffic := []string{"--generate", "conversations=20", "--policy", "rank.first_turn,rank.conversation,least_ttft"}
	all, said := simulatedFigures(t, traffic...)
	if !all[0].IDs || !all[1].IDs || all[2].IDs || strings.Contains(said, "Warning") {
		t.Errorf("ids %v %v %v; %s", all[0].IDs, all[1].IDs, all[2].IDs, said)
	}
	if _, said = simulatedFigures(t, append(traffic, "--ids=false")...); !strings.Contains(said,
		"Warning: rank.first_turn, rank.conversation cannot tell first turns") {
		t.Errorf("no warning: %s", said)
	}
}

// TestSimulateThresholds: each threshold is a column.
func TestSimulateThresholds(t *testing.T) {
	all, _ := simulatedFigures(t, "--generate", "conversations=30,long=0.3", "--prefill", "1", "--decode", "1",
		"--policy", "least_ttft", "--disagg-when", "tokens,never", "--disagg-threshold", "1000,100000")
	if len(all) != 3 || all[0].Split.Threshold != 1000 || all[1].Split.Threshold != 100_000 ||
		all[2].Split.When != "never" || all[0].Split.Share <= all[1].Split.Share {
		t.Fatalf("%d columns: %+v", len(all), all)
	}
}

// TestSimulateSetFaults: what a --set does not change is an error that says what to write.
func TestSimulateSetFaults(t *testing.T) {
	for _, row := range []struct{ set, want string }{
		{"rank.kv_cache_routing_match_rate_threshold", "want POLICY.OPTION=VALUE"},
		{"rank.max_num_active_requests=1,", "want POLICY.OPTION=VALUE"},
		{"rank.kv_cache_routing_match_rate_treshold=0", `did you mean "rank.kv_cache_routing_match_rate_threshold"?`},
		{"dualmap.slo_ms=5", "no policy of --policy (rank.first_turn,least_ttft) reads it"},
		{"rank.kv_cache_routing_match_rate_threshold=2", "kv_cache_routing_match_rate_threshold"},
		{"rank.kv_cache_routing_match_rate_threshold=x", "want"},
		{"least_ttft.stay_ms=0", "0 stands for the default here"},
	} {
		var out, log bytes.Buffer
		args := []string{
			"simulate", "--generate", "conversations=5", "--policy", "rank.first_turn,least_ttft", "--set", row.set,
		}
		if code := Main(t.Context(), args, nil, strings.NewReader(""), &out, &log); code != exitUsage ||
			!strings.Contains(strings.ReplaceAll(log.String(), ", ", ","), strings.ReplaceAll(row.want, ", ", ",")) {
			t.Errorf("%s: exit code %d, %s; want %s", row.set, code, log.String(), row.want)
		}
	}
}

// TestSimulateFits: a recording is played on engines as fast as its own, as many as flags say; flags that describe
// engines end that.
func TestSimulateFits(t *testing.T) {
	recording := recordedTraffic(t)
	for _, row := range []struct {
		args      []string
		endpoints int
		said      string
	}{
		{nil, 2, "as fast as those of the recording"},
		{[]string{"--endpoints", "5"}, 5, "as fast as those of the recording"},
		{[]string{"--engine", "reference"}, 8, ""},
		{[]string{"--half", "1"}, 2, "as fast as those of the recording"},
	} {
		all, said := simulatedFigures(t, append([]string{"--trace", recording, "--policy", "session"}, row.args...)...)
		if all[0].Endpoints != row.endpoints || row.said == "" && strings.Contains(said, "recording (see") ||
			!strings.Contains(said, row.said) {
			t.Errorf("%v: %d endpoints, said %s", row.args, all[0].Endpoints, said)
		}
	}
}

// recordedTraffic is a recording of forty streamed turns on two engines.
func recordedTraffic(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`{"warmpath_recording":1,"began":"2026-01-02T03:04:05Z","salt":"s","block_bytes":128}` + "\n")
	for i := range 40 {
		line := map[string]any{
			"n": i + 1, "at_ms": 500 * i, "sent_ms": 0, "took_ms": 60, "ttft_ms": 20 + i%7, "class": "turn",
			"stream":   true,
			"endpoint": []string{"e1", "e2"}[i%2], "outcome": "ok", "tokens": 200 + 10*(i%7), "output": 10,
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	name := filepath.Join(t.TempDir(), "traffic.jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
