package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/sim/trace"
)

func unchanged(string) bool { return false }

func TestBenchURL(t *testing.T) {
	for _, c := range []struct{ url, want, fault string }{
		{"", "", "--url is required"},
		{"127.0.0.1:8080/v1", "http://127.0.0.1:8080", ""},
		{"ftp://127.0.0.1:8080", "", `--url "ftp://127.0.0.1:8080" must begin with http://`},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", ""},
		{"http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", ""},
		{"http://127.0.0.1:8080/llm/v1/", "http://127.0.0.1:8080/llm", ""},
	} {
		o := benchOptions{
			work: trace.Chats(), sessions: "adopt", streamed: 1, urls: []string{"http://a", c.url},
			loop: benchLoop{repeat: 1},
		}
		err := o.validate(unchanged)
		if c.fault == "" && (err != nil || o.urls[1] != c.want) ||
			c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%q: got %q, %v, want %q, %q", c.url, o.urls, err, c.want, c.fault)
		}
	}
}

// TestBenchShares: a share is from 0 to 1.
func TestBenchShares(t *testing.T) {
	for _, share := range []float64{-0.1, 0, 0.15, 1, 1.1, math.NaN(), math.Inf(1)} {
		for name, set := range map[string]func(*benchOptions){
			"--streamed": func(o *benchOptions) { o.streamed = share },
			"--leaving":  func(o *benchOptions) { o.target.Leaving = share },
		} {
			o := benchOptions{
				work: trace.Chats(), sessions: "adopt", streamed: 1, urls: []string{"http://a"},
				loop: benchLoop{repeat: 1},
			}
			set(&o)
			err := o.validate(unchanged)
			if want := share >= 0 && share <= 1; (err == nil) != want ||
				err != nil && !strings.Contains(err.Error(), name+" must be in 0..1") {
				t.Errorf("%s %v: %v", name, share, err)
			}
		}
	}
}

// bench runs the command.
func bench(t *testing.T, args string) (said, log string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, stop := context.WithTimeout(t.Context(), aWhile)
	defer stop()
	code = Main(ctx, append([]string{"bench"}, strings.Fields(args)...), nil, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// TestBenchFlags: flags that say nothing together are told.
func TestBenchFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                                 "--url is required",
		"--url http://a --for 1m":                          "--for needs --clients",
		"--url http://a --trace f":                         "--trace needs --clients",
		"--url http://a --max-delay 1s":                    "--max-delay needs --trace",
		"--url http://a --clients 2 --rate 3":              "--rate says nothing with --clients",
		"--url http://a --clients -1":                      "--clients must be in 0..10000",
		"--url http://a --clients 2 --for -1s":             "--for and --max-delay must not be negative",
		"--url http://a --clients 2 --trace f --think 1s":  "--think says nothing with --trace",
		"--url http://a --clients 2 --trace f --half 3":    "--half must be 0, 1 or 2",
		"--url http://a --clients 2 --trace testdata/none": "no such file",
		"--url http://a --for 1m --clients 2 --timeout 3m": "--timeout says nothing with --for",
	} {
		_, errs, code := bench(t, args)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("bench %s: exit code %d, %q; want %q", args, code, errs, want)
		}
	}
}

