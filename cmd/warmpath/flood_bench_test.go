package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	simengine "github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// BenchmarkFlood is the live form of sim's TestFlooded: four tenants with equal load, with and without a bound of 12
// running requests each, against four simulated engines over HTTP. It reports the p95 time to first token and the hit
// rate of three of them while the fourth sends its share ("calm"), and while it sends ten times as much ("flood"). A
// run takes three minutes.
//
//	go test ./cmd/warmpath -run '^$' -bench Flood -benchtime 1x
func BenchmarkFlood(b *testing.B) {
	for _, c := range []struct {
		name           string
		times, running int
	}{{"calm", 1, 12}, {"flood", 10, 12}, {"flood without limits", 10, 0}} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				playFlood(b, c.times, c.running)
			}
		})
	}
}

// playFlood plays the conversations of four tenants, of which the last sends a multiple of its share.
func playFlood(b *testing.B, times, running int) {
	const tenants, perSecond, seconds = 4, 8, 40
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", ""
	cfg.Health.Ramp = time.Millisecond
	cfg.Tenants.Each.Running = running
	for i := range tenants {
		cfg.Tenants.APIKeys = append(cfg.Tenants.APIKeys, config.TenantKey{
			Tenant: fmt.Sprint(i), Key: fmt.Sprint("sk-", i),
		})
	}
	for i := range 4 {
		s, err := enginetest.New(enginetest.Options{
			Models: []string{"m"}, Engine: simengine.DefaultConfig(), ContextTokens: 100_000,
		})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		url, err := s.Listen("127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{URL: url, Name: fmt.Sprint("e", i)})
	}
	r, err := start(b.Context(), &cfg, thisBuild(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), aWhile)
		defer cancel()
		if err := r.stop(ctx); err != nil {
			b.Error(err)
		}
	}()
	r.waitReady(b.Context(), aWhile)

	w := trace.Chats()
	w.PerSecond, w.Conversations = perSecond, perSecond*seconds
	talks := make([][]trace.Conversation, tenants)
	for i, c := range w.Draw(1) {
		talks[i%tenants] = append(talks[i%tenants], c)
	}
	if more := times - 1; more > 0 {
		w.PerSecond, w.Conversations = perSecond*float64(more)/tenants, perSecond*seconds*more/tenants
		talks[tenants-1] = append(talks[tenants-1], w.Draw(1001)...)
		slices.SortStableFunc(talks[tenants-1], func(a, b trace.Conversation) int { return int(a.Start - b.Start) })
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	others, flood := play.NewScore(), play.NewScore()
	b.ResetTimer()
	var mu sync.Mutex
	var ttft []time.Duration
	quietTurn := func(t play.Turn) {
		others.Add(t)
		mu.Lock()
		defer mu.Unlock()
		ttft = append(ttft, t.TTFT)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var quiet, all sync.WaitGroup
	for i := range tenants {
		at := play.Target{URL: r.url, Model: "m", APIKey: fmt.Sprint("sk-", i), IgnoreEOS: true, Client: client}
		if i == tenants-1 {
			all.Go(func() { at.Play(ctx, talks[i], 0, flood.Add) })
			continue
		}
		quiet.Go(func() { at.Play(ctx, talks[i], 0, quietTurn) })
	}
	quiet.Wait()
	cancel() // a flood that would go on for many minutes has done what it can
	all.Wait()
	b.StopTimer()
	s := others.Summary()
	if s.Failed > 0 {
		b.Errorf("%d of %d turns of the others failed: %s", s.Failed, s.Requests, s.LastError)
	}
	slices.Sort(ttft)
	b.ReportMetric(float64(ttft[len(ttft)*95/100])/float64(time.Millisecond), "p95-ms")
	b.ReportMetric(s.TTFT.Mean, "mean-ms")
	b.ReportMetric(100*s.HitRate, "hit-%")
	b.ReportMetric(float64(s.Requests), "turns")
	b.ReportMetric(float64(flood.Summary().Requests), "flood-turns")
}
