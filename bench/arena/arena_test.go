package main

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/bench/arena/stand"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		name, args, wrong string
	}{
		{"all", "", ""},
		{"some", "-only warmpath,haproxy -parts conversations,faults -rounds 5", ""},
		{"real engines", "-engines http://127.0.0.1:8001,http://127.0.0.1:8002 -model tiny", ""},
		{"unknown router", "-only warmpath,nginks", "nginks"},
		{"unknown part", "-parts overheads", "overheads"},
		{"no rounds", "-rounds 0", "-rounds 0"},
		{"one engine", "-engines http://127.0.0.1:8001 -model tiny", "two at least"},
		{"engines without a model", "-engines http://127.0.0.1:8001,http://127.0.0.1:8002", "-model"},
		{"engine without a port", "-engines http://127.0.0.1,http://127.0.0.1:8002 -model tiny", "host:port"},
		{"more words", "-only smg -with smg=--cache-threshold=0.5", ""},
		{"more words for a router that is left out", "-only nginx -with smg=--cache-threshold=0.5", "-with"},
		{"left over", "-short all", `"all"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parseFlags(strings.Fields(c.args), io.Discard)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("error %v does not name %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(o.engines) > 0 && (o.has(overhead) || o.has(brokenEngines)) {
				t.Error("real engines would be broken or loaded")
			}
		})
	}
}

func TestShortIsSmallAndInstallsNothing(t *testing.T) {
	o, err := parseFlags([]string{"-short", "-rounds", "9", "-conversations", "5"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !o.offline || o.rounds != 1 || o.work.Conversations != 5 || o.work.Turns > 2 {
		t.Errorf("%+v", o)
	}
}

func TestParsePlay(t *testing.T) {
	p, err := parsePlay([]byte(
		`{"requests":119,"failed":2,"ttft_ms":{"mean":193.4,"p50":120,"p90":367,"p99":800},"took_ms":{"mean":500},
		"hit_rate":0.874,"last_error":"status 503","other":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.Requests != 119 || p.Failed != 2 || p.TTFT.Mean != 193.4 || p.TTFT.P99 != 800 || p.Took.Mean != 500 ||
		p.HitRate != 0.874 || p.Example != "status 503" {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"", "warmpath: no such flag", `{"requests":0}`} {
		if _, err := parsePlay([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestHitAndWork(t *testing.T) {
	hit, cv := hitAndWork([]stand.Counts{
		{PromptTokens: 300, CachedTokens: 200, ComputedTokens: 100},
		{PromptTokens: 100, CachedTokens: 0, ComputedTokens: 300},
	})
	if hit != 0.5 || math.Abs(cv-0.5) > 1e-9 {
		t.Errorf("hit rate %v, CV %v; want 0.5 and 0.5", hit, cv)
	}
	if hit, cv := hitAndWork([]stand.Counts{{}, {}}); hit != 0 || cv != 0 {
		t.Errorf("idle engines: %v, %v", hit, cv)
	}
}

func TestParseCosts(t *testing.T) {
	costs, err := parseCosts([]byte(`{"cells":[
		{"peer":"warmpath","size_bytes":8192,"cpu_us_per_request":56.2,"requests_per_second":9000},
		{"peer":"warmpath","size_bytes":1024,"stream":true,"cpu_us_per_request":196,"errors":3}],
		"memory":[{"peer":"warmpath","rss_mb":88.5}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(costs) != 2 || costs[0].Request != "8 kB" || costs[0].MemoryMB != 88.5 ||
		costs[1].Request != "1 kB, 64-chunk stream" || costs[1].Errors != 3 {
		t.Errorf("%+v", costs)
	}
	if _, err := parseCosts([]byte("no report")); err == nil {
		t.Error("no report was taken for one")
	}
}

func TestScenariosDifferInOneThing(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if seen[s.Name] || len(s.specs) != 4 || string(s.job) != s.Job {
			t.Errorf("%+v", s)
		}
		seen[s.Name] = true
	}
}

func TestFlushed(t *testing.T) {
	engine := func(path string) string {
		mux := http.NewServeMux()
		mux.HandleFunc("POST "+path, func(http.ResponseWriter, *http.Request) {})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	vllm, sglang, none := engine("/reset_prefix_cache"), engine("/flush_cache"), engine("/other")
	if !flushed([]string{vllm, sglang}) {
		t.Error("engines that can be flushed were not")
	}
	if flushed([]string{vllm, none}) {
		t.Error("an engine that cannot be flushed was")
	}
}
