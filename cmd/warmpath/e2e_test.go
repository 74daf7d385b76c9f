package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/trace"
)

// rig is a whole router in front of simulated engines, on loopback.
type rig struct {
	*router
	engines []*enginetest.Server
	silent  bool // the engines publish no KV events
}

// start makes all parts of a router and runs them, on sockets of its own.
func start(ctx context.Context, cfg *config.Config, b build, log *slog.Logger) (*router, error) {
	return startOn(ctx, cfg, b, nil, log)
}

// simEngine starts a simulated engine until the test ends, and returns its URL.
func simEngine(t *testing.T, o enginetest.Options) (*enginetest.Server, string) {
	t.Helper()
	e, err := enginetest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	url, err := e.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return e, url
}

// fetch is what a client sees of one request. Its headers are names and values in turn.
func fetch(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
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
	return res, string(b)
}

// stopAtEnd stops a router when the test ends. Then its books are to be empty.
func stopAtEnd(t *testing.T, r *router) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), aWhile)
		defer cancel()
		if err := r.stop(ctx); err != nil {
			t.Error(err)
		}
		if s := r.fleet.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
			t.Errorf("at the end: %+v", s)
		}
		for _, s := range r.fleet.Status() {
			if s.Load != (fleet.Load{}) {
				t.Errorf("%s: books are not empty at the end: %+v", s.Endpoint.Name, s.Load)
			}
		}
	})
}

func newRig(t *testing.T, engines int, change func(*config.Config)) *rig {
	t.Helper()
	r := &rig{}
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Probe.Interval, cfg.Probe.LoadInterval, cfg.Health.Ramp = 50*time.Millisecond, 50*time.Millisecond,
		100*time.Millisecond
	cfg.Probe.Timeout = aWhile // a machine that stands still for 2 s is no engine that is down
	for i := range engines {
		e, url := simEngine(t, enginetest.Options{Models: []string{"m"}, Seed: uint64(i), Speed: 20})
		r.engines = append(r.engines, e)
		cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{URL: url, Name: fmt.Sprint("e", i)})
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	r.router, err = start(context.Background(), &cfg, thisBuild(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, r.router)
	r.waitReady(context.Background(), aWhile)
	return r
}

func (r *rig) play(w trace.Generator) play.Summary { return r.playSeed(w, 1) }

// playSeed plays conversations of their own, which no engine has seen before.
func (r *rig) playSeed(w trace.Generator, seed uint64) play.Summary {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	score := play.NewScore()
	target := play.Target{URL: r.url, Model: "m", Sessions: play.Adopt, IgnoreEOS: true, Client: client}
	target.Play(context.Background(), w.Draw(seed), aWhile, score.Add)
	return score.Summary()
}

func quickWorkload() trace.Generator {
	w := trace.Chats()
	w.Conversations, w.PerSecond, w.Turns, w.Think, w.System, w.User, w.Answer = 40, 60, 4, 10*time.Millisecond,
		500, 100, 10
	return w
}

// TestFaultsThatNoClientSees: whatever an engine does before its first byte, another one answers.
func TestFaultsThatNoClientSees(t *testing.T) {
	t.Parallel()
	for _, fault := range []enginetest.Fault{
		{Kind: "500"}, {Kind: "503"}, {Kind: "429", RetryAfter: 1}, {Kind: "refuse"}, {Kind: "restart"}, {
			Kind: "slow", Factor: 3,
		},
	} {
		t.Run(string(fault.Kind), func(t *testing.T) {
			r := newRig(t, 3, nil)
			if err := r.engines[0].SetFault(fault); err != nil {
				t.Fatal(err)
			}
			s := r.play(quickWorkload())
			if s.Failed != 0 || s.Requests < 40 {
				t.Errorf("%d of %d turns failed: %s", s.Failed, s.Requests, s.LastError)
			}
		})
	}
}

// TestConversationsStayWarm: with the default policy later turns find what earlier ones computed; round robin loses it.
func TestConversationsStayWarm(t *testing.T) {
	t.Parallel()
	hit := map[string]float64{}
	for _, name := range []string{"session", "round_robin"} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t, 4, func(c *config.Config) { c.Policy.Name = name }).play(quickWorkload())
			if s.Failed != 0 {
				t.Errorf("%d failed: %s", s.Failed, s.LastError)
			}
			hit[name] = s.HitRate
		})
	}
	if hit["session"] < hit["round_robin"]+0.05 {
		t.Errorf("hit rates %v; want session ahead", hit)
	}
}

// TestEveryPolicyServes: each policy by its name carries traffic over all endpoints.
func TestEveryPolicyServes(t *testing.T) {
	t.Parallel()
	w := quickWorkload()
	w.Conversations = 30
	for _, name := range []string{
		"consistent_hash", "least_requests", "least_tokens", "power_of_two", "random", "rendezvous",
		"round_robin", "session",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRig(t, 3, func(c *config.Config) { c.Policy.Name = name }).play(w)
			if s.Failed != 0 || len(s.Shares) != 3 {
				t.Errorf("%d failed (%s), shares %+v", s.Failed, s.LastError, s.Shares)
			}
		})
	}
}

// TestDrainOverTheAdminAPI: a drained endpoint gets nothing new; undrained it serves again.
func TestDrainOverTheAdminAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, nil)
	post := func(path string) {
		t.Helper()
		res, err := http.Post(r.adminURL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(res.Body)
			t.Fatalf("%s: %d %s", path, res.StatusCode, b)
		}
	}
	post("/admin/endpoints/e0/drain?wait=5s")
	w := quickWorkload()
	w.Conversations = 10
	if s := r.play(w); s.Failed != 0 || len(s.Shares) != 1 || s.Shares[0].Endpoint != "e1" {
		t.Errorf("while e0 drains: %+v", s.Shares)
	}
	post("/admin/endpoints/e0/undrain")
	if s := r.playSeed(w, 2); s.Failed != 0 || len(s.Shares) != 2 {
		t.Errorf("afterwards: %+v", s.Shares)
	}
}

// TestMetricsTellTheStory: what clients saw is what /metrics says.
func TestMetricsTellTheStory(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, nil)
	w := quickWorkload()
	w.Conversations = 10
	s := r.play(w)
	res, err := http.Get(r.adminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	total := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "warmpath_requests_total{") {
			var n int
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
			total += n
		}
	}
	if total != s.Requests {
		t.Errorf("warmpath_requests_total adds up to %d, clients sent %d", total, s.Requests)
	}
	for _, want := range []string{
		"warmpath_ttft_seconds_bucket", "warmpath_itl_seconds_bucket", "warmpath_endpoint_outstanding_requests",
		"warmpath_endpoint_outstanding_prefill_tokens", "warmpath_prompt_tokens_total", "warmpath_cached_tokens_total",
		"warmpath_decision_seconds", "warmpath_retries_total", "warmpath_leases 0",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