// TestBenchInClosedLoop: sessions of a file, with their sub-agents, and drawn ones are played against two addresses,
// which are shown beside each other. The second address has none of the first one's words in its cache.
func TestBenchInClosedLoop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agents.jsonl")
	var text strings.Builder
	for s := range 4 {
		fmt.Fprintf(&text,
			`{"session_id":"s%d","timestamp":0,"delay":0,"input_length":640,"output_length":5,"shared_length":0}`+"\n",
			s)
		fmt.Fprintf(&text, `{"session_id":"sub%d","parent_id":"s%d","timestamp":10,"delay":0,"input_length":320,"output_length":5,"shared_length":256}`+"\n", s, s)
		fmt.Fprintf(&text, `{"session_id":"s%d","timestamp":90000,"delay":80000,"input_length":960,"output_length":7,"shared_length":640}`+"\n", s)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, at := simEngine(t, enginetest.Options{Speed: 50, Models: []string{"m"}})
	for _, tt := range []struct {
		args               string
		turns, ended, hits int
	}{
		{"--trace " + file + " --max-delay 1ms --clients 2", 12, 4, 1},
		{"--trace " + file + " --max-delay 1ms --clients 3 --repeat 2 --sessions send", 24, 8, 1},
		{
			"--conversations 5 --clients 2 --turns 1 --think 1ms --system-tokens 64 --user-tokens 16 --answer-tokens 2",
			0, 5, 0,
		},
	} {
		out, errs, code := bench(t, "--json --seed 3 --model m --url "+at+" --url "+at+"/v1 "+tt.args)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if code != 0 || len(lines) != 2 {
			t.Fatalf("%s: exit code %d, %q, %s", tt.args, code, out, errs)
		}
		var hit [2]float64
		for i, line := range lines {
			var got struct {
				URL              string
				Requests, Failed int
				Ended            int                   `json:"sessions_ended"`
				Output           float64               `json:"output_tokens_per_s"`
				HitRate          float64               `json:"hit_rate"`
				Slowest          struct{ P90 float64 } `json:"slowest_ms"`
			}
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			if got.URL != at || got.Failed != 0 || tt.turns > 0 && got.Requests != tt.turns || got.Ended != tt.ended ||
				got.Output <= 0 || got.Slowest.P90 <= 0 {
				t.Errorf("%s: %s", tt.args, line)
			}
			hit[i] = got.HitRate
		}
		if tt.hits > 0 && (hit[0] < 0.3 || hit[1] != hit[0]) {
			t.Errorf("%s: hit rates %v, want them alike", tt.args, hit)
		}
	}
	out, errs, code := bench(t,
		"--seed 4 --model m --url "+at+" --url "+at+" --clients 2 --max-delay 1ms --trace "+file)
	for _, want := range []string{
		"4 sessions ended", "8 sessions of", "slowest turn of a session, p90", "output tokens/s",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, lacks %q:\n%s%s", code, want, out, errs)
		}
	}
}

// TestBenchCountsTheEnginesTokens: prompts have the tokens that the workload says by the engine's own tokenizer, those
// of conversations as those of a trace, which are other words.
func TestBenchCountsTheEnginesTokens(t *testing.T) {
	const turns, tokens = 4, 2000
	file := filepath.Join(t.TempDir(), "sessions.jsonl")
	line := `{"session_id":"%d","timestamp":0,"input_length":%d,"output_length":2,"shared_length":0}` + "\n"
	var lines strings.Builder
	for i := range turns {
		fmt.Fprintf(&lines, line, i, tokens)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, loaded := smallModel(t)
	drawn := "--conversations 4 --rate 0 --turns 0 --user-tokens 1 --answer-tokens 2 --system-tokens 2000"
	traced := "--clients 2 --trace " + file
	for name, tt := range map[string]struct {
		args     string
		own      bool // the engine has the small model's tokenizer
		from, to float64
	}{
		"conversations, simulated tokens": {drawn, false, 4, 4},
		"a trace, simulated tokens":       {traced, false, 4, 4},
		"conversations, own tokens":       {drawn, true, 4.5, 6}, // whole words
		"a trace, own tokens":             {traced, true, 1, 2},  // syllables that are no words
	} {
		o := enginetest.Options{Speed: 50, Models: []string{"m"}}
		if tt.own {
			o.Dialect, o.Tokenizer = fleet.KindTRTLLM, loaded
		}
		_, at := simEngine(t, o)
		out, errs, code := bench(t, "--json --url "+at+" "+tt.args)
		var got struct {
			Requests, Failed int
			Prompt           int     `json:"prompt_tokens"`
			TokenBytes       float64 `json:"token_bytes"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("%s: exit code %d, %v: %s%s", name, code, err, out, errs)
		}
		if mean := float64(got.Prompt) / turns; got.Requests != turns || math.Abs(mean-tokens) > 0.05*tokens {
			t.Errorf("%s: prompts of %.0f tokens, want %d: %s", name, mean, tokens, out)
		}
		said := fmt.Sprintf("the engine counts %.2f bytes of these texts as a token", got.TokenBytes)
		if !(got.TokenBytes >= tt.from && got.TokenBytes <= tt.to) || !strings.Contains(errs, said) {
			t.Errorf("%s: %v bytes a token, want %v to %v; said %s", name, got.TokenBytes, tt.from, tt.to, errs)
		}
	}
}
