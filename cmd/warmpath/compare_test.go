package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// compared is a trace that is played twice, in real time through serve and in virtual time through the simulator.
type compared struct {
	trace *simtrace.Trace
	fleet simrig.Fleet
	plan  simtrace.Plan
	load  float64
}

// figures are what is compared.
type comparedFigures struct {
	hit, p50, p90, mean float64
	engines             float64 // the median as the engines had it, without what HTTP and a busy machine add; 0 unknown
}

func (f comparedFigures) String() string {
	return fmt.Sprintf("hit rate %.3f, ttft mean %.1f ms, p50 %.1f ms, p90 %.1f ms", f.hit, f.mean, f.p50, f.p90)
}

// TestCompareWithSimulated plays a generated workload through serve against simulated engines over HTTP, in real time,
// and through the
// simulator: the hit rates are within a point, the medians of the time to first token within 10 %, and the policies
// rank alike. It takes two minutes, so it runs on request only. On a machine where one timer in ten is late by more
// than 2 ms, what clients see is told and not judged: a first token passes a dozen goroutines on its way.
func TestCompareWithSimulated(t *testing.T) {
	if os.Getenv("WARMPATH_COMPARE") == "" {
		t.Skip("it takes minutes of real time; set WARMPATH_COMPARE=1 to run it")
	}
	c := newCompared(t)
	policies := []string{"round_robin", "least_tokens", "consistent_hash", "least_ttft"}
	live, simulated := make([]comparedFigures, len(policies)), make([]comparedFigures, len(policies))
	var wg sync.WaitGroup
	for i, by := range policies { // none needs much of the machine
		wg.Go(func() { live[i] = c.live(t, by) })
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	late, worst := lateness(ended)
	busy := worst > 2*time.Millisecond
	t.Logf("while it ran, timers were late by %v in the median, %v in one of ten", late, worst)
	for i, by := range policies {
		simulated[i] = c.simulated(t, by)
		l, s := live[i], simulated[i]
		t.Logf("%-16s live       %v; in the engines p50 %.1f ms", by, l, l.engines)
		t.Logf("%-16s simulated  %v; off by %+.2f points and %+.1f %%", "", s, 100*(l.hit-s.hit), 100*(l.p50/s.p50-1))
		if math.Abs(l.hit-s.hit) > 0.01 {
			t.Errorf("%s: the hit rates are %.1f points apart, at most 1 is allowed", by, 100*math.Abs(l.hit-s.hit))
		}
		if math.Abs(l.engines/s.p50-1) > 0.1 {
			t.Errorf("%s: the medians in the engines are %.1f %% apart, at most 10 are allowed",
				by, 100*math.Abs(l.engines/s.p50-1))
		}
		if math.Abs(l.p50/s.p50-1) > 0.1 && !busy {
			t.Errorf("%s: the medians are %.1f %% apart, at most 10 are allowed", by, 100*math.Abs(l.p50/s.p50-1))
		}
	}
	if l, s := ranked(policies, live, simulated), ranked(policies, simulated, live); !slices.Equal(l, s) {
		t.Errorf("live they rank %v, simulated %v", l, s)
	}
}

// lateness is how late timers were until something has ended: the machine's part in what is measured.
func lateness(ended <-chan struct{}) (median, often time.Duration) {
	var late []time.Duration
	for {
		began := time.Now()
		select {
		case <-ended:
			slices.Sort(late)
			return late[len(late)/2], late[len(late)*9/10]
		case <-time.After(20 * time.Millisecond):
			late = append(late, time.Since(began)-20*time.Millisecond)
		}
	}
}

// ranked are policies by their mean time to first token, the best first. Two that are within 5 % of each other in both
// plays, which nothing tells apart, keep their order.
func ranked(policies []string, by, other []comparedFigures) []string {
	order := make([]int, len(policies))
	for i := range order {
		order[i] = i
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.05*max(a, b) }
	slices.SortStableFunc(order, func(a, b int) int {
		if near(by[a].mean, by[b].mean) && near(other[a].mean, other[b].mean) || by[a].mean == by[b].mean {
			return 0
		}
		if by[a].mean < by[b].mean {
			return -1
		}
		return 1
	})
	var out []string
	for _, i := range order {
		out = append(out, policies[i])
	}
	return out
}

func newCompared(t *testing.T) *compared {
	t.Helper()
	g := simtrace.DefaultGenerator()
	g.Conversations, g.Turns, g.Think, g.Answer = 400, 3, 2*time.Second, 8
	// Slow engines: what HTTP adds to a first token is little beside what they take.
	preset, _ := simrig.PresetNamed("reference")
	engine := preset.Engine
	engine.CacheTokens = 200_000 / 64 * 64
	c := &compared{trace: g.Trace(11), fleet: simrig.Even(12, engine.Slower(2)), load: 0.25}
	if load, err := strconv.ParseFloat(os.Getenv("WARMPATH_COMPARE_LOAD"), 64); err == nil {
		c.load = load
	}
	var err error
	if c.plan, err = c.fleet.Plan(c.trace, c.load, 0, 1); err != nil {
		t.Fatal(err)
	}
	return c
}

// names says whether clients name their conversations: where the policy reads prompts they need not.
func names(by string) bool { return !policy.ReadsContent(policy.Config{Name: by}) }

func (c *compared) simulated(t *testing.T, by string) comparedFigures {
	t.Helper()
	newPolicy, err := policy.New(policy.Config{Name: by})
	if err != nil {
		t.Fatal(err)
	}
	r := drive.Replay{
		Trace: c.trace, Fleet: c.fleet, Policy: newPolicy, Content: !names(by), IDs: names(by), Load: c.load, Seed: 1,
	}
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	f := figures.Of(&r, o, figures.Objective{})
	return comparedFigures{hit: f.HitRate, p50: f.TTFT.P50, p90: f.TTFT.P90, mean: f.TTFT.Mean}
}

// live plays the trace against simulated engines of the fleet.
func (c *compared) live(t *testing.T, by string) comparedFigures {
	t.Helper()
	var mu sync.Mutex
	var took []float64 // ms
	computed := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		took = append(took, d.Seconds()*1000)
	}
	var urls []string
	for _, e := range c.fleet.Endpoints {
		s, err := enginetest.New(enginetest.Options{
			Models: []string{"m"}, Engine: e.Engine, ContextTokens: 100_000, Computed: computed,
		})
		if err != nil {
			t.Error(err)
			return comparedFigures{}
		}
		defer s.Close()
		url, err := s.Listen("127.0.0.1:0")
		if err != nil {
			t.Error(err)
			return comparedFigures{}
		}
		urls = append(urls, url)
	}
	f := c.against(t, by, "m", "", urls, "")
	mu.Lock()
	defer mu.Unlock()
	if slices.Sort(took); len(took) > 0 {
		f.engines = took[len(took)/2]
	}
	return f
}

