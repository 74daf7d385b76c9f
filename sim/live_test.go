package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/text"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// TestLiveDecidesAsSimulated plays a trace twice: through the live proxy, the locked fleet and simulated engines over
// HTTP, on a virtual clock; and through the simulator, which only gets what the proxy read of each body and its seeds.
// Both give equal logs of decisions, holds and events, to the nanosecond.
func TestLiveDecidesAsSimulated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		by   string
		ids  bool // clients name their conversation; otherwise the router recognises it by content
		load float64
		held bool // sessions need more memory than there is
	}{
		{"least_ttft", true, 0.8, false},
		{"least_ttft", false, 0.8, false},
		{"least_ttft", false, 6, false},
		{"least_ttft", true, 3, true},
		{"least_ttft", false, 3, true},
		{"session", true, 0.8, false},
		{"round_robin", true, 0.8, false},
		{"consistent_hash", true, 0.8, false},
		{"smg.cache_aware", false, 0.8, false},
	} {
		by := c.by
		t.Run(fmt.Sprintf("%s/ids=%v/load=%v/held=%v", by, c.ids, c.load, c.held), func(t *testing.T) {
			g := simtrace.DefaultGenerator()
			g.Conversations, g.Think = 60, 3*time.Second
			if c.load > 1 && !c.held {
				g.User *= 5
			}
			if c.held {
				g.Conversations, g.Turns, g.MaxTurns, g.Think = 60, 8, 12, time.Second
				g.System, g.First, g.User, g.Answer = 500, 20, 200, 40
			}
			engines := unlike(3)
			for i := range engines.Endpoints {
				e := &engines.Endpoints[i].Engine
				switch {
				case c.held: // the working set is a multiple of the cache
					e.PrefillTokensPerSecond /= 8
				case c.load > 1: // prompts are the bottleneck, not slots
					e.CacheTokens *= 10
				}
			}
			if !c.held {
				l := sameLogs(t, g.Trace(5), engines, by, c.ids, c.load, false)
				if c.load > 1 && !slices.ContainsFunc(l.lines, func(s string) bool {
					return strings.Contains(s, "called")
				}) {
					t.Error("no turn was queued")
				}
				return
			}
			// A conversation without an id gets a random one, which decides ties: some runs of a trace race early.
			var placed int
			for seed := uint64(0); seed < 4 || placed < 5 && seed < 20; seed++ {
				l := sameLogs(t, g.Trace(seed), engines, by, c.ids, c.load, true)
				placed += strings.Count(strings.Join(l.lines, "\n"), heldBefore)
			}
			if placed < 5 {
				t.Errorf("%d turns were held and placed before the order of goroutines counts", placed)
			}
		})
	}
}

// sameLogs compares the logs of a trace, played live and simulated, and returns what was compared: all, and with
// admission what came before goroutines race.
func sameLogs(
	t *testing.T, trace *simtrace.Trace, engines rig.Fleet, by string, ids bool, load float64, admission bool,
) decisionLog {
	t.Helper()
	r := drive.Replay{
		Trace: trace, Fleet: engines, Policy: shadowPolicies(t, by)[0].New,
		Queue: policy.Queue(policy.Config{Name: by}), Content: true, IDs: ids, Load: load, Seed: 2,
		Admission: admission,
	}
	l := &liveRun{replay: &r, requests: make([]fleet.Request, len(r.Trace.Turns))}
	synctest.Test(t, func(t *testing.T) { l.run(t) })

	var log decisionLog
	r.Announced = log.hear
	r.Asked = func(turn int, req *fleet.Request) {
		hold := req.Hold
		*req = l.requests[turn]
		req.Hold = hold
	}
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	if n := 3 * len(o.Turns); len(log.lines) < n {
		t.Errorf("the log has %d lines of %d", len(log.lines), n)
	}
	if admission {
		l.log.lines, log.lines = untilRace(l.log.lines), untilRace(log.lines)
	}
	compareLogs(t, l.log.lines, log.lines)
	return log
}

