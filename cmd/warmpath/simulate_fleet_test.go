package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// TestFleetFile: what is given holds, 0 included; what is not given is that of the kind.
func TestFleetFile(t *testing.T) {
	f, err := readFleet("f", []byte(`
endpoints:
  - {engine: reference, step_per_seq: 0s, slots: 3}
  - {name: b, count: 2, slower: 2, start: 5s, failures: [{at: 9s, for: 1s}]}
`))
	if err != nil || len(f.Endpoints) != 3 {
		t.Fatalf("%+v, %v", f, err)
	}
	kind, _ := preset("reference")
	want := kind
	want.StepPerSeq, want.Slots = 0, 3
	if a := f.Endpoints[0]; a.Name != "e0" || a.Engine != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	if b := f.Endpoints[2]; b.Name != "b-1" || b.Engine != kind.Slower(2) || b.Start != 5*time.Second || len(b.Outages) != 1 {
		t.Errorf("%+v", b)
	}
}

// TestFleetFaults: an impossible fleet is refused, with the place of the engine at fault.
func TestFleetFaults(t *testing.T) {
	const good = "endpoints:\n  - name: a\n  - "
	for text, want := range map[string]string{
		"":                          `f: no engine is described`,
		"endpoints:\n  - start: 5s": `f:1:1: sim: no endpoint is there at the start`,
		good + "slots: 0":           `f:3:5: sim: endpoint "e1": sim: slots must be at least 1, got 0`,
		good + "prefill_rate: 0":    `f:3:5: sim: endpoint "e1": sim: prefill tokens per second must be above 0 and finite, got 0`,
		good + "cache_tokens: 0":    `f:3:5: sim: endpoint "e1": sim: cache tokens (0) must hold at least one block`,
		good + "{step_base: 0s, step_per_seq: 0s}": `f:3:5: sim: endpoint "e1": sim: a step must take time`,
		good + "count: 0":                          `f:3:5: count must be in 1..4096, got 0`,
		good + "slower: 0":                         `f:3:5: slower must be in 0.001..1000, got 0`,
		good + "start: -5s":                        `f:3:5: sim: endpoint "e1": it cannot start at -5s`,
		good + "failures: [{at: 9s, for: -1s}]":    `f:3:5: sim: endpoint "e1": a failure at 9s for -1s`,
		good + "name: a":                           `f:1:1: sim: endpoint "a": every endpoint needs a name of its own`,
		good + `name: "a\x1b"`:                     `f:3:5: sim: endpoint "a\x1b": a name is text in UTF-8 without control characters`,
		good + "slot: 3":                           `unknown key "slot"; did you mean "slots"?`,
		good + "engine: refrence":                  `f:3:5: no kind of engine "refrence"; did you mean "reference"?`,
	} {
		if _, err := readFleet("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestSimulateWrites: figures on standard output do not keep the other files from being written, and words go elsewhere.
func TestSimulateWrites(t *testing.T) {
	dir := t.TempDir()
	report, svg := filepath.Join(dir, "a.html"), filepath.Join(dir, "a.svg")
	var out, log bytes.Buffer
	args := []string{"simulate", "--generate", "conversations=20", "--policy", "session", "--json", "-", "--report", report, "--svg", svg}
	if code := Main(t.Context(), args, nil, strings.NewReader(""), &out, &log); code != exitOK || !strings.HasPrefix(out.String(), "[\n") {
		t.Fatalf("exit code %d, %s\n%s", code, log.String(), out.String())
	}
	for _, name := range []string{report, svg} {
		if text, err := os.ReadFile(name); err != nil || len(text) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

// TestTraceOfAnyName: what is written about a trace is text, whatever its file is called.
func TestTraceOfAnyName(t *testing.T) {
	dir := t.TempDir()
	trace, report, svg := filepath.Join(dir, "a\x1b[31m<b>\xff.jsonl"), filepath.Join(dir, "r.html"), filepath.Join(dir, "r.svg")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if code := Main(t.Context(), []string{"simulate", "--trace", trace, "--speed", "1", "--policy", "session", "--report", report, "--svg", svg}, nil, strings.NewReader(""), &out, &log); code != exitOK {
		t.Fatalf("exit code %d, %s", code, log.String())
	}
	for _, name := range []string{report, svg} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	if text := out.String(); !utf8.ValidString(text) || strings.Contains(text, "\x1b") || strings.Count(text, "[31m&lt;b&gt;") < 2 {
		t.Errorf("the name is written as it is, or not at all:\n%.300s", text)
	}
}

// TestSimulateUnknownCommand names the nearest.
func TestSimulateUnknownCommand(t *testing.T) {
	var out, log bytes.Buffer
	if code := Main(t.Context(), []string{"simulate", "result"}, nil, strings.NewReader(""), &out, &log); code != exitUsage || !strings.Contains(log.String(), `did you mean "results"?`) {
		t.Errorf("exit code %d, %s", code, log.String())
	}
}

// TestSimulateUnfit: requests that fit no engine are said to, and are an error when there are no others.
func TestSimulateUnfit(t *testing.T) {
	for tokens, want := range map[string]string{
		"64":    "warmpath: no request of generated fits the KV cache of an engine, prompt and answer together",
		"4000":  "requests fail: prompt and answer together fit no engine's KV cache",
		"90000": "",
	} {
		var out, log bytes.Buffer
		args := []string{"simulate", "--generate", "conversations=30", "--policy", "session", "--cache-tokens", tokens}
		code := Main(t.Context(), args, nil, strings.NewReader(""), &out, &log)
		if said := out.String() + log.String(); (code == exitUsage) != strings.HasPrefix(want, "warmpath") || !strings.Contains(said, want) || want == "" && strings.Contains(said, "fit no engine") {
			t.Errorf("%s tokens: exit code %d, %s", tokens, code, said)
		}
	}
}

// TestReportTellsApart: policies beyond the colours are drawn in another way, long names are cut, and what is to be known about the trace is said.
func TestReportTellsApart(t *testing.T) {
	for _, c := range [][2]string{{"e12", "e12"}, {"thirteen-long", "thirteen-long"}, {"http://host.example:8000", "http:/…e:8000"}} {
		if got := short(c[0], 13); got != c[1] {
			t.Errorf("short(%q) is %q, want %q", c[0], got, c[1])
		}
	}
	seen := map[string]bool{}
	for i := range 24 {
		border, strokes := dash(i)
		seen[colour(i)+border+strokes] = true
	}
	if len(seen) != 24 {
		t.Errorf("24 policies are drawn in %d ways", len(seen))
	}
	dir := t.TempDir()
	trace, report := filepath.Join(dir, "t.jsonl"), filepath.Join(dir, "r.html")
	const text = `{"warmpath_recording":1,"began":"2026-01-02T03:04:05Z","salt":"s","block_bytes":128}
{"n":1,"at_ms":1,"took_ms":2,"ttft_ms":1,"class":"turn","stream":true,"endpoint":"e","outcome":"ok","tokens":50,"output":5}
{"n":2,"at_ms":1,"took_ms":2,"class":"turn","outcome":"refused"}
`
	if err := os.WriteFile(trace, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if code := Main(t.Context(), []string{"simulate", "--trace", trace, "--policy", "session", "--report", report}, nil, strings.NewReader(""), &out, &log); code != exitOK {
		t.Fatalf("exit code %d, %s", code, log.String())
	}
	if page, err := os.ReadFile(report); err != nil || !strings.Contains(string(page), "Note: 1 recorded requests that nobody answered are left out.") {
		t.Errorf("%v: the page lacks the note on the trace:\n%s", err, page)
	}
}

// TestSimulateMeaningless: flags that would do nothing are refused.
func TestSimulateMeaningless(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--policy names session twice": {"--policy", "session,random,session"},
		"--max-delay: the requests of": {"--max-delay", "5s"},
		"--repeat: the requests of":    {"--repeat", "2"},
	} {
		var out, log bytes.Buffer
		if code := Main(t.Context(), append([]string{"simulate", "--trace", trace}, args...), nil, strings.NewReader(""), &out, &log); code != exitUsage || !strings.Contains(log.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, log.String())
		}
	}
}

// TestWorkWhereItIsDone: where requests are split, prefillers are shown to compute prompts and decoders answers, as much as the figures say.
func TestWorkWhereItIsDone(t *testing.T) {
	g := simtrace.DefaultGenerator()
	g.Conversations = 30
	choose, err := policy.New(policy.Config{Name: policy.Default})
	if err != nil {
		t.Fatal(err)
	}
	s := &simulation{replay: drive.Replay{
		Disaggregation: route.Disaggregation{When: route.WhenAlways}, Transfer: simrig.DefaultTransfer(), Trace: g.Trace(1),
		Fleet: simrig.Split(1, 2, engine.DefaultConfig()), Policy: choose, PolicyName: policy.Default, Content: true, Load: 0.5, Seed: 1, Routers: 1,
	}}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var prompts, answers float64
	for i := range s.outcome.Turns {
		p := &s.outcome.Turns[i]
		turn := &s.replay.Trace.Turns[p.Turn]
		if p.Failed || !p.Why.Splits() {
			t.Fatalf("a turn that was not split: %+v", p)
		}
		prompts, answers = prompts+float64(turn.Prompt-p.Cached), answers+float64(turn.Output)
	}
	work := make([]float64, len(s.replay.Fleet.Endpoints))
	for e, row := range workOverTime(s, s.outcome.Span+1) {
		for _, w := range row {
			work[e] += w
		}
	}
	if p, d := work[0], work[1]+work[2]; p != prompts || d != answers || prompts == answers {
		t.Errorf("the prefiller is shown with %.0f tokens and the decoders with %.0f, want %.0f and %.0f", p, d, prompts, answers)
	}
}
