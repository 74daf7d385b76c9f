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
	o := enginetest.Options{
		Dialect: fleet.KindTRTLLM, Connector: "trtllm", Models: []string{"m"}, Speed: 20, AnswerTokens: 24,
	}
	if change != nil {
		change(&o)
	}
	e, url := simEngine(t, o)
	return e, strings.TrimPrefix(url, "http://")
}

// lockedBuffer is written and read by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// trtRouter serves the YAML of trtllm-serve disaggregated.
func trtRouter(t *testing.T, yaml string, change func(*config.Config)) *router {
	t.Helper()
	return trtRouterSaying(t, io.Discard, yaml, change)
}

// trtRouterSaying writes its log.
func trtRouterSaying(t *testing.T, log io.Writer, yaml string, change func(*config.Config)) *router {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disagg.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, missing, err := loadTRTLLM(env{}, path, []config.Override{
		{Path: []string{"listen"}, Text: "127.0.0.1:0", From: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		if !strings.Contains(m.String(), "trtllm.cluster.allow") {
			t.Error(m)
		}
	}
	cfg.Admin.Listen = ""
	cfg.Probe.Interval, cfg.Probe.LoadInterval, cfg.Health.Ramp = 50*time.Millisecond, 50*time.Millisecond, 0
	cfg.Probe.Timeout = aWhile
	if change != nil {
		change(&cfg)
	}
	r, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, r)
	r.waitReady(context.Background(), aWhile)
	return r
}

func fetched(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	res, got := fetch(t, method, url, body)
	return res.StatusCode, got
}

const trtChat = `{"model":"m","messages":[{"role":"user","content":"tell me of %d lighthouses and who kept them in the winter"}],"max_tokens":8,"stream":%t}`

// TestTRTLLMStatedForm: workers that reject the form of conversation ids that the file states compute nothing for
// others: the router serves requests whole, and says why once for each worker.
func TestTRTLLMStatedForm(t *testing.T) {
	_, a1 := trtWorker(t, nil)
	_, a2 := trtWorker(t, nil)
	var log lockedBuffer
	r := trtRouterSaying(t, &log,
		fmt.Sprintf("conversation_id: disaggregated_params\ncontext_servers:\n  num_instances: 1\n  urls: [%q]\n"+
			"generation_servers:\n  num_instances: 1\n  urls: [%q]\n", a1, a2), nil)
	for i := range 3 {
		if status, got := fetched(t, "POST", r.url+"/v1/chat/completions",
			fmt.Sprintf(trtChat, i, false)); status != 200 {
			t.Errorf("%d %s", status, got)
		}
	}
	const said = "engine rejects the conversation ids that its endpoint states"
	if n := strings.Count(log.String(), said); n != 1 ||
		!strings.Contains(log.String(), "endpoint="+a1+" conversation_id=disaggregated_params") {
		t.Errorf("said %d times, want once, of %s, in\n%s", n, a1, log.String())
	}
}

// TestServeTRTLLM: the orchestrator's own file, served in both styles: twelve conversations at once, and the paths that
// monitors ask.
func TestServeTRTLLM(t *testing.T) {
	for _, style := range []string{"context_first", "generation_first"} {
		t.Run(style, func(t *testing.T) {
			c1, a1 := trtWorker(t, nil)
			c2, a2 := trtWorker(t, nil)
			g, a3 := trtWorker(t, nil)
			r := trtRouter(t, fmt.Sprintf("schedule_style: %s\nnode_id: 9\nperf_metrics_max_requests: 100\n"+
				"context_servers:\n  num_instances: 2\n  urls: [%q, %q]\n  router: {type: conversation}\n"+
				"generation_servers:\n  num_instances: 1\n  urls: [%q]\n", style, a1, a2, a3), nil)
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					body := fmt.Sprintf(trtChat, i, i%2 == 0)
					if status, got := fetched(t, "POST", r.url+"/v1/chat/completions", body); status != 200 ||
						!strings.Contains(got, "content") {
						t.Errorf("%d %s", status, got)
					}
				})
			}
			wg.Wait()
			if kv := g.KV(); kv.Loaded != 12 || kv.Refused+c1.KV().Refused+c2.KV().Refused != 0 ||
				c1.KV().Open+c2.KV().Open != 0 {
				t.Errorf("handed over: %+v %+v to %+v", c1.KV(), c2.KV(), kv)
			}
			if status, _ := fetched(t, "GET", r.url+"/health", ""); status != 200 {
				t.Errorf("/health: %d", status)
			}
			if status, got := fetched(t, "GET", r.url+"/version", ""); status != 200 ||
				!strings.HasPrefix(got, `{"version":"`) {
				t.Errorf("/version: %d %s", status, got)
			}
			_, got := fetched(t, "GET", r.url+"/cluster_info", "")
			var info struct {
				Ready bool                `json:"is_ready"`
				Lists map[string][]string `json:"server_lists"`
			}
			if err := json.Unmarshal([]byte(got), &info); err != nil || !info.Ready ||
				len(info.Lists["context"]) != 2 || len(info.Lists["generation"]) != 1 ||
				info.Lists["generation"][0] != a3 {
				t.Errorf("/cluster_info: %s", got)
			}
			_, got = fetched(t, "GET", r.url+"/prometheus/metrics", "")
			for _, want := range []string{
				"total_requests_total 12\n", "stream_requests_total 6\n", "ctx_completed_requests_total 12\n",
				"gen_total_requests_total 12\n", "gen_first_token_latency_seconds_count 12\n",
				"ctx_error_requests_total 0\n",
			} {
				if !strings.Contains(got, "\n"+want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			perfJoins(t, r.url, a3)
			if status, got := fetched(t, "GET", r.url+"/v1/models", ""); status != 200 ||
				!strings.Contains(got, `"m"`) {
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

// TestTRTLLMCluster: workers register themselves over HTTP, as the real ones do, serve, and go: by their own word, or
// when they are not heard of.
func TestTRTLLMCluster(t *testing.T) {
	t.Parallel()
	r := trtRouter(t, "context_servers: {}\ngeneration_servers: {}\n"+
		"disagg_cluster:\n  cluster_uri: http://localhost:8000\n  cluster_name: blue\n"+
		"  minimal_instances: {context_servers: 1, generation_servers: 2}\n", func(c *config.Config) {
		c.TRTLLM.Cluster.Allow = []string{"127.0.0.0/8"}
	})
	if status, _ := fetched(t, "GET", r.url+"/health", ""); status != 503 {
		t.Errorf("/health of an empty cluster: %d", status)
	}
	key := func(id string) string { return "/trtllm-disagg/blue/workers/" + id }
	register := func(id, address string, role int, ttl float64) (int, string) {
		host, port, _ := strings.Cut(address, ":")
		value := fmt.Sprintf(`{"worker_id":%q,"host":%q,"port":%s,"role":%d}`, id, host, port, role)
		var body bytes.Buffer
		_ = json.NewEncoder(&body).Encode(map[string]any{
			"key": key(id), "value": value, "expire_time": -1, "ttl": ttl, "overwrite_if_exists": false,
		})
		return fetched(t, "POST", r.url+"/set", body.String())
	}
	_, a1 := trtWorker(t, nil)
	_, a2 := trtWorker(t, nil)
	_, a3 := trtWorker(t, nil)
	for i, w := range []struct {
		at   string
		role int
	}{{a1, 0}, {a2, 1}, {a3, 1}} {
		if status, got := register(fmt.Sprint("w", i), w.at, w.role, 60); status != 200 || got != `{"result":true}` {
			t.Errorf("/set: %d %s", status, got)
		}
	}
	if status, got := register("w0", a1, 0, 60); status != 400 || got != `{"result":false}` {
		t.Errorf("/set again: %d %s", status, got)
	}
	health := func(want int) bool {
		for range aWhile / (50 * time.Millisecond) {
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
	for _, want := range []string{
		`"is_ready":true`, `"current_workers":{"context_servers":[{"worker_id":"w0"`,
		`"minimal_instances":{"context_servers":1,"generation_servers":2}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	for path, want := range map[string]int{
		"/get?key=" + key("w0"): 200, "/get?key=x": 400, "/get_prefix?key_prefix=/trtllm-disagg/blue/": 200,
		"/get_prefix?key_prefix=/other": 400, "/expire?ttl=60&key=" + key("w1"): 200, "/expire?ttl=60&key=x": 400,
		"/get_prefix?keys_only=true&key_prefix=" + key(""): 200,
	} {
		if status, got := fetched(t, "GET", r.url+path, ""); status != want || !strings.HasPrefix(got, `{"result":`) {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	if status, got := fetched(t, "GET", r.url+"/expire?ttl=1&key="+key("w2"), ""); status != 200 {
		t.Errorf("/expire: %d %s", status, got)
	}
	if !health(503) {
		t.Error("a worker that was not heard of is still counted")
	}
	if status, got := fetched(t, "DELETE", r.url+"/delete?key="+key("w0"), ""); status != 200 ||
		got != `{"result":true}` {
		t.Errorf("/delete: %d %s", status, got)
	}
	if status, _ := fetched(t, "DELETE", r.url+"/delete?key="+key("w0"), ""); status != 400 {
		t.Errorf("/delete again: %d", status)
	}
	for range aWhile / (50 * time.Millisecond) {
		if _, got := fetched(t, "GET", r.url+"/cluster_info", ""); strings.Contains(got, `"context":[]`) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("a worker that left is still there")
}

// TestTRTLLMWhoRegisters: the traffic listener refuses registrations that the configuration does not allow, and those
// of foreign hosts.
func TestTRTLLMWhoRegisters(t *testing.T) {
	t.Parallel()
	const yaml = "context_servers: {}\ngeneration_servers: {}\ndisagg_cluster:\n  cluster_uri: http://localhost:8000\n"
	set := func(at, host, token string) int {
		t.Helper()
		body := fmt.Sprintf(`{"key":"/trtllm-disagg//workers/%s","value":"{\"worker_id\":\"w\",\"host\":\"%s\",\"port\":9,\"role\":0}","overwrite_if_exists":true}`, host, host)
		req, err := http.NewRequest("POST", at+"/set", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for name, c := range map[string]struct {
		change func(*config.TRTCluster)
		token  string
		want   map[string]int // by host
	}{
		"nothing is said": {func(*config.TRTCluster) {}, "", map[string]int{"127.0.0.1": 403}},
		"another network": {
			func(c *config.TRTCluster) { c.Allow = []string{"10.0.0.0/8"} }, "", map[string]int{"127.0.0.1": 403},
		},
		"this network": {
			func(c *config.TRTCluster) { c.Allow = []string{"127.0.0.1"} }, "",
			map[string]int{
				"127.0.0.1": 200, "localhost": 200, "169.254.169.254": 403, "metadata.internal": 403,
				"10.0.0.1": 403, "": 403,
			},
		},
		"hosts": {
			func(c *config.TRTCluster) {
				c.Allow, c.AllowHosts = []string{"127.0.0.1"}, []string{"10.1.0.0/16", "*.nodes"}
			}, "",
			map[string]int{"10.1.2.3": 200, "10.2.2.3": 403, "a.nodes": 200, "a/b.nodes": 403, "nodes": 403},
		},
		"no token":      {func(c *config.TRTCluster) { c.Token = "s3cret" }, "", map[string]int{"127.0.0.1": 403}},
		"a wrong token": {func(c *config.TRTCluster) { c.Token = "s3cret" }, "other", map[string]int{"127.0.0.1": 403}},
		"the token": {
			func(c *config.TRTCluster) { c.Token = "s3cret" }, "s3cret",
			map[string]int{"127.0.0.1": 200, "10.0.0.1": 403},
		},
		"its network only, with the token": {
			func(c *config.TRTCluster) { c.Token, c.Allow = "s3cret", []string{"10.0.0.0/8"} }, "s3cret",
			map[string]int{"127.0.0.1": 403},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := trtRouter(t, yaml, func(cfg *config.Config) { c.change(&cfg.TRTLLM.Cluster) })
			for host, want := range c.want {
				if got := set(r.url, host, c.token); got != want {
					t.Errorf("%q: %d, want %d", host, got, want)
				}
			}
			if len(r.fleet.Status()) > 0 && c.want["127.0.0.1"] == 403 {
				t.Errorf("endpoints: %+v", r.fleet.Status())
			}
			if c.want["127.0.0.1"] != 403 {
				return
			}
			for _, of := range []struct{ method, path string }{
				{"DELETE", "/delete?key=x"},
				{"GET", "/get?key=x"},
				{"GET", "/expire?key=x&ttl=1"},
				{"GET", "/get_prefix?key_prefix=/"},
			} {
				if status, _ := fetched(t, of.method, r.url+of.path, ""); status != 403 {
					t.Errorf("%s: %d, want 403", of.path, status)
				}
			}
		})
	}
	t.Run("a listener of its own", func(t *testing.T) {
		var said lockedBuffer
		r := trtRouterSaying(t, &said, yaml, func(cfg *config.Config) { cfg.TRTLLM.Cluster.Listen = "127.0.0.1:0" })
		_, at, ok := strings.Cut(said.String(), "address=")
		if !ok {
			t.Fatalf("no address in %s", said.String())
		}
		at = "http://" + strings.Fields(at)[0]
		if got := set(at, "127.0.0.1", ""); got != 200 {
			t.Errorf("at the workers' listener: %d", got)
		}
		if got := set(at, "10.0.0.1", ""); got != 403 {
			t.Errorf("a foreign host at the workers' listener: %d", got)
		}
		if got := set(r.url, "127.0.0.1", ""); got == 200 {
			t.Error("clients may register too")
		}
		for range 100 {
			if len(r.fleet.Status()) > 0 {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error("the worker never became an endpoint")
	})
}
