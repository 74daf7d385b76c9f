package console

import (
	"encoding/json"
	"fmt"
	"regexp"
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
	text := Table(fleetOf(t, answer).Endpoints, Look{}) + Legend(Look{})
	for _, want := range []string{
		"120k", "42%", "88%", "51 ms", "ejected", "draining", "3 requests in a row failed", "an-endpo…-too-long",
	} {
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
	text := Screen(now, before, 2*time.Second, Look{})
	for _, want := range []string{
		"warmpath 1.2.3, up 1m1s, ready", "4 open, 10.0 requests/s, 90 answered", "p90 12.5 s",
		"ejected", "gpu-3", "NOW:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	now.Stats.Ready, now.Stats.Why = false, "no endpoint is up"
	if text := Screen(now, nil, 0, Look{}); !strings.Contains(text, "NOT READY: no endpoint is up") ||
		!strings.Contains(text, "- requests/s") || !strings.Contains(text, "gpu-3") {
		t.Errorf("got\n%s", text)
	}
}

// TestScreenFits: of many endpoints those that need attention and the busiest are shown, with the legend, in the lines
// there are.
func TestScreenFits(t *testing.T) {
	f := &Fleet{}
	for i := range 64 {
		e := Endpoint{Name: fmt.Sprintf("vllm-qwen3-8b-deployment-5d9c7b6f4-%05d", i), State: "up"}
		e.Load.PrefillTokens = int64(i)
		if i == 7 {
			e.State, e.Detail = "down", "connection refused"
		}
		f.Endpoints = append(f.Endpoints, e)
	}
	for _, look := range []Look{{Columns: 80, Lines: 24}, {Columns: 200, Lines: 60}} {
		text := Screen(f, nil, 0, look)
		if n := strings.Count(text, "\n"); n >= look.Lines || n < look.Lines-3 {
			t.Errorf("%d lines of %d", n, look.Lines)
		}
		for _, want := range []string{
			"00007", "down", "connection refused", "00063", "more, less busy", "KV: cache in use.",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > look.Columns {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		if whole := strings.Contains(text, f.Endpoints[63].Name); whole != (look.Columns == 200) {
			t.Errorf("%d columns: names are whole: %t", look.Columns, whole)
		}
		if strings.Contains(text, "\x1b") {
			t.Error("there are colours without ink")
		}
	}
}

// TestNamesDifferWhereTheyAreCut: names of a domain are told apart in a narrow terminal, addresses are left alone,
// and a trouble that more than four endpoints share is one line.
func TestNamesDifferWhereTheyAreCut(t *testing.T) {
	const domain, port = ".vllm-qwen3-235b-a22b.inference-production.svc.cluster.local", ":8000"
	for _, c := range []struct {
		name, domain string
		want         []string
		not          string
	}{
		{"vllm-qwen3-%d", domain, []string{" vllm-qwen3-10  ", " vllm-qwen3-13  "}, "cluster.local"},
		{"vllm-qwen3-%d", domain + port, []string{" vllm-qwen3-10  ", " vllm-qwen3-13  "}, "8000"},
		{
			"vllm-qwen3-235b-a22b-instruct-2507-fp8-7c9f8d6b5-%05d", domain,
			[]string{"…f8d6b5-00010  ", "…f8d6b5-00013  "},
			"cluster.local",
		},
		{
			"10.0.%d.1:8000", "/a-slot-of-a-name-that-no-terminal-of-80-columns-has-room-for",
			[]string{" 10.0.10.1:80…", " 10.0.13.1:80…"},
			" 10.0.10 ",
		},
	} {
		var all []Endpoint
		for i := range 6 {
			e := Endpoint{Name: fmt.Sprintf(c.name, 10+i) + c.domain, State: "up"}
			if i > 0 {
				e.State, e.Detail = "down", "connection refused"
			}
			all = append(all, e)
		}
		text := Table(all, Look{})
		for _, want := range append(c.want, "5 endpoints ") {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
		if strings.Count(text, "connection refused") != 1 || strings.Contains(text, c.not) {
			t.Errorf("got\n%s", text)
		}
		if text := Table(all, Look{Whole: true}); strings.Count(text, c.domain) != len(all)+5 {
			t.Errorf("a program does not read whole names, and of each what is wrong:\n%s", text)
		}
	}
	if text := Table(nil, Look{Columns: 20}); !strings.Contains(text, "ENDPOINT") {
		t.Errorf("got\n%s", text)
	}
}

// TestInk: colours are beside the words and take no columns.
func TestInk(t *testing.T) {
	plain, inked := Table(fleetOf(t, answer).Endpoints, Look{}), Table(fleetOf(t, answer).Endpoints, Look{Ink: true})
	if !strings.Contains(inked, "\x1b[31mejected\x1b[0m") || !strings.Contains(inked, "\x1b[32mup\x1b[0m") ||
		!strings.Contains(inked, "\x1b[33mdraining\x1b[0m") {
		t.Errorf("got %q", inked)
	}
	if bare := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(inked, ""); bare != plain {
		t.Errorf("without colours\n%s\nwant\n%s", bare, plain)
	}
}

// TestNamesAreWhole: what a program reads, and a row that fits, has whole names.
func TestNamesAreWhole(t *testing.T) {
	all := fleetOf(t, answer).Endpoints
	if text := Table(all, Look{
		Whole: true,
	}); strings.Count(text, "an-endpoint-with-a-name-that-is-far-too-long") != 2 || strings.Contains(text, "…") {
		t.Errorf("a name is cut:\n%s", text)
	}
	all[1].Name = "127.0.0.1:9021/slot1"
	if text := Table(all, Look{}); !strings.Contains(text, "\n 127.0.0.1:9021/slot1 ") {
		t.Errorf("a name that fits is cut:\n%s", text)
	}
}

// TestScreenSaysWhoIsHeld: who, where and until when at most, in 80 columns, the rest counted.
func TestScreenSaysWhoIsHeld(t *testing.T) {
	f := fleetOf(t, answer)
	f.Stats.Held = 7
	f.Endpoints[0].WorkingSet, f.Endpoints[0].WorkingRoom = 930, 1000
	for range 7 {
		f.Held = append(f.Held, Held{
			Request: "r", Conversation: "a-conversation-with-a-name-that-is-far-too-long-for-a-line", Tenant: "team-a",
			Pool: "qwen", Priority: "high", Tokens: 117_000, Home: "gpu-1", Seconds: 12.4, Left: 61,
		})
	}
	text := heldLines(f, mostHeldLines, Look{})
	for _, want := range []string{
		"7 held", "the others need 93% of them", "of team-a", "last at gpu-1", "high priority", "117k tokens",
		"held 12s", "1m1s",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "team-a"); n != mostHeldLines {
		t.Errorf("%d are named, want %d", n, mostHeldLines)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for lines, named := range map[int]int{24: 4, 22: 3, 19: 1} {
		look := Look{Columns: 100, Lines: lines}
		text := Screen(f, nil, 0, look)
		if strings.Count(text, "team-a") != named || strings.Contains(text, "less busy") ||
			strings.Count(text, "\n") >= lines || !strings.Contains(text, "KV: cache in use.") {
			t.Errorf("in %d lines, where %d fit beside all endpoints:\n%s", lines, named, text)
		}
	}
	for line := range strings.Lines(Screen(f, nil, 0, Look{Columns: 160})) {
		if strings.Contains(line, "of team-a") && !strings.Contains(line, "at most") {
			t.Errorf("wrapped although there is room: %s", line)
		}
	}
	if text := heldLines(fleetOf(t, answer), mostHeldLines, Look{}); text != "" {
		t.Errorf("nobody is held: %s", text)
	}
}

// TestScreenHasAliases: the models of an alias are beside each other, up to a bound, within 80 columns.
func TestScreenHasAliases(t *testing.T) {
	f := fleetOf(t, answer)
	for i := range 6 {
		share := 0.95
		f.Stats.Aliases = append(f.Stats.Aliases, Alias{Alias: fmt.Sprint("alias-", i), Models: []AliasModel{
			{Model: "meta-llama/Llama-3.1-8B-Instruct", Share: &share, Served: f.Endpoints[0].Served},
			{Model: "new", Passed: 12},
		}})
	}
	text := Screen(f, nil, 0, Look{})
	for _, want := range []string{"ALIAS", "alias-0", "95%", "88%", "51 ms", "12", "and 4 more"} {
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
