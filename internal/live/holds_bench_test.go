//go:build linux

package live_test

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// threadTime is the processor time of the calling thread: other processes of the machine do not change it.
func threadTime() time.Duration {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

// holds are the times for which the lock was held, by what it was held for.
type holds map[string][]time.Duration

func (h holds) time(what string, do func()) {
	began := threadTime()
	do()
	h[what] = append(h[what], threadTime()-began)
}

// BenchmarkHolds measures for how long the lock is held, in µs of processor time, while requests and the router's own
// regular questions come: prompts of 500 kB, half of them new and half the next turn of a conversation, over fleets of
// several sizes. It reports the median and the 99.9th percentile of each kind, which is the longest where there were
// fewer than a thousand.
func BenchmarkHolds(b *testing.B) {
	for _, endpoints := range []int{4, 256, 1000} {
		b.Run(fmt.Sprint(endpoints), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f := live.New(route.New(route.Config{
				Policy:   func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) },
				Sessions: session.Config{Max: 10_000},
			}), time.Now)
			d := route.Declared{Source: "s"}
			for i := range endpoints {
				d.Endpoints = append(d.Endpoints, fleet.Endpoint{
					Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1,
				})
			}
			f.Observe(d)
			probed := func(i int) {
				f.Observe(route.Probed{Endpoint: d.Endpoints[i].Name, Report: fleet.Report{
					Healthy: true, Slots: 64, CacheTokens: 500_000, Models: []fleet.Model{{
						ID: "m", ContextTokens: 1_000_000,
					}},
				}})
			}
			for i := range endpoints {
				probed(i)
			}
			const kept = 200 // conversations
			h := holds{}
			blocks := make([]uint64, 500_000/fleet.BlockBytes)
			open := make([]fleet.Lease, 0, 4*endpoints)
			turn := func(n int) {
				of := uint64(n)
				if n%2 == 0 {
					of = uint64(n / 2 % kept)
				}
				for i := range blocks {
					key := uint64(i)
					if i > len(blocks)/8 || n%2 == 1 {
						key += (of + 1) << 20
					}
					blocks[i] = key * 0x9e3779b97f4a7c15
				}
				req := fleet.Request{
					ID: "r", Model: "m", Stream: true, Session: fmt.Sprint("s", of),
					PromptBytes: len(blocks) * fleet.BlockBytes,
					Content:     &fleet.Content{Blocks: blocks, Bytes: len(blocks) * fleet.BlockBytes},
				}
				h.time("decision", func() {
					p, err := f.Decide(&req)
					if err != nil {
						b.Fatal(err)
					}
					open = append(open, p.Lease)
				})
				h.time("first-byte", func() { f.Observe(route.FirstByte{Lease: open[len(open)-1]}) })
				if len(open) == cap(open) {
					h.time("end", func() {
						f.Observe(route.Finished{
							Lease: open[0], Usage: fleet.Usage{PromptTokens: 120_000, OutputTokens: 100},
						})
					})
					open = append(open[:0], open[1:]...)
				}
			}
			for n := range cap(open) + kept {
				turn(n)
			}
			clear(h)
			for n := 0; b.Loop(); n++ {
				turn(n)
				h.time("probe", func() { probed(n % endpoints) })
				if n%20 == 0 {
					var signs route.StreamsAlive
					for _, l := range open {
						signs.Signs = append(signs.Signs, route.Sign{Lease: l, At: time.Now()})
					}
					h.time("signs", func() { f.Observe(signs) })
					all := route.Statuses{Of: make([]route.EndpointStatus, 0, endpoints)}
					for more := true; more; {
						h.time("status", func() {
							f.Inside(func(now time.Time, r *route.Router) { more = r.Describe(now, &all) })
						})
					}
					h.time("models", func() { f.Models() })
					h.time("stats", func() { f.Stats() })
					h.time("ready", func() { f.Ready() })
				}
			}
			for what, took := range h {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs-"+what)
				b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds())/1000, "p99.9-µs-"+what)
			}
		})
	}
}
