package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSimulateWrites: figures on standard output do not keep the other files from being written, and words go
// elsewhere.
func TestSimulateWrites(t *testing.T) {
	dir := t.TempDir()
	report := filepath.Join(dir, "a.html")
	var out, log bytes.Buffer
	args := []string{
		"simulate", "--generate", "conversations=20", "--policy", "session", "--json", "-", "--report", report,
	}
	if code := Main(t.Context(), args, nil, strings.NewReader(""), &out, &log); code != exitOK ||
		!strings.HasPrefix(out.String(), "[\n") {
		t.Fatalf("exit code %d, %s\n%s", code, log.String(), out.String())
	}
	if text, err := os.ReadFile(report); err != nil || len(text) < 1000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestTraceOfAnyName: what is written about a trace is text, whatever its file is called.
func TestTraceOfAnyName(t *testing.T) {
	dir := t.TempDir()
	trace, report := filepath.Join(dir, "a\x1b[31m<b>\xff.jsonl"), filepath.Join(dir, "r.html")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}`+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if code := Main(t.Context(), []string{
		"simulate", "--trace", trace, "--speed", "1", "--policy", "session", "--report", report,
	}, nil, strings.NewReader(""), &out, &log); code != exitOK {
		t.Fatalf("exit code %d, %s", code, log.String())
	}
	page, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if text := out.String() + string(page); !utf8.ValidString(text) || strings.Contains(text, "\x1b") ||
		strings.Count(text, "[31m&lt;b&gt;") < 2 {
		t.Errorf("the name is written as it is, or not at all:\n%.300s", text)
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
		if said := out.String() + log.String(); (code == exitUsage) != strings.HasPrefix(want, "warmpath") ||
			!strings.Contains(said, want) || want == "" && strings.Contains(said, "fit no engine") {
			t.Errorf("%s tokens: exit code %d, %s", tokens, code, said)
		}
	}
}

// TestReportNotes: what is to be known about the trace is said in the report.
func TestReportNotes(t *testing.T) {
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
	if code := Main(t.Context(), []string{"simulate", "--trace", trace, "--policy", "session", "--report", report}, nil,
		strings.NewReader(""), &out, &log); code != exitOK {
		t.Fatalf("exit code %d, %s", code, log.String())
	}
	if page, err := os.ReadFile(report); err != nil ||
		!strings.Contains(string(page), "Note: 1 recorded requests without an answer are left out.") {
		t.Errorf("%v: the page lacks the note on the trace:\n%s", err, page)
	}
}

// TestSimulateMeaningless: flags that would do nothing are refused.
func TestSimulateMeaningless(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}`+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--policy names session twice": {"--policy", "session,random,session"},
		"--max-delay: the requests of": {"--max-delay", "5s"},
		"--repeat: the requests of":    {"--repeat", "2"},
	} {
		var out, log bytes.Buffer
		if code := Main(t.Context(), append([]string{"simulate", "--trace", trace}, args...), nil,
			strings.NewReader(""), &out, &log); code != exitUsage || !strings.Contains(log.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, log.String())
		}
	}
}
