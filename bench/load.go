package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connections is the number of clients of the closed loop, each of which sends its next request when it has its
// answer.
const connections = 16

// loadResult is what one stretch of load saw.
type loadResult struct {
	Requests int
	Errors   int
	FirstErr error
	Elapsed  time.Duration
	Latency  []time.Duration // sorted
}

// fleet is the load of one scenario: bodies that outlive the rounds, shared out between the connections so that each
// may change its own.
type fleet struct {
	scenario scenario
	bodies   []body
	sessions bool
	unique   atomic.Uint64
}

func newFleet(s scenario, seed uint64, sessions bool) *fleet {
	f := &fleet{scenario: s, bodies: buildBodies(s, seed), sessions: sessions}
	f.unique.Store(uint64(time.Now().UnixNano())) // new in every run, so that no router has seen it
	return f
}

// closedLoop keeps all connections busy for about d.
func (f *fleet) closedLoop(to target, d time.Duration) loadResult {
	results := make([]loadResult, connections)
	start := time.Now()
	var wg sync.WaitGroup
	for g := range connections {
		wg.Go(func() { results[g] = f.run(g, to, start.Add(d)) })
	}
	wg.Wait()
	total := loadResult{Elapsed: time.Since(start)}
	for _, r := range results {
		total.add(r)
	}
	slices.Sort(total.Latency)
	return total
}

// run is one connection: its bodies are g, g+16, g+32 and g+48.
func (f *fleet) run(g int, to target, end time.Time) (res loadResult) {
	c := newClient(to, f.scenario)
	defer c.close()
	var heads [][]byte
	for i := g; i < bodyCount; i += connections {
		heads = append(heads, f.head(to.addr, i))
	}
	for i := 0; ; i++ {
		now := time.Now()
		if !now.Before(end) {
			return res
		}
		turn := i % len(heads)
		b := &f.bodies[g+turn*connections]
		b.renew(f.unique.Add(1))
		if err := c.do(heads[turn], b.data); err != nil {
			if res.fail(err); res.Errors > 100 {
				return res // a router that is gone need not be asked a million times
			}
			continue
		}
		res.Requests++
		res.Latency = append(res.Latency, time.Since(now))
	}
}

// head is the request head of body i, with the id of its conversation when these are sent.
func (f *fleet) head(addr string, i int) []byte {
	session := ""
	if f.sessions {
		session = fmt.Sprintf("bench-%d", i)
	}
	return requestHead(addr, f.scenario, session)
}

func (r *loadResult) fail(err error) {
	r.Errors++
	if r.FirstErr == nil {
		r.FirstErr = err
	}
}

func (r *loadResult) add(o loadResult) {
	r.Requests += o.Requests
	r.Errors += o.Errors
	if r.FirstErr == nil {
		r.FirstErr = o.FirstErr
	}
	r.Latency = append(r.Latency, o.Latency...)
}

// quantile of sorted durations; q in 0..1.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// openLoop sends requests at a fixed rate whatever the router does, as independent users would, and measures each from
// the moment it was due to be sent: waiting for a free connection counts.
func (f *fleet) openLoop(to target, perSecond int, d time.Duration) loadResult {
	const pool = 64
	type job struct {
		due time.Time
		b   int
	}
	jobs := make(chan job, perSecond)
	head := f.head(to.addr, 0)
	results := make([]loadResult, pool)
	locks := make([]sync.Mutex, bodyCount)
	var wg sync.WaitGroup
	for g := range pool {
		wg.Go(func() {
			c := newClient(to, f.scenario)
			defer c.close()
			for j := range jobs {
				locks[j.b].Lock()
				f.bodies[j.b].renew(f.unique.Add(1))
				err := c.do(head, f.bodies[j.b].data)
				locks[j.b].Unlock()
				if err != nil {
					results[g].fail(err)
					continue
				}
				results[g].Requests++
				results[g].Latency = append(results[g].Latency, time.Since(j.due))
			}
		})
	}
	start := time.Now()
	gap := time.Second / time.Duration(perSecond)
	for i := 0; time.Duration(i)*gap < d; i++ {
		time.Sleep(time.Until(start.Add(time.Duration(i) * gap)))
		// Due now, not when it was planned: a late wake-up is this process's fault, not the router's.
		jobs <- job{due: time.Now(), b: i % bodyCount}
	}
	close(jobs)
	wg.Wait()
	total := loadResult{Elapsed: time.Since(start)}
	for _, r := range results {
		total.add(r)
	}
	slices.Sort(total.Latency)
	return total
}
