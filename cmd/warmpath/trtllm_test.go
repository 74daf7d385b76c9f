package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// trtWorker starts a simulated TensorRT-LLM worker that can play both roles, and returns its address.
func trtWorker(t *testing.T, change func(o *enginetest.Options)) (*enginetest.Server, string) {
	t.Helper()
	o := enginetest.Options{Dialect: fleet.KindTRTLLM, Connector: "trtllm", Models: []string{"m"}, Speed: 20, AnswerTokens: 24}
	if change != nil {
		change(&o)
	}
	e, url := simEngine(t, o)
	return e, strings.TrimPrefix(url, "http://")
}

// trtRouter serves the YAML of trtllm-serve disaggregated.
func trtRouter(t *testing.T, yaml string, change func(*config.Config)) *router {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disagg.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, missing, err := loadTRTLLM(env{}, path, []config.Override{{Path: []string{"listen"}, Text: "127.0.0.1:0", From: "test"}})
	if err != nil || len(missing) > 0 {
		t.Fatal(err, missing)
	}
	cfg.Admin.Listen = ""
	cfg.Probe.Interval, cfg.Probe.LoadInterval, cfg.Health.Ramp = 50*time.Millisecond, 50*time.Millisecond, 0
	if change != nil {
		change(&cfg)
	}
	r, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, r)
	r.waitReady(context.Background(), 5*time.Second)
	return r
}

func fetched(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

const trtChat = `{"model":"m","messages":[{"role":"user","content":"tell me of %d lighthouses and who kept them in the winter"}],"max_tokens":8,"stream":%t}`

// TestServeTRTLLM: the orchestrator's own file, served in both styles: twelve conversations at once, and the paths that monitors ask.
func TestServeTRTLLM(t *testing.T) {
	for _, style := range []string{"context_first", "generation_first"} {
		t.Run(style, func(t *testing.T) {
			c1, a1 := trtWorker(t, nil)
			c2, a2 := trtWorker(t, nil)
			g, a3 := trtWorker(t, nil)
			r := trtRouter(t, fmt.Sprintf("schedule_style: %s\nnode_id: 9\nperf_metrics_max_requests: 100\ncontext_servers:\n  num_instances: 2\n  urls: [%q, %q]\n  router: {type: conversation}\n"+
				"generation_servers:\n  num_instances: 1\n  urls: [%q]\n", style, a1, a2, a3), nil)
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					body := fmt.Sprintf(trtChat, i, i%2 == 0)
					if status, got := fetched(t, "POST", r.url+"/v1/chat/completions", body); status != 200 || !strings.Contains(got, "content") {
						t.Errorf("%d %s", status, got)
					}
				})
			}
			wg.Wait()
			if kv := g.KV(); kv.Loaded != 12 || kv.Refused+c1.KV().Refused+c2.KV().Refused != 0 || c1.KV().Open+c2.KV().Open != 0 {
				t.Errorf("handed over: %+v %+v to %+v", c1.KV(), c2.KV(), kv)
			}
			if status, _ := fetched(t, "GET", r.url+"/health", ""); status != 200 {
				t.Errorf("/health: %d", status)
			}
			if status, got := fetched(t, "GET", r.url+"/version", ""); status != 200 || !strings.HasPrefix(got, `{"version":"`) {
				t.Errorf("/version: %d %s", status, got)
			}
			_, got := fetched(t, "GET", r.url+"/cluster_info", "")
			var info struct {
				Ready bool                `json:"is_ready"`
				Lists map[string][]string `json:"server_lists"`
			}
			if err := json.Unmarshal([]byte(got), &info); err != nil || !info.Ready || len(info.Lists["context"]) != 2 || len(info.Lists["generation"]) != 1 || info.Lists["generation"][0] != a3 {
				t.Errorf("/cluster_info: %s", got)
			}
			_, got = fetched(t, "GET", r.url+"/prometheus/metrics", "")
			for _, want := range []string{"total_requests_total 12\n", "stream_requests_total 6\n", "ctx_completed_requests_total 12\n", "gen_total_requests_total 12\n", "gen_first_token_latency_seconds_count 12\n", "ctx_error_requests_total 0\n"} {
				if !strings.Contains(got, "\n"+want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			perfJoins(t, r.url, a3)
			if status, got := fetched(t, "GET", r.url+"/v1/models", ""); status != 200 || !strings.Contains(got, `"m"`) {
				t.Errorf("/v1/models: %d %s", status, got)
			}
		})
	}
}

