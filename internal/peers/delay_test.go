package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// BenchmarkDelay is how long news take from the router where something happens into the books of two others, at 1,000
// requests a second of three routers on this machine: directly, and over a redis-server where there is one.
func BenchmarkDelay(b *testing.B) {
	for _, over := range []string{"direct", "redis"} {
		b.Run(over, func(b *testing.B) {
			const routers, gap = 3, time.Millisecond
			var mu sync.Mutex
			var late []time.Duration
			hears := live.Listener{Entry: func(e *route.Entry) {
				if ev, ok := e.Event.(route.PeerNews); ok {
					delay := time.Since(ev.At)
					mu.Lock()
					late = append(late, delay)
					mu.Unlock()
				}
			}}
			var listeners []net.Listener
			var targets []string
			for range routers {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				listeners, targets = append(listeners, l), append(targets, l.Addr().String())
			}
			at := ""
			if over == "redis" {
				port := freePort()
				at, _ = server(b, port)
				answers(b, port)
			}
			ctx, stop := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer stop()
			var all []*live.Fleet
			var groups []*Group
			for _, l := range listeners {
				var t Transport = NewDirect(l, targets, slog.New(slog.DiscardHandler))
				if over == "redis" {
					l.Close()
					d, err := NewRedis("redis://"+at+"/0", RedisOptions{})
					if err != nil {
						b.Fatal(err)
					}
					t = d
				}
				g, err := New(Config{Fleet: "delay", Transport: t, Policy: func() uint64 {
					return 1
				}, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					b.Fatal(err)
				}
				f := live.New(route.New(route.Config{
					Policy: func() pick.Policy { return firstPick{} }, Replicas: true,
				}), time.Now, g.Listener(), hears)
				g.Serve(f)
				f.Observe(route.Declared{
					Source: "test", Endpoints: []fleet.Endpoint{{Name: "x", URL: "http://x", Weight: 1}},
				})
				f.Observe(route.Probed{Endpoint: "x", Report: fleet.Report{
					Healthy: true, CacheTokens: 1 << 22, Models: []fleet.Model{{ID: "m"}},
				}})
				all, groups = append(all, f), append(groups, g)
				wg.Go(func() { g.Run(ctx) })
			}
			until(b, func() bool {
				for _, g := range groups {
					s := g.Status()
					if s.Learning || len(s.Peers) != routers-1 ||
						slices.ContainsFunc(s.Peers, func(p PeerStatus) bool { return !p.Synced }) {
						return false
					}
				}
				return true
			})
			before := uint64(0)
			for _, g := range groups {
				before += g.Status().SentBytes
			}
			blocks := make([]uint64, 64)
			b.ResetTimer()
			began := time.Now()
			for n := range b.N {
				time.Sleep(time.Until(began.Add(time.Duration(n) * gap)))
				for i := range blocks {
					blocks[i] = uint64(n/8)<<32 + uint64(i) // 8 kB, every eighth prompt new
				}
				f := all[n%routers]
				p, err := f.Decide(&fleet.Request{
					Model: "m", Session: fmt.Sprint("chat", n/8), PromptTokens: 2000, Stream: true,
					Content: &fleet.Content{Blocks: blocks[:48+n%8*2], Bytes: (48 + n%8*2) * fleet.BlockBytes},
				})
				if err != nil {
					b.Fatal(err)
				}
				time.AfterFunc(20*time.Millisecond, func() {
					f.Observe(route.FirstByte{Lease: p.Lease})
					time.AfterFunc(30*time.Millisecond, func() {
						f.Observe(route.Finished{
							Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 100},
						})
					})
				})
			}
			until(b, func() bool { // all has ended everywhere
				return !slices.ContainsFunc(all, func(f *live.Fleet) bool { return f.Status()[0].Load.Requests > 0 })
			})
			b.StopTimer()
			sent, gaps := uint64(0), uint64(0)
			for _, g := range groups {
				s := g.Status()
				sent, gaps = sent+s.SentBytes, gaps+s.Lost
			}
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(late)
			b.ReportMetric(late[len(late)/2].Seconds()*1000, "p50-ms")
			b.ReportMetric(late[len(late)*99/100].Seconds()*1000, "p99-ms")
			b.ReportMetric(float64(sent-before)/float64(b.N), "B/request")
			b.ReportMetric(float64(gaps), "gaps")
		})
	}
}
