package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/sim/figures"
)

// TestIntervals checks the statistics against tables and by hand.
func TestIntervals(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-3*math.Max(1, math.Abs(want)) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for _, tt := range []struct {
		freedom int
		want    float64
	}{{1, 12.706}, {2, 4.303}, {4, 2.776}, {30, 2.042}, {40, 2.021}, {60, 2.000}, {120, 1.980}} {
		near(fmt.Sprintf("student(%d)", tt.freedom), student(tt.freedom), tt.want)
	}
	i := intervalOf([]float64{1, 2, 3}) // deviation 1
	near("mean", i.mean, 2)
	near("high", i.high, 2+4.303/math.Sqrt(3))
	near("low", i.low, 2-4.303/math.Sqrt(3))
	if i := intervalOf([]float64{7}); i != (interval{7, 7, 7}) {
		t.Errorf("one seed: %v", i)
	}
	r := ratioOf([]float64{10, 200, 0.5}, []float64{5, 100, 0.25}) // seeds differ wildly, and alike
	near("ratio", r.mean, 2)
	near("its bounds", r.high-r.low, 0)
	r = ratioOf([]float64{1, 4}, []float64{1, 1})
	near("geometric mean", r.mean, 2)
	near("bound", math.Log(r.high/2), 12.706*math.Log(2)) // logarithms 0 and 2 ln 2: their deviation over the root of two is ln 2
	if r := ratioOf([]float64{1, 1}, []float64{0, 1}); !math.IsNaN(r.mean) {
		t.Errorf("a ratio to nothing: %v", r)
	}
}

// cellOf is a cell with the p90s, in s, of policies under two seeds, and their hit rates.
func cellOf(rows map[string][3]float64, firsts int, cv float64) *grid {
	g := &grid{cells: []cell{{"t", 2, fleetEven, 0.7}}}
	for _, name := range []string{"least_ttft", "session", "lmetric", "oracle"} {
		row, ok := rows[name]
		for seed := range 2 {
			if !ok {
				continue
			}
			g.runs = append(g.runs, &gridRun{conditions: conditions{cell: g.cells[0], Policy: name, Seed: uint64(seed + 1)}, result: &kept{Figures: figures.Figures{
				Policy: name, Endpoints: 2, TTFT: figures.Spread{P90: row[seed]}, HitRate: row[2], FirstTurnCV: cv * float64(seed+1),
				PerEndpoint: []figures.EndpointFigure{{FirstTurns: firsts}, {FirstTurns: firsts}},
			}}})
		}
	}
	return g
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rows   map[string][3]float64
		firsts int
		cv     float64

		verdict  verdict
		best     string
		hitOK    bool
		hitFair  bool
		equals   int
		spreadOn bool
	}{
		{"best, though the oracle is better", map[string][3]float64{"least_ttft": {10, 12, .5}, "session": {20, 24, .5}, "oracle": {1, 1, .9}}, 100, .04, verdictBest, "session", true, true, 0, true},
		{"within", map[string][3]float64{"least_ttft": {10.3, 10.3, .5}, "session": {20, 24, .5}, "lmetric": {10, 10, .5}}, 99, .04, verdictWithin, "lmetric", false, true, 0, false},
		{"the interval reaches the margin", map[string][3]float64{"least_ttft": {10, 12, .5}, "lmetric": {10, 10, .5}}, 100, .04, verdictOpen, "lmetric", true, true, 0, true},
		{"behind", map[string][3]float64{"least_ttft": {11, 11.01, .5}, "lmetric": {10, 10, .5}}, 100, .04, verdictBehind, "lmetric", false, true, 0, true},
		{"a simple one is as good", map[string][3]float64{"least_ttft": {10, 12, .5}, "session": {10.1, 12.1, .5}}, 100, .04, verdictBest, "session", true, true, 1, true},
		{"fewer hits", map[string][3]float64{"least_ttft": {10, 12, .5}, "lmetric": {20, 22, .515}}, 100, .04, verdictBest, "lmetric", false, true, 0, true},
		{"alone", map[string][3]float64{"least_ttft": {10, 12, .5}}, 100, .04, "", "", false, false, 0, false},
		{"without ours", map[string][3]float64{"session": {10, 12, .5}}, 100, .04, "", "session", false, false, 0, false},
		{"fewer hits and later", map[string][3]float64{"least_ttft": {10, 12, .5}, "lmetric": {9.9, 11.9, .515}}, 100, .04, verdictWithin, "lmetric", false, false, 0, true},
	} {
		j := cellOf(tt.rows, tt.firsts, tt.cv).judge()[0]
		best := ""
		if j.best != nil {
			best = j.best.policy
		}
		if j.verdict != tt.verdict || best != tt.best || j.hitOK != tt.hitOK || j.hitFair != tt.hitFair || len(j.equals) != tt.equals || j.spreadOn != tt.spreadOn {
			t.Errorf("%s: got %q, best %q, hits %v, equals %v, spread %v", tt.name, j.verdict, best, j.hitOK, j.equals, j.spreadOn)
		}
		if j.verdict != "" && math.Abs(j.spread-2*tt.cv) > 1e-9 {
			t.Errorf("%s: first-turn CV %v, want that of the worst seed, %v", tt.name, j.spread, 2*tt.cv)
		}
	}
}

