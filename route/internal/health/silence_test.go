package health

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// engine is an endpoint whose probes are good, and what it was sent and has not answered.
type engine struct {
	*Table
	now     time.Time
	sent    []request
	waiting Waiting
}

type request struct {
	at     time.Time
	stream bool
	due    time.Duration // after which its answer is overdue; 0 for never
}

// newEngine is one that has just answered. It is silent after ten seconds.
func newEngine() *engine {
	e := &engine{now: time.Unix(1_000_000, 0), Table: New(Config{
		EjectAfter: 1000, EjectFor: time.Second, EjectMax: 30 * time.Second, EjectShare: 0.5, Silent: 10 * time.Second,
	})}
	e.AddEndpoint(0)
	e.Probe(e.now, 0, true, "")
	e.Alive(0, e.now)
	e.NoRequests(e.now, 0)
	return e
}

// send sends a request, whose answer is overdue some time after the ten seconds; below 0 for never.
func (e *engine) send(stream bool, due time.Duration) {
	if due += e.cfg.Silent; due < e.cfg.Silent {
		due = 0
	}
	e.sent = append(e.sent, request{e.now, stream, due})
}

// second passes one, and reports whether the endpoint is up after it.
func (e *engine) second() bool {
	e.now = e.now.Add(time.Second)
	w := &e.waiting
	none := backlog.Unanswered{Since: e.now, LateSince: e.now}
	w.Recent, w.Older = none, none
	late := func(q *request) bool { return q.due > 0 && e.now.Sub(q.at) >= q.due }
	for i := range e.sent {
		q, u := &e.sent[i], &w.Recent
		if q.at.Before(e.Silenced(0)) {
			u = &w.Older
		}
		u.Jobs, u.Since = u.Jobs+1, fleet.Earlier(u.Since, q.at)
		if late(q) {
			u.Late, u.LateSince = true, fleet.Earlier(u.LateSince, q.at)
		}
	}
	w.NonStreamingBefore = func(moment time.Time) (n int) {
		for i := range e.sent {
			if q := &e.sent[i]; !q.stream && !late(q) && !q.at.After(moment) {
				n++
			}
		}
		return n
	}
	if len(e.sent) == 0 {
		e.NoRequests(e.now, 0)
	} else if e.IsQuiet(e.now, 0) {
		e.Listen(e.now, 0, w)
	}
	return e.State(e.now, 0) == fleet.StateUp
}

// until passes time until the endpoint is up, or is not, and returns how long that took; most is the longest.
func (e *engine) until(up bool, most time.Duration) time.Duration {
	began := e.now
	for e.now.Sub(began) < most && e.second() != up {
	}
	return e.now.Sub(began)
}

// TestLongAnswersAreNoSilence: a stream may wait for an engine's only place, taken by a non-streamed answer. No data
// comes then, and the engine is healthy.
func TestLongAnswersAreNoSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   fleet.Kind
		places int
		others int           // that are not streamed
		later  time.Duration // than the stream they come
		silent bool
	}{
		"one place":                    {"", 1, 1, 0, false},
		"one place, free":              {"", 1, 0, 0, true},
		"one place, taken soon after":  {"", 1, 1, 900 * time.Millisecond, false},
		"one place, taken later":       {"", 1, 1, 2 * time.Second, true},
		"two places":                   {"", 2, 1, 0, true},
		"two places, both taken":       {"", 2, 2, 0, false},
		"places unknown":               {fleet.KindVLLM, 0, 1, 0, true},
		"llama.cpp, which tells none":  {fleet.KindLlamaCpp, 0, 1, 0, false},
		"llama.cpp, free":              {fleet.KindLlamaCpp, 0, 0, 0, true},
		"Ollama, which tells none":     {fleet.KindOllama, 0, 1, 0, false},
		"an unknown kind":              {fleet.KindOther, 0, 1, 0, true},
		"an unknown kind with several": {fleet.KindOther, 4, 1, 0, true},
	} {
		e := newEngine()
		e.waiting.Kind, e.waiting.Places = tt.kind, tt.places
		e.send(true, time.Second)
		e.now = e.now.Add(tt.later)
		for range tt.others {
			e.send(false, -1)
		}
		if got := e.until(false, 10*time.Minute) < 10*time.Minute; got != tt.silent {
			t.Errorf("%s: silent %t, want %t", name, got, tt.silent)
		}
	}
	e := newEngine()
	e.waiting.Kind = fleet.KindOther
	e.Unanswered(0, "")
	e.send(true, time.Second)
	e.send(false, -1)
	for range 60 {
		if e.second(); e.IsSilent(e.now, 0) {
			t.Fatal("one that answers no probe while it computes has one place, which is taken")
		}
	}
}

