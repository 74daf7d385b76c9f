// Package faults breaks engines behind a router and counts what its clients notice. Everything is measured from
// outside: the clients' answers, and the engines' own counters.
package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/bench/arena/stand"
)

// Kind names a fault.
type Kind string

// The faults, in the order in which they are tried: the engine that is killed does not come back.
const (
	Leaves    Kind = "leaves"     // clients leave their streams
	LeavesToo Kind = "leaves_too" // clients leave before the first token of a whole answer
	Busy      Kind = "503"        // one engine answers 503
	Failing   Kind = "500"        // one engine answers 500
	Stuck     Kind = "stuck"      // one engine computes nothing more and its health is good
	Hanging   Kind = "hanging"    // one engine accepts everything and answers nothing
	Killed    Kind = "killed"     // one engine's process is killed while it streams
)

// Kinds are all of them.
var Kinds = []Kind{Leaves, LeavesToo, Busy, Failing, Stuck, Hanging, Killed}

// Outcome is what the clients of one router noticed.
type Outcome struct {
	Kind     Kind        `json:"kind"`
	Requests int         `json:"requests"`          // sent while the fault lasted
	Failed   int         `json:"failed"`            // of these, not answered whole
	SlowestS float64     `json:"slowest_s"`         // of the answered ones
	Streams  map[End]int `json:"streams,omitempty"` // ends of the streams that the fault hit
	// time until the engine stopped computing for a client that left; -1: it did not within the limit
	FreedMs []float64 `json:"freed_ms,omitempty"`
	Example string    `json:"example,omitempty"` // of a failure
	// after the fault, time until the engine got a request again; -1: not within the limit
	BackS float64 `json:"back_s,omitempty"`
	Error string  `json:"arena_error,omitempty"` // the arena's own, which makes the rest void
}

// Plan says how much is tried.
type Plan struct {
	Kinds    []Kind
	Requests int           // for each fault
	Gap      time.Duration // between two of them
	Patience time.Duration // of clients
	Streams  int           // running when an engine is killed
	Leavers  int
}

// FullPlan is the plan of a whole run, ShortPlan that of a look.
func FullPlan() Plan {
	return Plan{
		Kinds: Kinds, Requests: 60, Gap: 50 * time.Millisecond, Patience: 20 * time.Second, Streams: 6, Leavers: 5,
	}
}

// ShortPlan leaves out what takes long.
func ShortPlan() Plan {
	return Plan{
		Kinds: []Kind{Leaves, Busy, Failing, Killed}, Requests: 20, Gap: 50 * time.Millisecond,
		Patience: 10 * time.Second, Streams: 4, Leavers: 2,
	}
}

// Engines are the engines that a router gets for its faults. Tokens come slowly, so that many streams are cheap.
func Engines() []stand.Spec {
	one := stand.Spec{PrefillRate: 36000, CacheTokens: 120000, Speed: 0.25}
	return []stand.Spec{one, one, one}
}

// trial is the faults of one router.
type trial struct {
	plan    Plan
	asker   asker
	engines []*stand.Engine
	serial  int // makes prompts differ
	mu      sync.Mutex
}

// Try puts a router through the plan. It returns what it has when ctx ends.
func Try(ctx context.Context, url string, engines []*stand.Engine, plan Plan) []Outcome {
	t := &trial{plan: plan, engines: engines, asker: asker{
		url: url, model: stand.Model, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}}
	defer t.asker.client.CloseIdleConnections()
	var out []Outcome
	for i, kind := range plan.Kinds {
		if ctx.Err() != nil {
			break
		}
		out = append(out, t.one(ctx, kind, engines[i%len(engines)]))
	}
	return out
}