// against plays the trace through serve against engines at addresses. record is a file to record it in; empty for none.
func (c *compared) against(t *testing.T, by, model, salt string, urls []string, record string) comparedFigures {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.Policy.Name = "127.0.0.1:0", "", by
	cfg.Health.Ramp, cfg.Probe.Interval, cfg.Probe.LoadInterval = time.Millisecond, 10*time.Second, 10*time.Second
	cfg.Record.File = record
	for i, url := range urls {
		cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{URL: url, Name: fmt.Sprint("e", i)})
	}
	r, err := start(t.Context(), &cfg, thisBuild(),
		slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Error(err)
		return comparedFigures{}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), aWhile)
		defer cancel()
		if err := r.stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.waitReady(t.Context(), aWhile)
	target := play.Target{
		URL: r.url, Model: model, IgnoreEOS: true,
		Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200, IdleConnTimeout: 20 * time.Second}},
	}
	if names(by) {
		target.Sessions = play.Send
	}
	score := play.NewScore()
	if err := playTrace(t.Context(), &target, salt, c.trace, c.plan, score.Add); err != nil {
		t.Error(err)
		return comparedFigures{}
	}
	s := score.Summary()
	if s.Failed > 0 {
		t.Errorf("%s: %d of %d turns failed: %s", by, s.Failed, s.Requests, s.LastError)
	}
	return comparedFigures{hit: s.HitRate, p50: s.TTFT.P50, p90: s.TTFT.P90, mean: s.TTFT.Mean}
}
