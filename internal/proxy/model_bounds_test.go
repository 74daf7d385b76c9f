package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// serves makes each endpoint of a rig serve models.
func (r *rig) serves(models ...string) {
	for _, s := range r.fleet.Status() {
		report := fleet.Report{Healthy: true, Kind: fleet.KindVLLM}
		for _, m := range models {
			report.Models = append(report.Models, fleet.Model{ID: m})
		}
		r.fleet.Observe(route.Probed{Endpoint: s.Endpoint.Name, Report: report})
	}
}

// TestTimesOfModels: how long an engine may take depends on the model, by the first entry that has it; other models
// have the bounds of all.
func TestTimesOfModels(t *testing.T) {
	cfg := proxy.Config{
		Answer: time.Minute, FirstByte: 2 * time.Minute, Idle: 3 * time.Minute, Retries: -1,
		Models: []proxy.ModelBounds{
			{Models: fleet.Names{"quick", "quick-*"}, Bounds: proxy.Bounds{
				Answer: time.Second, FirstByte: 2 * time.Second, Idle: 3 * time.Second,
			}},
			{Models: fleet.Names{"*-8b"}, Bounds: proxy.Bounds{Answer: time.Hour}},
		},
	}
	for _, tt := range []struct {
		model                   string
		answer, firstByte, idle time.Duration
	}{
		{"quick", time.Second, 2 * time.Second, 3 * time.Second},
		{"quick-8b", time.Second, 2 * time.Second, 3 * time.Second}, // the first entry, not the second
		{"other-8b", time.Hour, 2 * time.Minute, 3 * time.Minute},
		{"other", time.Minute, 2 * time.Minute, 3 * time.Minute},
	} {
		t.Run(tt.model, bubbled(func(t *testing.T) {
			r := newRig(t, cfg, func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				if strings.Contains(string(body), "begins") {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, chunk("x"))
					_ = http.NewResponseController(w).Flush()
				}
				<-q.Context().Done()
			})
			r.serves("quick", "quick-8b", "other-8b", "other")
			took := func(body string) time.Duration {
				began := time.Now()
				r.post("/v1/chat/completions", strings.Replace(body, `"m"`, `"`+tt.model+`"`, 1))
				return time.Since(began)
			}
			for _, ask := range []struct {
				name, body string
				want       time.Duration
			}{
				{"an answer", chatBody, tt.answer},
				{"a stream", streamBody, tt.firstByte},
				{
					"a stream that has begun",
					`{"model":"m","stream":true,"stream_options":{"include_usage":true},"user":"begins"}`, tt.idle,
				},
			} {
				if got := took(ask.body); got < ask.want || got > ask.want+ask.want/4+time.Second {
					t.Errorf("%s took %v, want %v", ask.name, got, ask.want)
				}
			}
		}))
	}
}

// TestRetriesOfModels: how many endpoints are tried depends on the model.
func TestRetriesOfModels(t *testing.T) {
	cfg := proxy.Config{Retries: 1, Models: []proxy.ModelBounds{
		{Models: fleet.Names{"none"}, Bounds: proxy.Bounds{Retries: -1}},
		{Models: fleet.Names{"three"}, Bounds: proxy.Bounds{Retries: 3}},
	}}
	for model, want := range map[string]int{"none": 1, "m": 2, "three": 4} {
		for _, path := range []string{"/v1/chat/completions", "/v1/embeddings"} {
			busy := answers(503, `{}`)
			r := newRig(t, cfg, busy, busy, busy, busy, busy)
			r.serves("none", "m", "three")
			r.post(path, `{"model":"`+model+`","input":"x","messages":[{"role":"user","content":"x"}]}`)
			if s := r.last(1); s.Attempts != want {
				t.Errorf("%s for %s: %d attempts, want %d", path, model, s.Attempts, want)
			}
		}
	}
}

