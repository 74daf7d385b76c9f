package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallTraces is a folder with the three traces of the grid, made small.
func smallTraces(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var mooncake, agents strings.Builder
	for i := range 60 {
		fmt.Fprintf(&mooncake,
			`{"timestamp": %d, "input_length": 1500, "output_length": 10, "hash_ids": [%d, %d, %d]}`+"\n", 100*i,
			i%7, 100+i%7, 1000+i)
	}
	for s := range 12 {
		for turn := range 4 {
			shared := max(0, 2048*turn)
			fmt.Fprintf(&agents, `{"session_id":"s%d","timestamp":%d,"delay":1000,"input_length":%d,"output_length":9,"shared_length":%d}`+"\n", s, 5000*turn, 2048*(turn+1), shared)
		}
	}
	for name, text := range map[string]string{
		"mooncake_conversation": mooncake.String(), "mooncake_synthetic": mooncake.String(),
		"coding_agent": agents.String(),
	} {
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
	measure := func(more ...string) string {
		t.Helper()
		var out, log bytes.Buffer
		args := append([]string{
			"-traces", traces, "-store", store, "-out", page, "-half", "0", "-seeds", "2",
			"-only", "endpoints=4,load=0.7,trace=coding_agent,trace=mooncake_synthetic", "-policy",
			"least_ttft,session,oracle",
		}, more...)
		if code := run(t.Context(), args, &out, &log); code != 0 {
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
	wantStart(measure("-tag", "a"), "4 cells, 40 runs, 0 of them done before; about ")
	first := read(t, page)
	for _, want := range []string{
		"# Results\n",
		"in 4 of the grid's 54 cells (trace=mooncake_synthetic, trace=coding_agent, endpoints=4, load=0.7):\n",
		"all conversations of each trace, 3 policies each, with seeds 1 to 2.\n", "95 % intervals over the seeds",
		"## coding_agent\n", "go run ./results -traces DIR -only trace=mooncake_synthetic,trace=coding_agent," +
			"endpoints=4,load=0.7 -half 0 -seeds 2 -engine reference -policy least_ttft,session,oracle\n",
		"| p90 as a multiple of the best other policy's, geometric mean |",
		"![coding_agent: hit rate by load](results/coding_agent-hits.svg)", "| 4 | mixed | 0.7 |",
		"## Where a simple policy is as good",
		"## What is asked, all with the router's queue\n", "## What is asked, all without\n",
		"## Every policy as a multiple of ours, all with the queue\n", "| cells with a lower p90 |\n", "\n| session | ",
		"<summary>Mean of the time to first token, in s, with the queue, of every policy",
		"<summary>p50 of the time to first token, in s, without, of",
		"<summary>p90 of the time to first token, in s, without, of",
		"<summary>p99 of the time to first token, in s, with the queue, of", "<summary>Hit rate, in %, without, of",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the page lacks %q:\n%s", want, first)
		}
	}
	for _, name := range []string{
		"coding_agent-hits", "coding_agent-ttft", "mooncake_synthetic-hits", "mooncake_synthetic-ttft",
	} {
		wellFormed(t, filepath.Join(docs, "results", name+".svg"))
	}

	wantStart(measure("-tag", "a"), "4 cells, 40 runs, 40 of them done before; nothing to do\n")
	if read(t, page) != first {
		t.Error("the page differs though nothing was measured")
	}
	wantStart(measure("-tag", "a", "-seeds", "1"), "4 cells, 20 runs, 20 of them done before; nothing to do\n")
	if one := read(t, page); !strings.Contains(one, ", with seed 1.\n") ||
		!strings.Contains(one, "One seed shows no intervals") {
		t.Error("the page does not say that it is of one seed")
	}
	wantStart(measure("-tag", "b", "-trust", "others"), "4 cells, 40 runs, 24 of them done before")
	// b replaced the figures of ours
	wantStart(measure("-tag", "a", "-trust", "session"), "4 cells, 40 runs, 24 of them done before")
	if read(t, page) != first {
		t.Error("the page differs though the same was measured again")
	}
	wantStart(measure("-tag", "c"), "4 cells, 40 runs, 0 of them done before")
	// traces with a clock have no such delays
	wantStart(measure("-tag", "c", "-max-delay", "100ms"), "4 cells, 40 runs, 20 of them done before")
	spoil(t, store)
	out := measure("-tag", "c", "-summary")
	wantStart(out, "4 cells, 40 runs, 39 of them done before")
	if !strings.Contains(out, "\nWithout:\n") || !strings.Contains(out, "coding_agent 4 mixed 0.7") ||
		!strings.Contains(out, " of 4 cells;") {
		t.Errorf("summary: %s", out)
	}
}

// TestMistakes: each is told before anything runs, with what to do.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"":                           "results: -traces is needed: the folder with the traces\n",
		"-traces . -disagg -full":    "results: -disagg measures its own cells with least_ttft",
		"-traces . -only endpoint=8": `no kind "endpoint"; did you mean "endpoints"?`,
		"-traces . -summary":         "results: -traces: open mooncake_synthetic.jsonl: no such file or directory\n",
		"-traces . -out page.html": `results: -out: want a file that ends in .md, got ` +
			`"page.html"`,
		"-traces . -out nowhere/page.md":                    "results: -out: there is no folder nowhere\n",
		"-traces . -out page.html -seeds 0":                 "results: -seeds must be in 1..1000, got 0\n",
		"-traces . -summary -policy round_robbin":           `did you mean "round_robin"?`,
		"-traces . -summary -policy session,random,session": "results: -policy names session twice\n",
		"-traces . -summary -engine refrence":               `did you mean "reference"?`,
		"-traces . -summary more":                           `unexpected argument "more"`,
		"-trace .":                                          "flag provided but not defined: -trace",
	} {
		var out, log bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &log); code != 2 ||
			!strings.Contains(log.String(), want) || out.Len() > 0 {
			t.Errorf("%q: exit code %d, %s%s", args, code, log.String(), out.String())
		}
	}
}

// TestResultsInterrupted: what was done is kept whole, no page is written.
func TestResultsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	traces, store, docs := smallTraces(t), t.TempDir(), t.TempDir()
	var log bytes.Buffer
	out := stopper{stop}
	args := []string{"-traces", traces, "-store", store, "-out", filepath.Join(docs, "results.md"), "-jobs", "1"}
	if code := run(ctx, args, &out, &log); code != 1 ||
		!strings.Contains(log.String(), "they are kept, and the same command goes on from there") {
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