// perfJoins checks that each request is told once, with what both workers report of it.
func perfJoins(t *testing.T, url, generation string) {
	t.Helper()
	_, got := fetched(t, "GET", url+"/perf_metrics", "")
	var items []struct {
		Gen     string `json:"gen_server"`
		Arrival float64
		A       float64 `json:"disagg_server_arrival_time"`
		F       float64 `json:"disagg_server_first_token_time"`
		Ctx     struct {
			ID json.Number `json:"ctx_request_id"`
		} `json:"ctx_perf_metrics"`
		GenM struct {
			ID json.Number `json:"ctx_request_id"`
		} `json:"gen_perf_metrics"`
	}
	if err := json.Unmarshal([]byte(got), &items); err != nil || len(items) != 12 {
		t.Fatalf("/perf_metrics: %v, %d in %s", err, len(items), got)
	}
	for _, i := range items {
		if i.Gen != generation || i.Ctx.ID == "" || i.Ctx.ID != i.GenM.ID || !(i.F > i.A) {
			t.Errorf("%+v", i)
		}
	}
	if _, got := fetched(t, "GET", url+"/perf_metrics", ""); got != "[]" {
		t.Errorf("told twice: %s", got)
	}
}

// TestTRTLLMCluster: workers register themselves over HTTP, as the real ones do, serve, and go: by their own word, or when they are not heard of.
func TestTRTLLMCluster(t *testing.T) {
	t.Parallel()
	r := trtRouter(t, "context_servers: {}\ngeneration_servers: {}\ndisagg_cluster:\n  cluster_uri: http://localhost:8000\n  cluster_name: blue\n  minimal_instances: {context_servers: 1, generation_servers: 2}\n", nil)
	if status, _ := fetched(t, "GET", r.url+"/health", ""); status != 503 {
		t.Errorf("/health of an empty cluster: %d", status)
	}
	key := func(id string) string { return "/trtllm-disagg/blue/workers/" + id }
	register := func(id, address string, role int, ttl float64) (int, string) {
		host, port, _ := strings.Cut(address, ":")
		value := fmt.Sprintf(`{"worker_id":%q,"host":%q,"port":%s,"role":%d}`, id, host, port, role)
		var body bytes.Buffer
		_ = json.NewEncoder(&body).Encode(map[string]any{"key": key(id), "value": value, "expire_time": -1, "ttl": ttl, "overwrite_if_exists": false})
		return fetched(t, "POST", r.url+"/set", body.String())
	}
	_, a1 := trtWorker(t, nil)
	_, a2 := trtWorker(t, nil)
	_, a3 := trtWorker(t, nil)
	for i, w := range []struct {
		at   string
		role int
	}{{a1, 0}, {a2, 1}, {a3, 1}} {
		ttl := 60.0
		if i == 2 {
			ttl = 1.5
		}
		if status, got := register(fmt.Sprint("w", i), w.at, w.role, ttl); status != 200 || got != `{"result":true}` {
			t.Errorf("/set: %d %s", status, got)
		}
	}
	if status, got := register("w0", a1, 0, 60); status != 400 || got != `{"result":false}` {
		t.Errorf("/set again: %d %s", status, got)
	}
	health := func(want int) bool {
		for range 100 {
			if status, _ := fetched(t, "GET", r.url+"/health", ""); status == want {
				return true
			}
			time.Sleep(50 * time.Millisecond)
		}
		return false
	}
	if !health(200) {
		t.Fatal("never ready")
	}
	if status, got := fetched(t, "POST", r.url+"/v1/chat/completions", fmt.Sprintf(trtChat, 7, false)); status != 200 {
		t.Errorf("%d %s", status, got)
	}
	_, got := fetched(t, "GET", r.url+"/cluster_info", "")
	for _, want := range []string{`"is_ready":true`, `"current_workers":{"context_servers":[{"worker_id":"w0"`, `"minimal_instances":{"context_servers":1,"generation_servers":2}`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	for path, want := range map[string]int{
		"/get?key=" + key("w0"): 200, "/get?key=x": 400, "/get_prefix?key_prefix=/trtllm-disagg/blue/": 200, "/get_prefix?key_prefix=/other": 400,
		"/expire?ttl=60&key=" + key("w1"): 200, "/expire?ttl=60&key=x": 400, "/get_prefix?keys_only=true&key_prefix=" + key(""): 200,
	} {
		if status, got := fetched(t, "GET", r.url+path, ""); status != want || !strings.HasPrefix(got, `{"result":`) {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	if !health(503) {
		t.Error("a worker that was not heard of is still counted")
	}
	if status, got := fetched(t, "DELETE", r.url+"/delete?key="+key("w0"), ""); status != 200 || got != `{"result":true}` {
		t.Errorf("/delete: %d %s", status, got)
	}
	if status, _ := fetched(t, "DELETE", r.url+"/delete?key="+key("w0"), ""); status != 400 {
		t.Errorf("/delete again: %d", status)
	}
	for range 100 {
		if _, got := fetched(t, "GET", r.url+"/cluster_info", ""); strings.Contains(got, `"context":[]`) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("a worker that left is still there")
}