// one tries one fault on one engine.
func (t *trial) one(ctx context.Context, kind Kind, victim *stand.Engine) Outcome {
	o := Outcome{Kind: kind}
	var err error
	switch kind {
	case Leaves:
		err = t.leave(ctx, &o, request{prompt: t.prompt(50), tokens: 3000, stream: true}, 100*time.Millisecond)
	case LeavesToo:
		err = t.leave(ctx, &o, request{prompt: t.prompt(25000), tokens: 100}, 0)
	case Busy, Failing:
		err = t.broken(ctx, &o, victim, fmt.Sprintf(`{"kind":%q}`, kind))
	case Stuck:
		err = t.broken(ctx, &o, victim, `{"kind":"slow","factor":1000000}`)
	case Hanging:
		err = t.broken(ctx, &o, victim, `{"kind":"hang"}`)
	case Killed:
		err = t.kill(ctx, &o)
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// prompt is a text of about that many tokens that no engine has seen.
func (t *trial) prompt(tokens int) string {
	t.mu.Lock()
	t.serial++
	n := t.serial
	t.mu.Unlock()
	text := fmt.Sprintf("question %d at %d: ", n, time.Now().UnixNano())
	return text + strings.Repeat("and so on ", max(0, 4*tokens-len(text))/10)
}

// limits of waiting for engines.
const (
	freedLimit = 10 * time.Second
	backLimit  = 15 * time.Second
)

// leave sends requests whose clients leave, and waits each time until no engine computes anything.
func (t *trial) leave(ctx context.Context, o *Outcome, r request, after time.Duration) error {
	for range t.plan.Leavers {
		client, leave := context.WithCancel(ctx)
		begun := make(chan struct{}, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = t.asker.send(client, r, func() { begun <- struct{}{} })
		}()
		if r.stream {
			select {
			case <-begun:
			case <-time.After(t.plan.Patience):
			}
		} else if err := t.waitOpen(ctx, 1, t.plan.Patience); err != nil {
			leave()
			<-ended
			return err
		}
		time.Sleep(after)
		left := time.Now()
		leave()
		<-ended
		o.Requests++
		if err := t.waitOpen(ctx, 0, freedLimit); err != nil {
			o.FreedMs = append(o.FreedMs, -1)
			return t.waitOpen(ctx, 0, 2*freedLimit) // the next fault begins with idle engines
		}
		o.FreedMs = append(o.FreedMs, float64(time.Since(left).Microseconds())/1000)
		r.prompt = t.prompt(len(r.prompt) / 4)
	}
	return nil
}

// waitOpen waits until that many generations run on all engines together.
func (t *trial) waitOpen(ctx context.Context, want int, limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		open := 0
		for _, e := range t.engines {
			if e.Ended() {
				continue
			}
			c, err := e.Counts()
			if err != nil {
				return err
			}
			open += c.Open
		}
		if open == want {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("arena: %d generations run after %v, not %d", open, limit, want)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// broken switches a fault on while requests come, and off again; then it waits until the engine is in use again.
func (t *trial) broken(ctx context.Context, o *Outcome, victim *stand.Engine, fault string) error {
	if err := victim.Fault(fault); err != nil {
		return err
	}
	t.requests(ctx, o)
	if err := victim.Fault(`{"kind":"none"}`); err != nil {
		return err
	}
	return t.back(ctx, o, victim)
}

// requests sends the plan's requests one after the other at fixed times, and waits for all.
func (t *trial) requests(ctx context.Context, o *Outcome) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for i := range t.plan.Requests {
		time.Sleep(time.Until(began.Add(time.Duration(i) * t.plan.Gap)))
		wg.Go(func() {
			client, cancel := context.WithTimeout(ctx, t.plan.Patience)
			defer cancel()
			sent := time.Now()
			end, err := t.asker.send(client, request{prompt: t.prompt(60), tokens: 4}, nil)
			mu.Lock()
			defer mu.Unlock()
			o.Requests++
			if end != Whole {
				o.Failed++
				if o.Example == "" && err != nil {
					o.Example = err.Error()
				}
				return
			}
			o.SlowestS = max(o.SlowestS, time.Since(sent).Seconds())
		})
	}
	wg.Wait()
}

// back sends requests until the engine gets one.
func (t *trial) back(ctx context.Context, o *Outcome, victim *stand.Engine) error {
	before, err := victim.Counts()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	began := time.Now()
	for time.Since(began) < backLimit && ctx.Err() == nil {
		for range 3 { // at once, so that one engine does not get them all
			wg.Go(func() {
				client, cancel := context.WithTimeout(ctx, t.plan.Patience)
				defer cancel()
				_, _ = t.asker.send(client, request{prompt: t.prompt(60), tokens: 4}, nil)
			})
		}
		time.Sleep(100 * time.Millisecond)
		now, err := victim.Counts()
		if err != nil {
			return err
		}
		if now.Started > before.Started {
			o.BackS = time.Since(began).Seconds()
			return nil
		}
	}
	o.BackS = -1
	return nil
}

// kill kills the engine with the most streams, sees how these end, and sends requests meanwhile.
func (t *trial) kill(ctx context.Context, o *Outcome) error {
	o.Streams = map[End]int{}
	streams, leave := context.WithCancel(ctx)
	defer leave()
	var begun, all sync.WaitGroup
	ends := make(chan End, t.plan.Streams)
	for range t.plan.Streams {
		begun.Add(1)
		var once sync.Once
		all.Go(func() {
			end, err := t.asker.send(streams, request{prompt: t.prompt(60), tokens: 3000, stream: true},
				func() { once.Do(begun.Done) })
			once.Do(begun.Done)
			if err != nil && streams.Err() == nil {
				t.mu.Lock()
				o.Example = err.Error()
				t.mu.Unlock()
			}
			if streams.Err() == nil {
				ends <- end
			}
		})
		time.Sleep(t.plan.Gap)
	}
	begun.Wait()
	var victim *stand.Engine
	hit := 0
	for _, e := range t.engines {
		c, err := e.Counts()
		if err != nil {
			return err
		}
		if c.Open > hit {
			victim, hit = e, c.Open
		}
	}
	if victim == nil {
		return fmt.Errorf("arena: no engine has a stream")
	}
	victim.Kill()
	t.requests(ctx, o)
	limit := time.After(t.plan.Patience)
	for n := 0; n < hit; n++ {
		select {
		case end := <-ends:
			o.Streams[end]++
		case <-limit:
			o.Streams[Late] += hit - n
			n = hit
		}
	}
	leave()
	all.Wait()
	return nil
}
