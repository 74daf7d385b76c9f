package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/doctor"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/sim/engine"
)

// states lists the states of the router's endpoints once none is unknown, and why each that is down is.
func (r *rig) states(t *testing.T) (state, detail map[string]string) {
	t.Helper()
	var told struct {
		Endpoints []struct{ Name, State, Detail string }
	}
	ctx, cancel := context.WithTimeout(t.Context(), aWhile)
	defer cancel()
	for {
		res, err := http.Get(r.adminURL + "/admin/endpoints")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(res.Body).Decode(&told)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(told.Endpoints, func(e struct{ Name, State, Detail string }) bool {
			return e.State == "unknown"
		}) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("endpoints stay unknown: %+v", told.Endpoints)
		case <-time.After(10 * time.Millisecond):
		}
	}
	state, detail = map[string]string{}, map[string]string{}
	for _, e := range told.Endpoints {
		state[e.Name], detail[e.Name] = e.State, e.Detail
	}
	return state, detail
}

// TestPartsOfOneEngine: each rank or slot that an engine has is an endpoint that serves, and those that it lacks are
// down with the reason.
func TestPartsOfOneEngine(t *testing.T) {
	for _, test := range []struct {
		name                string
		kind                fleet.Kind
		part                string
		has, declared, want int // parts of the engine, declared, up
		lacks               string
	}{
		{"vllm, all", fleet.KindVLLM, "rank", 4, 4, 4, ""},
		{"vllm, too many", fleet.KindVLLM, "rank", 4, 6, 4, "it reports 4 ranks"},
		{"sglang, all", fleet.KindSGLang, "rank", 4, 4, 4, ""},
		{"sglang, too many", fleet.KindSGLang, "rank", 4, 6, 4, "it reports 4 ranks"},
		{"llamacpp, all", fleet.KindLlamaCpp, "slot", 4, 4, 4, ""},
		{"llamacpp, too many", fleet.KindLlamaCpp, "slot", 4, 6, 4, "it reports 4 slots"},
		{"llamacpp, some", fleet.KindLlamaCpp, "slot", 4, 2, 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := enginetest.Options{Dialect: test.kind, Models: []string{"m"}, Speed: 20}
			e := discovery.EndpointConfig{Name: "e", Kind: string(test.kind)}
			if test.part == "slot" {
				o.Engine = engine.DefaultConfig()
				o.Engine.Slots, e.Slots = test.has, test.declared
			} else {
				o.Ranks, e.Ranks = test.has, test.declared
			}
			_, e.URL = simEngine(t, o)
			r := newRig(t, 0, func(c *config.Config) { c.Endpoints = []discovery.EndpointConfig{e} })
			state, detail := r.states(t)
			for i := range test.declared {
				name := fmt.Sprint("e/", test.part, i)
				if want := map[bool]string{true: "up", false: "down"}[i < test.want]; state[name] != want {
					t.Errorf("%s is %s (%s), want %s", name, state[name], detail[name], want)
				} else if want == "down" && !strings.Contains(detail[name], test.lacks) {
					t.Errorf("%s is down because %q, want %q", name, detail[name], test.lacks)
				}
			}
			served := map[string]bool{}
			for i := range 8 * test.want {
				body := fmt.Sprintf(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"%d begins a talk of its own"}]}`, i)
				res, _ := asked(t, r.url+"/v1/chat/completions", body, "X-Warmpath-Explain", "1")
				if res.StatusCode != 200 {
					t.Fatalf("status %d", res.StatusCode)
				}
				served[res.Header.Get("X-Warmpath-Endpoint")] = true
			}
			if len(served) != test.want {
				t.Errorf("requests were served by %v, want all %d", served, test.want)
			}
		})
	}
}

// TestRanksThatBeginLater: the second node of a deployment calls its ranks 4 to 7 in its metrics. Whether it takes
// these numbers in requests or 0 to 3, its ranks are up, have their own figures, and all requests are served.
func TestRanksThatBeginLater(t *testing.T) {
	for _, test := range []struct {
		name        string
		least, most int    // that it takes
		refusal     string // of another number
	}{
		{"takes the numbers of its metrics", 4, 7, "engine-core error"},
		{"counts from 0", 0, 3, "data_parallel_rank %s is out of range [0, 4)."},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			took, refused := map[string]int{}, 0
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/health":
				case "/v1/models":
					fmt.Fprint(w, `{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}`)
				case "/metrics":
					for rank := 4; rank < 8; rank++ {
						fmt.Fprintf(w,
							"vllm:num_requests_running{engine=\"%d\"} %d\nvllm:num_requests_waiting{engine=\"%d\"} 0\n",
							rank, rank-3, rank)
					}
				case "/v1/chat/completions":
					rank := r.Header.Get("X-Data-Parallel-Rank")
					n, err := strconv.Atoi(rank)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || n < test.least || n > test.most {
						refused++
						w.WriteHeader(http.StatusBadRequest)
						fmt.Fprintf(w, `{"error":{"message":%q,"type":"BadRequestError","code":400}}`,
							strings.ReplaceAll(test.refusal, "%s", rank))
						return
					}
					took[rank]++
					fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":1}}`)
				default:
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(engine.Close)
			r := newRig(t, 0, func(c *config.Config) {
				c.Policy.Name = "round_robin"
				c.Endpoints = []discovery.EndpointConfig{{Name: "e", URL: engine.URL, Kind: "vllm", Ranks: 4}}
			})
			if state, detail := r.states(t); len(state) != 4 ||
				slices.ContainsFunc(slices.Collect(maps.Values(state)), func(s string) bool { return s != "up" }) {
				t.Fatalf("%v %v", state, detail)
			}
			for _, s := range r.router.fleet.Status() {
				if want := s.Endpoint.Part.Index + 1; s.Report.Load == nil || s.Report.Load.Running != want ||
					s.Report.Ranks != 4 {
					t.Errorf("%s: %+v, want %d running", s.Endpoint.Name, s.Report.Load, want)
				}
			}
			for i := range 16 {
				body := fmt.Sprintf(
					`{"model":"m","messages":[{"role":"user","content":"%d begins a talk of its own"}]}`, i)
				res, err := http.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != 200 {
					t.Errorf("request %d: status %d", i, res.StatusCode)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for n := test.least; n <= test.most; n++ {
				if took[strconv.Itoa(n)] == 0 {
					t.Errorf("rank %d got nothing: %v", n, took)
				}
			}
			if refused > 4 {
				t.Errorf("%d requests were refused: once for each rank is enough", refused)
			}
		})
	}
}

// TestDoctorKnowsARouter: doctor says of a router that it is one, and advises no flags of an engine.
func TestDoctorKnowsARouter(t *testing.T) {
	r := newRig(t, 1, nil)
	report := doctor.Examine(t.Context(), r.url, doctor.Options{})
	var out strings.Builder
	report.Show(&out)
	if !report.Router || len(report.Advice) != 1 || report.Advice[0].Flag != "" ||
		!strings.Contains(out.String(), "warmpath endpoints") {
		t.Errorf("%+v\n%s", report, out.String())
	}
	if e := report.Endpoint(); e.Kind != "" || e.Ranks != 0 {
		t.Errorf("written as %+v", e)
	}
}