// TestFiguresOfWork: an engine that says that it has requests, and whose figures of work stand still, is silent
// whatever is expected of its answers: those that are not streamed and have no limit are never overdue by themselves.
// One whose figures move computes, however long an answer is overdue.
func TestFiguresOfWork(t *testing.T) {
	const never, soon = -time.Second, 3 * time.Second
	untilSecond := func(last int, figures func(int) uint64) func(int) uint64 {
		return func(i int) uint64 {
			if i > last {
				return 0
			}
			return figures(i)
		}
	}
	for name, tt := range map[string]struct {
		figures func(i int) uint64 // every second; 0 says nothing
		busy    bool               // it says that it has requests
		due     time.Duration      // when an answer is overdue, see send
		from    int                // the second from which it is ejected; 0 for never
	}{
		"stands still":      {func(int) uint64 { return 7 }, true, never, 61},
		"has always":        {func(int) uint64 { return 3 }, true, never, 0},
		"computes slowly":   {func(i int) uint64 { return uint64(i/30) + 7 }, true, never, 0},
		"has no requests":   {func(int) uint64 { return 7 }, false, never, 0},
		"says nothing":      {func(int) uint64 { return 0 }, true, never, 0},
		"is asked no more":  {untilSecond(20, func(int) uint64 { return 7 }), true, never, 0},
		"overdue, it moves": {func(i int) uint64 { return uint64(i/8) + 7 }, true, soon, 0},
		"overdue, a step every twelve seconds": {
			func(i int) uint64 { return uint64(i/12) + 7 }, true, soon, 22,
		},
		"overdue, it stops":        {func(i int) uint64 { return uint64(min(i, 30)) + 7 }, true, soon, 40},
		"overdue, it has not it":   {func(int) uint64 { return 7 }, false, soon, 13},
		"overdue, it says nothing": {func(int) uint64 { return 0 }, true, soon, 13},
		"overdue, asked no more":   {untilSecond(20, func(i int) uint64 { return uint64(i) + 7 }), true, soon, 30},
	} {
		e := newEngine()
		e.Works(e.now, 0, 3, false)
		e.send(true, tt.due)
		from := 0
		for i := 1; i <= 90 && from == 0; i++ {
			e.Works(e.now.Add(time.Second), 0, tt.figures(i), tt.busy)
			if !e.second() {
				from = i
			}
		}
		if from != tt.from {
			t.Errorf("%s: ejected after %d s, want %d", name, from, tt.from)
		}
	}
}

// TestTrialAfterLongSilence: an engine that was ejected because it had work and sent nothing for longer than its
// longest answer takes is tried again for as long, though clients still wait for what it was sent before.
func TestTrialAfterLongSilence(t *testing.T) {
	e := newEngine()
	e.waiting.LongestMs = 5 * 60_000
	e.send(false, -1)
	for range 5 {
		if up := e.until(false, time.Hour); up < 4*time.Minute || up > 6*time.Minute {
			t.Errorf("it was up for %v, want 5 min since it was last ejected", up)
		}
		e.until(true, time.Hour)
	}
	e = newEngine()
	e.waiting.LongestMs = 5 * 60_000
	for range 10 { // it has nothing to do now and then
		e.send(false, -1)
		if up := e.until(false, 4*time.Minute); up < 4*time.Minute {
			t.Errorf("it was ejected after %v of work", up)
		}
		e.sent = nil
		e.second()
	}
}

