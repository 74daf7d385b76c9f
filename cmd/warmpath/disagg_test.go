package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
)

// engineAt runs the command engine until the test ends, and returns its address.
func engineAt(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, append([]string{"engine", "--listen", "127.0.0.1:0"}, args...), nil, nil, in, &log)
		_ = in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if c := <-code; c != 0 {
			t.Errorf("engine ended with %d: %s", c, log.String())
		}
	})
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return strings.TrimSpace(first[strings.LastIndex(first, " ")+1:])
}

// TestTwoLegsAreExplained: engines as the command line starts them hand a prompt over, and explain and the status page
// tell of both legs.
func TestTwoLegsAreExplained(t *testing.T) {
	p := engineAt(t, "--connector", "nixl", "--role", "prefill", "--model", "m", "--speed", "20")
	d := engineAt(t, "--connector", "nixl", "--role", "decode", "--model", "m", "--speed", "20")
	r := newRig(t, 0, func(cfg *config.Config) {
		cfg.Endpoints = []discovery.EndpointConfig{
			{Name: "p", URL: p, Role: "prefill"}, {Name: "d", URL: d, Role: "decode"},
		}
		cfg.Disaggregation.When = "always"
	})
	if h := r.ask(t, "both", "s", 200); h.Get("X-Warmpath-Endpoint") != "" {
		t.Errorf("a client that did not ask is told %v", h)
	}
	if h := r.ask(t, "told", "t", 200, "X-Warmpath-Explain", "1"); h.Get("X-Warmpath-Endpoint") != "d" ||
		h.Get("X-Warmpath-Prefill") != "p" {
		t.Errorf("it went to %v", h)
	}
	var out string
	for range aWhile / (10 * time.Millisecond) { // the prefill leg may end just after the answer
		var code int
		var log string
		if code, out, log = r.explain(t, "both"); code != 0 {
			t.Fatalf("%d: %s", code, log)
		}
		if strings.Contains(out, "d, decode") && strings.Contains(out, "p, prefill") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, want := range []string{
		"both -> d, decode", "both -> p, prefill", "It computes the prompt for another one, as all are split.",
		"It answers what another one computes the prompt of, as all are split.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) { // sentences are wrapped
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	res, err := http.Get(r.adminURL + "/admin/endpoints")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var shown struct{ Endpoints []struct{ Name, Role string } }
	if err := json.NewDecoder(res.Body).Decode(&shown); err != nil || len(shown.Endpoints) != 2 ||
		shown.Endpoints[0].Role != "prefill" || shown.Endpoints[1].Role != "decode" {
		t.Errorf("%+v, %v", shown, err)
	}
	res, err = http.Get(p + "/_sim/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); !bytes.Contains(b, []byte(`"handed":2,"taken":2`)) {
		t.Errorf("the prefiller says %s", b)
	}
}

// TestHandingOverEnginesHaveTheSameWeights: at whatever addresses the command line starts them, engines with a
// connector answer alike, since a decoder that went on from another answer would be refused, and make up ids that no
// other does.
func TestHandingOverEnginesHaveTheSameWeights(t *testing.T) {
	p := engineAt(t, "--listen", "localhost:0", "--dialect", "trtllm", "--connector", "trtllm", "--role", "prefill",
		"--model", "m", "--speed", "20")
	d := engineAt(t, "--dialect", "trtllm", "--connector", "trtllm", "--role", "decode",
		"--model", "m", "--speed", "20")
	r := newRig(t, 0, func(cfg *config.Config) {
		cfg.Endpoints = []discovery.EndpointConfig{
			{Name: "p", URL: p, Role: "prefill"}, {Name: "d", URL: d, Role: "decode"},
		}
		cfg.Disaggregation.When = "always"
	})
	if h := r.ask(t, "told", "t", 200, "X-Warmpath-Explain", "1"); h.Get("X-Warmpath-Endpoint") != "d" ||
		h.Get("X-Warmpath-Prefill") != "p" {
		t.Errorf("it went to %v", h)
	}
	var ids, texts [2]string
	for i, url := range []string{p, d} {
		res, err := http.Post(url+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_tokens":9}`))
		if err != nil {
			t.Fatal(err)
		}
		var a struct {
			ID      string
			Choices []struct{ Message struct{ Content string } }
		}
		err = json.NewDecoder(res.Body).Decode(&a)
		_ = res.Body.Close()
		if err != nil || len(a.Choices) != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		ids[i], texts[i] = a.ID, a.Choices[0].Message.Content
	}
	if texts[0] == "" || texts[0] != texts[1] || ids[0] == "" || ids[0] == ids[1] {
		t.Errorf("texts %q, ids %q", texts, ids)
	}
}

// shared is a buffer that a log may be written to while it is read.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestRoleWithoutPeersIsTold: where endpoints come and go, a role that has no peers is no fault of the configuration,
// but it is said: in the log, at /readyz and on the status page.
func TestRoleWithoutPeersIsTold(t *testing.T) {
	p, d := engineAt(t, "--connector", "nixl", "--model", "m"), engineAt(t, "--connector", "nixl", "--model", "m")
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	put := func(endpoints string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte("endpoints: ["+endpoints+"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	asPrefill, asDecode := "{name: p, url: "+p+", role: prefill}", "{name: d, url: "+d+", role: decode}"
	put(asPrefill)
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.Discovery.File = "127.0.0.1:0", "127.0.0.1:0", file
	cfg.Probe.Interval, cfg.Probe.Timeout = 50*time.Millisecond, aWhile
	var log shared
	r, err := start(t.Context(), &cfg, thisBuild(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.stop(context.Background()) }()
	get := func(url string) (int, string) {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	until := func(status int, says, logged string) {
		t.Helper()
		var code int
		var body, stats string
		for range aWhile / (10 * time.Millisecond) {
			code, body = get(r.url + "/readyz")
			_, stats = get(r.adminURL + "/admin/stats")
			if code == status && strings.Contains(body, says) && strings.Contains(stats, says) &&
				strings.Contains(log.String(), logged) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%d %s; %s\nwant %d %s, and %q logged in\n%s", code, body, stats, status, says, logged, log.String())
	}
	until(503, "there are endpoints with the role prefill and none that decodes", "a role has no peers")
	put(asPrefill + ", " + asDecode)
	until(200, "ready", "every role has peers again")
	if _, body := get(r.url + "/readyz"); body != "ready\n" {
		t.Errorf("with both: %q", body)
	}
	put(asDecode)
	until(200, "there are endpoints with the role decode and none that computes prompts", "with the role decode")
}

// What the demo says once both fleets have answered something, and once they have answered some of each kind.
var (
	answered     = regexp.MustCompile(`(?s)disaggregated: [1-9].*\n +aggregated: [1-9].*\n +latest: `)
	answeredSome = regexp.MustCompile(`disaggregated: ([5-9]|\d\d+) requests.*\n` +
		` +aggregated: ([5-9]|\d\d+) requests.*\n.*\(sooner [1-9].*whole_sooner [1-9]`)
)

// TestDemoDisagg: both fleets answer everything, some of it is split, and Ctrl-C ends the demo in good order.
func TestDemoDisagg(t *testing.T) {
	t.Parallel()
	// Ctrl-C comes as soon as the demo has said enough, which takes a busy machine longer.
	demo := func(out, talk, says *shared, enough *regexp.Regexp, args ...string) int {
		ctx, stop := context.WithTimeout(t.Context(), aWhile)
		go func() {
			for ctx.Err() == nil && !enough.MatchString(says.String()) {
				time.Sleep(50 * time.Millisecond)
			}
			stop()
		}()
		return Main(ctx, append([]string{"demo", "--disagg", "--rate", "6"}, args...), nil, nil, out, talk)
	}
	var out, talk shared
	if code := demo(&out, &talk, &talk, answeredSome, "--json"); code != 0 {
		t.Fatalf("%d: %s", code, talk.String())
	}
	var got struct {
		Disaggregated, Aggregated play.Summary
		Splits                    map[string]int
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for _, s := range []play.Summary{got.Disaggregated, got.Aggregated} {
		if s.Requests < 5 || s.Failed > 0 || s.TTFT.P50 <= 0 || s.ITL.P99 <= 0 {
			t.Errorf("%+v", s)
		}
	}
	if got.Splits["sooner"] == 0 || got.Splits["whole_sooner"] == 0 {
		t.Errorf("split were %v", got.Splits)
	}
	if text := talk.String(); !answeredSome.MatchString(text) || strings.Contains(text, "\x1b") {
		t.Errorf("it said %q", text)
	}
	out = shared{}
	if code := demo(&out, &talk, &out, answered); code != 0 {
		t.Errorf("after Ctrl-C: %d", code)
	}
	for _, want := range []string{
		"2 simulated prefillers and 2 decoders", "DISAGGREGATED", "latest: ", "Time between tokens, p99",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
	if code := Main(t.Context(), []string{"demo", "--disagg", "--engines", "3"}, nil, nil, &out, &talk); code != 2 {
		t.Errorf("--engines with --disagg ends with %d", code)
	}
}

// TestOneLineWhateverFails: a split request is recorded once, also where its hand-over fails, or where its prefiller
// fails and there is no other.
func TestOneLineWhateverFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traffic.jsonl")
	var engines []*enginetest.Server
	r := newRig(t, 0, func(cfg *config.Config) {
		for _, role := range []string{"prefill", "decode"} {
			e, url := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20, Connector: "nixl"})
			engines = append(engines, e)
			cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{Name: role, URL: url, Role: role})
		}
		cfg.Disaggregation.When, cfg.Record.File = "always", file
	})
	engines[0].LoseKV()
	r.ask(t, "lost", "a", 100)
	if err := engines[0].SetFault(enginetest.Fault{Kind: enginetest.Fault500, Count: 1}); err != nil {
		t.Fatal(err)
	}
	r.ask(t, "prefill fails", "b", 100)
	r.ask(t, "well", "c", 100)
	count := func() (lines []string) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, `"outcome"`) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	settled(func() bool { return len(count()) >= 3 })
	time.Sleep(50 * time.Millisecond)
	got := count()
	for _, line := range got {
		if !strings.Contains(line, `"outcome":"ok"`) {
			t.Errorf("recorded %s", line)
		}
	}
	if len(got) != 3 {
		t.Errorf("3 requests are %d lines:\n%s", len(got), strings.Join(got, ""))
	}
}