// unlike is endpoints that never end steps at the same time, so that the order of events is unique.
func unlike(n int) rig.Fleet {
	preset, _ := rig.PresetNamed("reference")
	f := rig.Even(n, preset.Engine)
	for i := range f.Endpoints {
		c := &f.Endpoints[i].Engine
		c.CacheTokens = 40_000 / 64 * 64
		c.PrefillTokensPerSecond += float64(1013 * i)
		c.StepBase += time.Duration(10_007 * i)
	}
	return f
}

// decisionLog is a router's requests, answers and events, one line each.
type decisionLog struct {
	start time.Time
	lines []string
	asked map[fleet.Lease]string
}

func (l *decisionLog) hear(e *route.Entry) {
	if l.asked == nil {
		l.asked, l.start = map[fleet.Lease]string{}, e.Now // the declaration of the endpoints comes first
	}
	line := func(format string, args ...any) {
		l.lines = append(l.lines, fmt.Sprintf("%12d ", e.Now.Sub(l.start))+fmt.Sprintf(format, args...))
	}
	switch ev := e.Event.(type) {
	case route.Tick: // the simulator does not announce them
		return
	case nil:
		d := e.Decision
		switch {
		case e.Hold != nil:
			l.asked[e.Hold.Lease] = e.Request.ID
			line("%s held until %d", e.Request.ID, e.Hold.Until.Sub(l.start))
			return
		case d == nil:
			line("%s refused: %v", e.Request.ID, e.Err)
			return
		}
		l.asked[d.Lease] = e.Request.ID
		was := ""
		if e.Request.Hold != 0 {
			was = heldBefore
		}
		line("%s -> %s %s, first %v, %d of %d tokens cached, ttft %v ms, %d candidates, waits %t%s", e.Request.ID,
			d.Endpoint.Name, d.Reason, d.FirstTurn, d.CachedTokens, d.PromptTokens, d.TTFTMs, d.Candidates, d.Queued,
			was)
	case route.FirstByte:
		line("%s first", l.asked[ev.Lease])
	case route.Finished:
		line("%s %v %+v", l.asked[ev.Lease], ev.Outcome, ev.Usage)
	}
	for _, lease := range e.Dispatched {
		line("%s called", l.asked[lease])
	}
}

// heldBefore ends the line of a decision of a turn that was held.
const heldBefore = ", was held"

// untilRace is the lines before the first instant at which two turns go on that were held, or one beside two other
// events: the order of goroutines decides which is first then.
func untilRace(lines []string) []string {
	instant := func(i int) string { return lines[i][:12] }
	for from, i, placed, events := 0, 0, 0, 0; i < len(lines); i++ {
		if instant(i) != instant(from) {
			from, placed, events = i, 0, 0
		}
		switch {
		case strings.HasSuffix(lines[i], heldBefore):
			placed++
		case strings.HasSuffix(lines[i], " first"), strings.Contains(lines[i], " ok "):
			events++
		}
		if placed > 1 || placed == 1 && events > 1 {
			return lines[:from]
		}
	}
	return lines
}

func compareLogs(t *testing.T, live, simulated []string) {
	t.Helper()
	for i := range min(len(live), len(simulated)) {
		if live[i] != simulated[i] {
			from := max(0, i-3)
			t.Fatalf("line %d differs\nlive:\n%s\nsimulated:\n%s",
				i, strings.Join(live[from:min(i+3, len(live))], "\n"),
				strings.Join(simulated[from:min(i+3, len(simulated))], "\n"))
		}
	}
	if len(live) != len(simulated) {
		t.Errorf("the live log has %d lines, the simulated one %d", len(live), len(simulated))
	}
}

// liveRun plays a replay's trace through the live packages.
type liveRun struct {
	t        *testing.T
	replay   *drive.Replay
	requests []fleet.Request // by turn, as the proxy made them
	log      decisionLog

	engines map[string]*enginetest.Server
	router  *live.Fleet
	held    int // turns that are held
	ticking bool
	door    *proxy.Proxy
	gate    gate
	sent    atomic.Int64
	orders  sync.Map // by request id: the order in which the proxy may send them
}