func TestCellsOf(t *testing.T) {
	for _, tt := range []struct {
		only []string
		want int
		err  string
	}{
		{nil, 54, ""},
		{[]string{"trace=coding_agent"}, 18, ""},
		{[]string{"trace=coding_agent", "trace=mooncake_synthetic", "endpoints=8", "load=0.7", "fleet=even"}, 2, ""},
		{[]string{"endpoints"}, 0, "want kind=value"},
		{[]string{"endpoint=8"}, 0, `no kind "endpoint"; did you mean "endpoints"?`},
		{[]string{"load=0.5"}, 0, "want 0.4, 0.7, 0.9"},
	} {
		got, err := cellsOf(tt.only)
		if len(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: %d cells, %v", tt.only, len(got), err)
		}
	}
}

// smallTraces is a folder with the three traces of the grid, made small.
func smallTraces(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var mooncake, agents strings.Builder
	for i := range 60 {
		fmt.Fprintf(&mooncake, `{"timestamp": %d, "input_length": 1500, "output_length": 10, "hash_ids": [%d, %d, %d]}`+"\n", 100*i, i%7, 100+i%7, 1000+i)
	}
	for s := range 12 {
		for turn := range 4 {
			shared := max(0, 2048*turn)
			fmt.Fprintf(&agents, `{"session_id":"s%d","timestamp":%d,"delay":1000,"input_length":%d,"output_length":9,"shared_length":%d}`+"\n", s, 5000*turn, 2048*(turn+1), shared)
		}
	}
	for name, text := range map[string]string{"mooncake_conversation": mooncake.String(), "mooncake_synthetic": mooncake.String(), "coding_agent": agents.String()} {
		if err := os.WriteFile(filepath.Join(dir, name+".jsonl"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestResults writes a page, finds its runs again, and measures anew what another build has measured.
func TestResults(t *testing.T) {
	traces, store, docs := smallTraces(t), t.TempDir(), t.TempDir()
	page := filepath.Join(docs, "results.md")
	run := func(more ...string) string {
		t.Helper()
		var out, log bytes.Buffer
		args := append([]string{
			"simulate", "results", "--traces", traces, "--store", store, "--out", page, "--half", "0", "--seeds", "2",
			"--only", "endpoints=4,load=0.7,trace=coding_agent,trace=mooncake_synthetic", "--policy", "least_ttft,session,oracle",
		}, more...)
		if code := Main(t.Context(), args, nil, strings.NewReader(""), &out, &log); code != exitOK {
			t.Fatalf("exit code %d, %s", code, log.String())
		}
		return out.String()
	}
	wantStart := func(out, want string) {
		t.Helper()
		if !strings.HasPrefix(out, want) {
			t.Errorf("got %q, want %q", out[:min(len(out), 80)], want)
		}
	}
	wantStart(run("--tag", "a"), "4 cells, 24 runs, 0 of them done before; about ")
	first := read(t, page)
	for _, want := range []string{
		"# Results\n", "in 4 cells: all conversations of each trace, 3 policies each, with seeds 1 to 2.", "## coding_agent\n",
		"![coding_agent: hit rate by load](results/coding_agent-hits.svg)", "| 4 | mixed | 0.7 |", "## Where a simple policy is as good",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the page lacks %q:\n%s", want, first)
		}
	}
	for _, name := range []string{"coding_agent-hits", "coding_agent-ttft", "mooncake_synthetic-hits", "mooncake_synthetic-ttft"} {
		wellFormed(t, filepath.Join(docs, "results", name+".svg"))
	}

	wantStart(run("--tag", "a"), "4 cells, 24 runs, 24 of them done before; nothing to do\n")
	if read(t, page) != first {
		t.Error("the page differs though nothing was measured")
	}
	wantStart(run("--tag", "b", "--trust", "others"), "4 cells, 24 runs, 16 of them done before")
	wantStart(run("--tag", "a", "--trust", "session"), "4 cells, 24 runs, 16 of them done before") // b replaced the figures of ours
	if read(t, page) != first {
		t.Error("the page differs though the same was measured again")
	}
	wantStart(run("--tag", "c"), "4 cells, 24 runs, 0 of them done before")
	wantStart(run("--tag", "c", "--max-delay", "100ms"), "4 cells, 24 runs, 12 of them done before") // traces with a clock have no such delays
	spoil(t, store)
	out := run("--tag", "c", "--summary")
	wantStart(out, "4 cells, 24 runs, 23 of them done before")
	if !strings.Contains(out, "coding_agent 4 mixed 0.7") || !strings.Contains(out, " of 4 cells;") {
		t.Errorf("summary: %s", out)
	}
}

// TestResultsInterrupted: what was done is kept whole, no page is written.
func TestResultsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	traces, store, docs := smallTraces(t), t.TempDir(), t.TempDir()
	var log bytes.Buffer
	out := stopper{stop}
	args := []string{"simulate", "results", "--traces", traces, "--store", store, "--out", filepath.Join(docs, "results.md"), "--jobs", "1"}
	if code := Main(ctx, args, nil, strings.NewReader(""), &out, &log); code != exitRuntime || !strings.Contains(log.String(), "they are kept, and the same command goes on from there") {
		t.Errorf("exit code %d, %s", code, log.String())
	}
	if files, _ := os.ReadDir(docs); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
	_ = filepath.WalkDir(store, func(name string, d fs.DirEntry, _ error) error {
		if !d.IsDir() && !json.Valid([]byte(read(t, name))) {
			t.Errorf("%s is no JSON", name)
		}
		return nil
	})
}

// stopper stops when the first line is written.
type stopper struct{ stop func() }

func (s *stopper) Write(p []byte) (int, error) { s.stop(); return len(p), nil }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// spoil cuts one kept run short.
func spoil(t *testing.T, store string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(store, "mooncake_synthetic", "*", "session-1-*.json"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	if err := os.Truncate(names[0], 100); err != nil {
		t.Fatal(err)
	}
}

func wellFormed(t *testing.T, name string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(read(t, name)))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