// TestOlderRequestsOfSilence: what an engine was sent before its last ejection counts for what is said of it, and for
// when it is ejected again.
func TestOlderRequestsOfSilence(t *testing.T) {
	const long = 6 * time.Hour
	t.Run("the words", func(t *testing.T) {
		e := newEngine()
		began := e.now
		e.send(true, time.Second)
		e.now = e.now.Add(2 * time.Second)
		e.send(true, time.Second)
		e.until(false, long)
		if down := e.until(true, long); down < 9*time.Second {
			t.Errorf("it is tried after %v, want as long as its requests had waited", down)
		}
		e.send(true, time.Second)
		e.until(false, long)
		silent := e.now.Sub(began).String()
		want := "no data for " + silent + " although its health check is good; " +
			"requests waiting: 3, the first for " + silent
		if got := e.Why(0, fleet.StateEjected); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("the words where probes have no answer either", func(t *testing.T) {
		e := newEngine()
		e.Unanswered(0, "")
		e.send(true, time.Second)
		for range 20 {
			e.second()
		}
		want := "no data for 11s nor an answer to its health check; "
		if got := e.Why(0, fleet.StateEjected); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("its place was taken after the overdue one came", func(t *testing.T) {
		e := newEngine()
		e.waiting.Places = 1
		e.send(true, time.Second)
		e.now = e.now.Add(5 * time.Second)
		e.send(false, -1)
		e.until(false, long)
		e.until(true, long)
		if up := e.until(false, long); up > 12*time.Second {
			t.Errorf("nothing tried it, and it was up for %v", up)
		}
	})
	t.Run("it is tried", func(t *testing.T) {
		e := newEngine()
		e.send(true, time.Second)
		e.until(false, long)
		e.until(true, long)
		e.send(false, time.Minute)
		if up := e.until(false, long); up < time.Minute {
			t.Errorf("its trial, which may be long, ended after %v by what was sent before", up)
		}
	})
}

// TestLoadingIsNoSilence: an engine that loads a model says nothing, and silence counts from when the load is over.
func TestLoadingIsNoSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		due     time.Duration
		longest float64
		after   time.Duration // the load it is ejected
	}{
		"an answer is overdue":              {time.Second, 0, time.Second},
		"longer than the longest may take":  {-1, 20_000, 30 * time.Second},
		"the same, and it has told of work": {-1, 20_000, 0},
	} {
		e := newEngine()
		e.waiting.LongestMs = tt.longest
		if tt.after == 0 {
			e.Works(e.now, 0, 3, false)
			e.Works(e.now, 0, 4, true)
		}
		e.LoadingModel(e.now, 0, "m")
		e.send(true, tt.due)
		if up := e.until(false, 4*time.Minute); up < 4*time.Minute {
			t.Errorf("%s: ejected after %v of the load", name, up)
		}
		e.ModelLoaded(e.now, 0, "m")
		if up := e.until(false, 4*time.Minute); up != tt.after && (tt.after > 0 || up < 4*time.Minute) {
			t.Errorf("%s: ejected %v after the load, want %v", name, up, tt.after)
		}
	}
}

// TestOneModelIsSilent: an endpoint that gives no sign of life for one model while it begins later requests for another
// is mute for the first. What may have another reason proves nothing.
func TestOneModelIsSilent(t *testing.T) {
	begin := func(e *engine, model string) { // the answer of a turn that was just sent
		e.ServiceAlive(0, model, e.now)
		e.Begun(0, e.now)
	}
	for name, tt := range map[string]struct {
		then func(e *engine, waits *[]Request)
		mute bool
	}{
		"later ones of m begin": {func(e *engine, _ *[]Request) { begin(e, "m") }, true},
		"none begins":           {func(*engine, *[]Request) {}, false},
		"another of n begins": {func(e *engine, _ *[]Request) {
			begin(e, "m")
			begin(e, "n")
		}, false},
		"a stream of n goes on": {func(e *engine, _ *[]Request) {
			begin(e, "m")
			e.ServiceAlive(0, "n", e.now)
		}, false},
		"an answer of n that is not streamed is computed": {func(e *engine, waits *[]Request) {
			*waits = append(*waits, Request{Service: "n", Turn: true, Sent: e.now})
			begin(e, "m")
		}, false},
		"it is not overdue": {func(e *engine, waits *[]Request) {
			(*waits)[0].Late = false
			begin(e, "m")
		}, false},
		"the client of n leaves": {func(e *engine, waits *[]Request) {
			*waits = nil
			begin(e, "m")
		}, false},
		"it loads a model": {func(e *engine, _ *[]Request) {
			begin(e, "m")
			e.LoadingModel(e.now, 0, "l")
		}, false},
	} {
		e := newEngine()
		begin(e, "m")
		begin(e, "n")
		waits := []Request{{Service: "n", Turn: true, Stream: true, Late: true, Sent: e.now}}
		e.now = e.now.Add(time.Minute)
		tt.then(e, &waits)
		e.ListenToServices(e.now, slices.Values(waits))
		mute := strings.Join(e.MuteFor(e.now, 0), ",")
		if want := map[bool]string{true: "n"}[tt.mute]; mute != want {
			t.Errorf("%s: mute for %q, want %q", name, mute, want)
		}
	}
}

// TestOnePathIsSilent: an endpoint is mute for a path when a request waits for much longer than any such answer took,
// and it begins later work or sends nothing; not while such answers come, nor before it is known how long they take.
func TestOnePathIsSilent(t *testing.T) {
	const path = "/v1/rerank"
	for name, tt := range map[string]struct {
		known  int           // answers before
		took   time.Duration // each of them
		waited time.Duration
		then   func(e *engine)
		mute   bool
	}{
		"nothing comes":       {known: 9, took: time.Second, waited: time.Minute, mute: true},
		"not for long enough": {known: 9, took: time.Second, waited: 20 * time.Second},
		"they take long":      {known: 9, took: 10 * time.Second, waited: time.Minute},
		"few are known":       {known: 3, took: time.Second, waited: time.Minute},
		"another is answered": {
			known: 9, took: time.Second, waited: time.Minute,
			then: func(e *engine) { e.ServiceAlive(0, path, e.now) },
		},
		"later turns are begun": {
			known: 9, took: time.Second, waited: time.Minute, mute: true,
			then: func(e *engine) {
				e.Alive(0, e.now)
				e.ServiceAlive(0, "m", e.now)
				e.Begun(0, e.now)
			},
		},
		"an earlier turn goes on": {
			known: 9, took: time.Second, waited: time.Minute,
			then: func(e *engine) { e.Alive(0, e.now) },
		},
	} {
		e := newEngine()
		for range tt.known {
			e.now = e.now.Add(tt.took)
			e.ServiceAlive(0, path, e.now)
			e.Took(0, path, tt.took)
		}
		waits := []Request{{Service: path, Sent: e.now}}
		e.now = e.now.Add(tt.waited)
		if tt.then != nil {
			tt.then(e)
		}
		e.ListenToServices(e.now, slices.Values(waits))
		if mute := slices.Equal(e.MuteFor(e.now, 0), []string{path}); mute != tt.mute {
			t.Errorf("%s: mute %t, want %t", name, mute, tt.mute)
		}
	}
}