// run runs in a synctest bubble.
func (l *liveRun) run(t *testing.T) {
	l.t = t
	r := l.replay
	plan, err := r.Fleet.Plan(r.Trace, r.Load, r.Speed, r.Seed)
	if err != nil {
		t.Fatal(err)
	}
	router := live.New(route.New(route.Config{Policy: r.Policy, Queue: r.Queue, Admission: r.Admission}), time.Now,
		live.Listener{Entry: l.hear})
	l.router = router
	declared := route.Declared{Source: "live"}
	l.engines = map[string]*enginetest.Server{}
	for _, e := range r.Fleet.Endpoints {
		s, err := enginetest.New(enginetest.Options{Models: []string{"m"}, Engine: e.Engine, ContextTokens: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l.engines[e.Name] = s
		declared.Endpoints = append(declared.Endpoints, fleet.Endpoint{
			Name: e.Name, URL: "http://" + e.Name, Weight: 1,
		})
	}
	router.Observe(declared)
	for _, e := range r.Fleet.Endpoints {
		room := e.Engine.Blocks() * e.Engine.BlockTokens
		router.Observe(route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: "m", ContextTokens: room}}, ReportsCached: true,
			CacheTokens: int64(e.Engine.CacheTokens), BlockTokens: e.Engine.BlockTokens, Slots: e.Engine.Slots,
		}})
	}
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	l.door = proxy.New(proxy.Options{
		Config: proxy.Config{NeedsContent: true, ByContent: true}, Fleet: router, Transport: l, Parser: parser,
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	l.gate.init()
	go l.gate.run(ctx)
	var wg sync.WaitGroup
	for i := range r.Trace.Sessions {
		wg.Go(func() { l.converse(i, plan.Arrivals[i]) })
	}
	wg.Wait()
	cancel()
}

// hear logs, and keeps each turn's request.
func (l *liveRun) hear(e *route.Entry) {
	l.log.hear(e)
	l.tick(e)
	if d := e.Decision; d != nil && !d.Queued {
		l.orders.Store(e.Request.ID, l.sent.Add(1))
	}
	for _, lease := range e.Dispatched {
		l.orders.Store(l.log.asked[lease], l.sent.Add(1))
	}
	if e.Request == nil {
		return
	}
	turn, err := strconv.Atoi(e.Request.ID)
	if err != nil {
		l.t.Error(err)
		return
	}
	q := *e.Request
	if q.Content == nil {
		l.t.Errorf("turn %d: the door told nothing of the content", turn)
		return
	}
	c := *q.Content
	c.Blocks = slices.Clone(c.Blocks)
	q.Content = &c
	if (q.Trail == nil) != l.replay.IDs {
		l.t.Errorf("turn %d: the door told of the conversation by its content: %v", turn, q.Trail != nil)
	}
	if q.Trail != nil {
		q.Trail = l.kept(q.Trail)
	}
	l.requests[turn] = q
}

// tick sees to it that the router gets a tick every second while turns are held, as the simulated one does.
func (l *liveRun) tick(e *route.Entry) {
	switch {
	case e.Hold != nil:
		l.held++
	case e.Request != nil && e.Request.Hold != 0:
		l.held--
	}
	if _, ticks := e.Event.(route.Tick); ticks {
		l.ticking = false
	}
	if l.held > 0 && !l.ticking {
		l.ticking = true
		time.AfterFunc(time.Second, func() { l.router.Observe(route.Tick{}) })
	}
}

// kept copies a trail. HashAt is called only for possible ends of earlier prompts.
func (l *liveRun) kept(from *session.Trail) *session.Trail {
	to := *from
	to.Marks, to.StrictMarks, to.Blocks = slices.Clone(from.Marks), slices.Clone(from.StrictMarks),
		slices.Clone(from.Blocks)
	hashes := map[int]uint64{}
	for i := range l.replay.Trace.Turns {
		if n := l.replay.Trace.Turns[i].Prompt * text.TokenBytes; n < from.Bytes {
			hashes[n] = from.HashAt(n)
		}
	}
	to.HashAt = func(n int) uint64 {
		h, ok := hashes[n]
		if !ok {
			panic(fmt.Sprintf("no prompt ends at byte %d", n))
		}
		return h
	}
	return &to
}

// converse is the client of one session.
func (l *liveRun) converse(session int, start time.Duration) {
	trace := l.replay.Trace
	time.Sleep(start)
	first := true
	for i := range trace.Turns {
		turn := &trace.Turns[i]
		if turn.Session != session {
			continue
		}
		if !first {
			time.Sleep(turn.Delay)
		}
		first = false
		body, _ := json.Marshal(map[string]any{
			"model": "m", "prompt": trace.Text(i, text.TokenBytes), "max_tokens": turn.Output, "ignore_eos": true,
			"stream": true, "stream_options": map[string]bool{"include_usage": true},
		})
		req, _ := http.NewRequestWithContext(l.t.Context(), http.MethodPost, "http://door/v1/completions",
			bytes.NewReader(body))
		if l.replay.IDs {
			req.Header.Set("X-Session-Id", trace.Sessions[session].ID)
		}
		req.Header.Set("X-Request-Id", strconv.Itoa(i))
		w := &answer{header: http.Header{}}
		l.door.ServeHTTP(w, req)
		if w.status != http.StatusOK || !bytes.Contains(w.end(), []byte("[DONE]")) {
			l.t.Errorf("turn %d: status %d, %s", i, w.status, w.end())
		}
	}
}

// answer is what a client gets.
type answer struct {
	header http.Header
	status int
	body   []byte
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) { a.status = status }

func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

func (a *answer) Flush() {}

func (a *answer) end() []byte { return a.body[max(0, len(a.body)-200):] }

// RoundTrip passes a request to an engine in this process.
func (l *liveRun) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	order, _ := l.orders.Load(r.Header.Get("X-Request-Id"))
	w := &wire{header: http.Header{}, gate: &l.gate, order: order.(int64), begun: make(chan int, 1), body: writer}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	inner := r.Clone(r.Context())
	inner.Body, inner.RequestURI = io.NopCloser(bytes.NewReader(body)), r.URL.RequestURI()
	w.gate.pass(w.order)
	go func() {
		defer writer.Close()
		l.engines[r.URL.Host].ServeHTTP(w, inner)
		w.WriteHeader(http.StatusOK)
	}()
	return &http.Response{
		StatusCode: <-w.begun, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: reader,
		ContentLength: -1, Request: r,
	}, nil
}

