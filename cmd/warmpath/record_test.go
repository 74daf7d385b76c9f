package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/play"
	simtext "github.com/warmpath/warmpath/sim/text"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// simulated runs warmpath and returns its output.
func simulated(t *testing.T, args ...string) string {
	t.Helper()
	var out, log bytes.Buffer
	if code := Main(t.Context(), append([]string{"simulate"}, args...), nil,
		strings.NewReader(""), &out, &log); code != exitOK {
		t.Fatalf("%v: exit code %d, %s", args, code, log.String())
	}
	return out.String()
}

// TestRecordAndReplay: traffic through a router in front of simulated engines is recorded without a word of it, read
// back as it was, fitted, and replayed on the fleet that this gives with about the hit rate that clients saw.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "r.jsonl")
	r := newRig(t, 3, func(c *config.Config) { c.Record.File = name })
	w := quickWorkload()
	w.System, w.Answer = 500, 30
	var seen play.Summary
	clients := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer clients.CloseIdleConnections()
	score := play.NewScore()
	target := play.Target{URL: r.url, Model: "m", Sessions: play.Adopt, IgnoreEOS: true, Client: clients}
	conversations := w.Draw(1)
	target.Play(t.Context(), conversations, aWhile, score.Add)
	seen = score.Summary()
	settled(func() bool { return r.recording.Written() >= uint64(seen.Requests) })
	if r.recording.Written() != uint64(seen.Requests) || r.recording.Dropped() != 0 {
		t.Fatalf("%d written, %d dropped, clients sent %d", r.recording.Written(), r.recording.Dropped(), seen.Requests)
	}
	var text []byte
	if !settled(func() bool { // the last lines are flushed
		var err error
		if text, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte(`"outcome"`)) >= seen.Requests && bytes.HasSuffix(text, []byte("\n"))
	}) {
		t.Fatalf("%d lines are in the file, clients sent %d", bytes.Count(text, []byte(`"outcome"`)), seen.Requests)
	}
	for _, c := range conversations {
		for _, said := range []string{c.SystemText(simtext.TokenBytes), c.UserText(0, simtext.TokenBytes)} {
			for _, part := range []string{said[:24], said[len(said)/2 : len(said)/2+24], said[len(said)-24:]} {
				if bytes.Contains(text, []byte(part)) {
					t.Fatalf("%q is in the recording", part)
				}
			}
		}
	}

	recording, err := simtrace.ReadRecording(name, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	trace := recording.Trace
	if len(trace.Turns) != seen.Requests || len(trace.Sessions) != len(conversations) || len(trace.Notes) != 0 ||
		len(recording.Engines) != 3 {
		t.Fatalf("%d turns of %d conversations, notes %q, engines %+v; want %d of %d",
			len(trace.Turns), len(trace.Sessions), trace.Notes, recording.Engines, seen.Requests, len(conversations))
	}
	// A later turn of a conversation shares all but the answer and the new question; a first turn the system prompt.
	if ideal := trace.Demand(16).IdealHitRate(); ideal < seen.HitRate-0.05 || ideal > 0.98 {
		t.Errorf("an unlimited cache would find %.3f; %.3f was found", ideal, seen.HitRate)
	}

	fleet := simulated(t, "--fit", name, "--engine", "reference")
	if strings.Count(fleet, "prefill_rate: ") != 3 ||
		strings.Count(fleet, "cache_tokens: 120000\n    block_tokens: 16") != 3 {
		t.Errorf("the fitted fleet:\n%s", fleet)
	}
	fleetFile := filepath.Join(dir, "fleet.yaml")
	packed := filepath.Join(dir, "r.jsonl.gz")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(text)
	_ = z.Close()
	for file, data := range map[string][]byte{fleetFile: []byte(fleet), packed: zipped.Bytes()} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	figures := filepath.Join(dir, "f.json")
	out := simulated(t, "--trace", packed, "--fleet", fleetFile, "--policy", "least_ttft,round_robin",
		"--json", figures)
	if !strings.Contains(out, "(recorded): ") {
		t.Error(out)
	}
	again := simulated(t, "--trace", name, "--fleet", fleetFile, "--policy", "least_ttft", "--json", "-")
	hit := number(t, again, `"hit_rate": `)
	if math.Abs(hit-seen.HitRate) > 0.1 {
		t.Errorf("hit rate %.3f when replayed, %.3f as clients saw it", hit, seen.HitRate)
	}
	if n := number(t, again, `"requests": `); int(n) != seen.Requests {
		t.Errorf("%v requests replayed, %d sent", n, seen.Requests)
	}
}

// TestRecordMetric: what is written is counted.
func TestRecordMetric(t *testing.T) {
	r := newRig(t, 1, func(c *config.Config) { c.Record.File = filepath.Join(t.TempDir(), "r") })
	w := quickWorkload()
	w.Conversations = 3
	s := r.play(w)
	settled(func() bool { return r.recording.Written() >= uint64(s.Requests) })
	res, err := http.Get(r.adminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if n := number(t, string(b), `warmpath_record_lines_total{result="written"} `); int(n) != s.Requests {
		t.Errorf("%v lines, %d requests", n, s.Requests)
	}
}

// number is what follows a text.
func number(t *testing.T, in, after string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(in, after)
	if !ok {
		t.Fatalf("no %q in %s", after, in)
	}
	x, err := strconv.ParseFloat(rest[:strings.IndexAny(rest, ",\n")], 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