// TestBodiesOfModels: how large a body may be depends on the model, however it is named and sent; it may be larger than
// that of all.
func TestBodiesOfModels(t *testing.T) {
	cfg := proxy.Config{BodyBytes: 8 << 10, Models: []proxy.ModelBounds{
		{Models: fleet.Names{"small"}, Bounds: proxy.Bounds{BodyBytes: 1 << 10}},
		{Models: fleet.Names{"large"}, Bounds: proxy.Bounds{BodyBytes: 64 << 10}},
	}}
	limits := map[string]int{"small": 1 << 10, "m": 8 << 10, "large": 64 << 10}
	for _, w := range []struct{ name, path, contentType, body string }{
		{"JSON", "/v1/chat/completions", "", `{"model":"MODEL","messages":[{"role":"user","content":"FILL"}]}`},
		{"JSON of an unknown path", "/v1/x", "", `{"model":"MODEL","x":"FILL"}`},
		{
			"a form", "/v1/audio/transcriptions", "multipart/form-data; boundary=x",
			"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nMODEL\r\n--x\r\n" +
				"Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nFILL\r\n--x--\r\n",
		},
		{"bytes", "/v1/x?model=MODEL", "application/octet-stream", "FILL"},
	} {
		for model, limit := range limits {
			for size, want := range map[int]int{limit: 200, limit + 1: 413} {
				for _, chunked := range []bool{false, true} {
					r := newRig(t, cfg, answers(200, chatAnswer))
					r.serves("small", "m", "large")
					body := strings.ReplaceAll(w.body, "MODEL", model)
					body = strings.Replace(body, "FILL", strings.Repeat("x", size-len(body)+len("FILL")), 1)
					var from io.Reader = strings.NewReader(body)
					if chunked {
						from = io.MultiReader(from)
					}
					req, err := http.NewRequest("POST", r.url+strings.ReplaceAll(w.path, "MODEL", model), from)
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", w.contentType)
					res, err := r.client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					text, _ := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if what := fmt.Sprint(w.name, " of ", size, " bytes for ", model,
						", chunked ", chunked); res.StatusCode != want {
						t.Errorf("%s: %d %s, want %d", what, res.StatusCode, text, want)
					} else if s := r.last(1); want == 413 && model == "small" && s.Limit != "models.settings" {
						t.Errorf("%s: limit %q", what, s.Limit)
					}
				}
			}
		}
	}
}

// TestBoundsWithoutName: a request that names no model has the bounds of the only one.
func TestBoundsWithoutName(t *testing.T) {
	cfg := proxy.Config{
		Models: []proxy.ModelBounds{{Models: fleet.Names{"small"}, Bounds: proxy.Bounds{BodyBytes: 1 << 10}}},
	}
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 2<<10) + `"}]}`
	for models, want := range map[string]int{"small": 413, "m": 200} {
		r := newRig(t, cfg, answers(200, chatAnswer))
		r.serves(models)
		if res, text := r.post("/v1/chat/completions", body); res.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", models, res.StatusCode, text, want)
		}
	}
}

// TestModelsSentAtOnce: while prompts of other models wait at the router for an engine that has enough to compute,
// those of a model that is sent at once reach it.
func TestModelsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &oneByOne{}
		cfg := proxy.Config{
			Models: []proxy.ModelBounds{{Models: fleet.Names{"now"}, Bounds: proxy.Bounds{AtOnce: true}}},
		}
		r := newRouter(t, cfg, wire(engine.RoundTrip), route.Config{
			Policy: func() pick.Policy { return inOrder{} }, Queue: route.QueueConfig{Ahead: 500 * time.Millisecond},
		}, []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}}, func(fleet.Kind) fleet.Report {
			return fleet.Report{Models: []fleet.Model{{ID: "m"}, {ID: "now"}}}
		})
		q, stop := newQueuing(t, r)
		defer synctest.Wait()
		defer stop()
		q.learn()
		ask := func(model string) {
			go func() {
				defer func() { _ = recover() }()
				body := fmt.Sprintf(`{"model":%q,"stream":true,"prompt":"%s"}`, model, strings.Repeat("abc ", 5000))
				r.proxy.ServeHTTP(httptest.NewRecorder(),
					httptest.NewRequestWithContext(q.ctx, http.MethodPost, "/v1/completions", strings.NewReader(body)))
			}()
			synctest.Wait()
		}
		for range 5 {
			ask("m")
		}
		for range 5 {
			ask("now")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.booksBalance()
		queued := map[string]int{}
		for _, s := range r.served {
			if s.Queued > 0 {
				queued[s.Decision.Model]++
			}
		}
		if queued["m"] == 0 || queued["now"] != 0 {
			t.Errorf("%v waited at the router, want some of m only", queued)
		}
	})
}