// wire is an engine's connection. Simultaneous answers arrive one after another in the order of their requests, as in
// an engine's step.
type wire struct {
	header http.Header
	gate   *gate
	order  int64
	begun  chan int
	once   sync.Once
	body   *io.PipeWriter
}

func (w *wire) Header() http.Header { return w.header }

func (w *wire) WriteHeader(status int) { w.once.Do(func() { w.begun <- status }) }

func (w *wire) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.gate.pass(w.order)
	return w.body.Write(p)
}

func (w *wire) Flush() {}

// gate admits one at a time, each after all goroutines are blocked.
type gate struct{ comers chan comer }

type comer struct {
	order int64
	pass  chan struct{}
}

func (g *gate) init() { g.comers = make(chan comer) }

func (g *gate) pass(order int64) {
	c := comer{order, make(chan struct{})}
	g.comers <- c
	<-c.pass
}

func (g *gate) run(ctx context.Context) {
	var waiting []comer
	for {
		if len(waiting) == 0 {
			select {
			case c := <-g.comers:
				waiting = append(waiting, c)
			case <-ctx.Done():
				return
			}
		}
		for rest := true; rest; {
			synctest.Wait()
			select {
			case c := <-g.comers:
				waiting = append(waiting, c)
			default:
				rest = false
			}
		}
		first := 0
		for i := range waiting {
			if waiting[i].order < waiting[first].order {
				first = i
			}
		}
		close(waiting[first].pass)
		waiting = slices.Delete(waiting, first, first+1)
	}
}
