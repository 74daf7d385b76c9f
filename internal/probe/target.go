package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/shortage"
	"github.com/warmpath/warmpath/route"
)

// target is one engine address and the endpoints behind it. Its goroutine asks one question at a time.
type target struct {
	// Immutable.
	p        *Prober
	addr     address
	log      *slog.Logger
	wake     chan struct{} // asks for an immediate probe
	firstMax time.Duration // the first probe comes within this time
	relist   atomic.Bool   // with wake: its models are asked for too
	left     atomic.Bool   // none of its endpoints is declared any more; set with Prober.mu held

	cancel context.CancelFunc // guarded by Prober.mu; nil until it runs

	mu        sync.Mutex
	endpoints []fleet.Endpoint // guarded by mu
	changed   bool             // guarded by mu: endpoints have not been told all yet
	answers   bool             // guarded by mu: it is up, and answered when it was last asked anything
	listed    time.Time        // guarded by mu: when it was last asked about its models
	listing   chan struct{}    // guarded by mu: closed when it has been asked for them; nil while no request waits

	// Owned by the goroutine.
	kind    fleet.Kind
	dialect engine.Dialect // nil until the kind is known
	health  health
	fails   int         // questions in a row that failed
	waits   int         // questions in a row that it left unanswered while it had requests
	mute    time.Time   // when the first of them was asked
	short   bool        // there was no file descriptor to ask with the last time
	shown   bool        // it has answered whether it is alive, under a path that says so
	ranks   int         // data-parallel ranks it reported, 0 unknown
	slots   int         // slots it reported, 0 unknown
	sleep   fleet.Sleep // as it last reported; not every round asks
	counted bool        // its undeclared ranks have been logged
	guarded bool        // it refused to list its models to the router
	crowded bool        // it lists more models than are read
	long    bool        // it gave an answer that was too long, which has been logged
	dozes   bool        // it has been seen Dozing
	worked  bool        // it had requests of ours when it was asked for its load
	idle    bool        // it had none then, nor the time before
	rests   string      // why, if it is asleep
	paths   map[string]int
	silent  map[string]time.Time // questions it does not answer, and when to try again
	last    time.Time            // when it was last asked whether it is alive
	heard   time.Time            // when the latest question that it answered was put
	alive   time.Time            // when to ask next: whether it is alive,
	load    time.Time            // about its load,
	models  time.Time            // about its models
}

type health uint8

const (
	unknown health = iota
	up
	down
)

// errRefused means that the connection was refused: the process is gone or ending.
var errRefused = errors.New("connection refused")

// errLong means that an answer is too long to be read.
var errLong = errors.New("the answer is longer")

// unansweredError means that no answer came in time: the engine hangs, is not reached, or does something else first.
type unansweredError struct {
	path   string
	within time.Duration
	hint   string // what may be wrong; or ""
}

func (e unansweredError) Error() string {
	return fmt.Sprintf("GET %s: no answer within %v%s", e.path, e.within, e.hint)
}

func newTarget(p *Prober, a address, firstMax time.Duration) *target {
	return &target{
		p: p, addr: a, firstMax: firstMax, kind: a.kind,
		log:   p.log.With("url", a.url),
		wake:  make(chan struct{}, 1),
		paths: map[string]int{}, silent: map[string]time.Time{},
	}
}

// run probes until ctx ends.
func (t *target) run(ctx context.Context) {
	timer := time.NewTimer(rand.N(t.firstMax + 1))
	defer timer.Stop()
	for {
		var listing chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
			// However often it is called for, an engine is not asked more than ten times an interval.
			t.alive = t.last.Add(t.p.cfg.Interval / 10)
			listing = t.takeListing()
			if soon := t.listed.Add(t.p.cfg.Interval); t.relist.Swap(false) && soon.Before(t.models) {
				t.models = soon
			}
		case <-timer.C:
		}
		if t.left.Load() && !t.works() && t.p.forget(t) {
			return
		}
		if !panics.Catch(t.p.log, panics.Probe, func() { t.round(ctx) }) {
			t.alive = time.Now().Add(t.p.cfg.Interval)
		}
		t.mu.Lock()
		t.answers = t.health == up && t.waits == 0
		t.mu.Unlock()
		if listing != nil {
			close(listing)
		}
		timer.Reset(max(0, time.Until(t.next())))
	}
}

// next is when the next question is due. Only an engine that is up and answers is asked for more than whether it is
// alive.
func (t *target) next() time.Time {
	next := t.alive
	if t.health == up && t.waits == 0 {
		if t.load.Before(next) {
			next = t.load
		}
		if t.models.Before(next) {
			next = t.models
		}
	}
	return next
}

// round asks what is due and reports what was learnt, in one event for each endpoint.
func (t *target) round(ctx context.Context) {
	now := time.Now()
	all := t.takeChanged()
	var got []engine.Answer
	if all || !now.Before(t.alive) {
		if !t.checkAlive(ctx, &got) {
			return
		}
	}
	if t.health != up || t.waits > 0 {
		return
	}
	if t.left.Load() { // whether it lives is all that matters
		t.models, t.load = now.Add(t.p.cfg.ModelsInterval), now.Add(t.p.cfg.ModelsInterval)
		all = false
	}
	if all || !now.Before(t.models) {
		if t.kind == fleet.KindOther && t.addr.kind == fleet.KindUnknown && !t.models.IsZero() {
			t.recognise(ctx) // it may have shown too little when it was met first
		}
		t.mu.Lock()
		t.listed = now
		t.mu.Unlock()
		t.models = now.Add(jitter(t.p.cfg.ModelsInterval))
		t.ask(ctx, t.dialect.Asks(), &got)
	}
	if all || !now.Before(t.load) {
		t.load = now.Add(jitter(t.p.cfg.LoadInterval))
		worked := t.worked
		t.worked = t.works()
		t.idle = !t.worked && !worked
		t.ask(ctx, t.dialect.LoadAsks(), &got)
	}
	if t.health == up && ctx.Err() == nil {
		t.report(got)
	}
}

// takeChanged reports whether there are endpoints that must be told all that can be known.
func (t *target) takeChanged() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.changed
	t.changed = false
	return c
}

// checkAlive asks whether the engine is alive and decides on its health. It returns false when it is not up, or when it
// is not certain; then there is nothing else to report.
func (t *target) checkAlive(ctx context.Context, got *[]engine.Answer) bool {
	t.last = time.Now()
	worked := t.works()
	if t.dialect == nil || t.health == down && t.addr.kind == fleet.KindUnknown {
		if err := t.recognise(ctx); err != nil {
			t.failed(ctx, err, worked)
			return false
		}
	}
	a, err := t.answer(ctx, t.dialect.Alive())
	if errors.Is(err, errLong) {
		err = nil // its status says that it lives
	}
	lives := err == nil || errors.Is(err, errRefused)
	if err == nil {
		var r fleet.Report
		if err = t.dialect.Read(a, fleet.Part{}, &r); err == nil && !r.Healthy {
			err = errors.New(r.Detail)
		}
		switch missing := engine.Missing(a.Status); {
		case err == nil && missing && t.shown: // a gateway without the engine behind it, or another service
			err = fmt.Errorf("GET %s: %d; it had this path before, so something else may answer at its address",
				a.Path, a.Status)
		case err == nil && !missing:
			t.shown = true
		}
	}
	// it ends, and finishes what it has: SGLang says 503 then, uvicorn refuses
	if err != nil && lives && t.left.Load() {
		t.fails, t.alive = 0, time.Now().Add(jitter(t.p.cfg.Interval))
		return false
	}
	if err != nil {
		t.failed(ctx, err, worked)
		return false
	}
	*got = append(*got, a)
	t.fails, t.waits, t.short = 0, 0, false
	t.alive = time.Now().Add(jitter(t.p.cfg.Interval))
	if t.health != up {
		t.health = up
		t.load, t.models = time.Time{}, time.Time{}
		clear(t.silent)
		clear(t.paths)
		t.ranks, t.slots = 0, 0
		t.sleep, t.rests = fleet.SleepUnknown, ""
		t.dozes = false
		t.log.Debug("engine is up", "kind", t.kind)
	}
	return true
}

// failed books a failed question about health, and reports the engine down when that is certain. worked says that it
// had requests when it was asked.
func (t *target) failed(ctx context.Context, err error, worked bool) {
	if ctx.Err() != nil {
		return // we were told to stop; that says nothing about the engine
	}
	cfg := t.p.cfg
	if shortage.Is(err) { // nor does this
		if !t.short {
			t.log.Error("engine cannot be asked: no file descriptors are left; what was known of it stays",
				"error", err)
		}
		t.short = true
		t.alive = time.Now().Add(jitter(cfg.Interval))
		return
	}
	t.short = false
	if t.computes(err, worked) {
		return
	}
	t.fails++
	t.again(t.fails)
	refused := errors.Is(err, errRefused)
	if t.health == up && !refused && t.fails < cfg.Failures {
		t.log.Debug("engine did not answer well", "error", err, "in_a_row", t.fails)
		return
	}
	if t.health != down {
		t.log.Debug("engine is down", "error", err) // each of its endpoints is logged as down
	}
	t.health = down
	for _, e := range t.current() {
		t.p.observe(route.Probed{Endpoint: e.Name, URL: t.addr.url, Report: fleet.Report{
			Refused: refused, Detail: err.Error(), Kind: t.kind,
		}})
	}
}

// again asks soon after so many bad answers in a row, so that a failure is confirmed and a come-back noticed quickly,
// then less often.
func (t *target) again(bad int) {
	soon := t.p.cfg.Interval >> max(0, 3-bad/4)
	t.alive = time.Now().Add(jitter(max(soon, time.Millisecond)))
}

// computes books a question that an engine left unanswered while it had requests. That alone says nothing, up to a
// bound: many small servers do one thing at a time, and others are slow to answer during a long prefill. Of one that is
// not declared any more it says that it is gone.
func (t *target) computes(err error, worked bool) bool {
	_, ok := errors.AsType[unansweredError](err)
	if !ok || t.health != up || t.left.Load() || !worked && !t.works() {
		return false
	}
	cfg := t.p.cfg
	most := cfg.Computing
	if t.kind == fleet.KindOther {
		most *= 4 // the engines that are known answer while they compute
	}
	if t.waits == 0 {
		t.mute = t.last
	}
	if time.Since(t.mute) > most {
		return false
	}
	t.waits++
	if t.waits < cfg.Failures {
		t.again(t.waits)
		return true
	}
	t.alive = time.Now().Add(jitter(cfg.Interval))
	if t.waits == cfg.Failures {
		t.log.Debug("engine answers nothing while it has requests", "error", err)
	}
	for _, e := range t.current() {
		t.p.observe(route.Probed{Endpoint: e.Name, URL: t.addr.url, Asked: t.heard, Report: fleet.Report{
			Healthy: true, Unanswered: true, Detail: err.Error() + ", while it has requests", Kind: t.kind,
			Guarded: t.guarded,
		}})
	}
	return true
}

// recognise finds out the kind of the engine. The error says that it cannot be told yet.
func (t *target) recognise(ctx context.Context) error {
	if t.addr.kind != fleet.KindUnknown {
		return t.speak(t.addr.kind)
	}
	answers, last, err := t.askKind(ctx)
	if err == nil && engine.Recognise(answers) == fleet.KindOther && slices.ContainsFunc(answers, starting) {
		// it may have started between two questions, so that the telling ones came too early
		answers, last, err = t.askKind(ctx)
	}
	if err != nil {
		return err
	}
	kind := engine.Recognise(answers)
	if kind == fleet.KindUnknown {
		var r fleet.Report
		if len(answers) > 0 {
			d, _ := engine.ByKind(fleet.KindOther)
			first := answers[0]
			first.Ask = engine.AskAlive
			_ = d.Read(first, fleet.Part{}, &r)
		}
		if r.Detail == "" && last != nil {
			return last
		}
		return errors.New(r.Detail)
	}
	return t.speak(kind)
}

// starting reports whether an answer is one of an engine that starts.
func starting(a engine.Answer) bool { return a.Status >= 500 && a.Status != http.StatusNotImplemented }

// askKind asks what tells the kind of the engine. last is why a question was left without an answer; err that it does
// not answer at all.
func (t *target) askKind(ctx context.Context) (answers []engine.Answer, last, err error) {
	for _, ask := range engine.RecogniseAsks() {
		status, body, err := t.get(ctx, ask.Path)
		if err != nil && !errors.Is(err, errLong) {
			if errors.Is(err, errRefused) || ctx.Err() != nil || len(answers) == 0 {
				return nil, nil, err // the other questions would each wait as long
			}
			last = err
			continue
		}
		answers = append(answers, engine.Answer{Ask: ask.Name, Path: ask.Path, Status: status, Body: body})
		if k := engine.Recognise(answers); len(answers) == 1 && k != fleet.KindUnknown && k != fleet.KindOther {
			break // it wrote its name into its list of models
		}
	}
	return answers, last, nil
}

func (t *target) speak(k fleet.Kind) error {
	d, err := engine.ByKind(k)
	if err != nil {
		return err
	}
	if k != t.kind {
		t.log.Info("engine recognised", "kind", k)
		clear(t.silent) // what is known of both is by questions of another kind
		clear(t.paths)
	}
	t.kind, t.dialect = k, d
	return nil
}

// report tells each endpoint's part of what the answers say.
func (t *target) report(got []engine.Answer) {
	whole := t.read(got, fleet.Part{}) // how many parts there are only the report of the whole says
	if whole.Ranks > 0 {
		t.ranks = whole.Ranks
	}
	if whole.Slots > 0 {
		t.slots = whole.Slots
	}
	t.noteSleep(whole)
	t.noteParts(whole)
	t.noteModels(whole)
	for _, e := range t.current() {
		r := whole
		if e.Part.Kind != fleet.WholeEngine {
			r = t.read(got, e.Part)
		}
		r.Sleep, r.Rests = t.sleep, t.rests
		if err := t.dialect.Supports(e.Part); err != nil {
			r.Healthy, r.Detail = false, err.Error()
		}
		if e.Part.Kind == fleet.Slot && t.slots > 0 && e.Part.Index >= t.slots {
			r.Healthy = false
			r.Detail = "the engine has no " + e.Part.String() + ": it reports " + count(t.slots, "slot")
		}
		if e.Part.Kind == fleet.Rank && t.ranks > 0 && e.Part.Index >= t.ranks {
			r.Healthy = false
			r.Detail = "the engine has no " + e.Part.String() + ": it reports " + count(t.ranks, "rank")
		}
		t.p.observe(route.Probed{Endpoint: e.Name, URL: t.addr.url, Report: r, Asked: t.heard})
	}
}

// noteSleep remembers whether the engine sleeps, and logs that it fell asleep or woke.
func (t *target) noteSleep(whole fleet.Report) {
	if whole.Sleep == fleet.SleepUnknown {
		return
	}
	switch before := t.sleep; {
	case whole.Sleep.Waits() && !before.Waits():
		t.log.Warn("engine is asleep or paused: it gets no requests", "detail", whole.Rests)
	case whole.Sleep == fleet.Dozing && before != fleet.Dozing:
		t.log.Info("engine is asleep: the next request wakes it")
	case whole.Sleep == fleet.Awake && before.Sleeps():
		t.log.Info("engine is awake")
	}
	t.sleep, t.rests, t.dozes = whole.Sleep, whole.Rests, t.dozes || whole.Sleep == fleet.Dozing
}

// noteKey logs once that the engine tells the router nothing for want of a key: its health is good, so nothing else
// says why it has no models, and perhaps no kind.
func (t *target) noteKey(ask string, status int) {
	refuses := status == http.StatusUnauthorized || status == http.StatusForbidden
	if ask != engine.AskModels || refuses == t.guarded {
		return
	}
	if t.guarded = refuses; !refuses {
		t.log.Info("engine lists its models again")
		return
	}
	what := "engine lists its models only to those who have its key: the router knows neither them nor its load"
	if t.addr.key != "" {
		what = "engine refuses the key that the router has for it, so the router knows neither its models nor its load"
	}
	t.log.Warn(what, "status", status, "do", "api_key, api_key_env or api_key_file at the endpoint")
}

// noteModels logs once that the engine lists more models than are read.
func (t *target) noteModels(whole fleet.Report) {
	named := !slices.ContainsFunc(t.current(), func(e fleet.Endpoint) bool { return len(e.Models) == 0 })
	if whole.Models == nil || named {
		return
	}
	if more := whole.MoreModels > 0; more != t.crowded {
		if t.crowded = more; more {
			t.log.Warn("engine lists more models than the router reads: requests for the rest get 404",
				"read", len(whole.Models), "left_out", whole.MoreModels,
				"do", "models at the endpoint, with those that are wanted")
		}
	}
}

// noteParts logs once that the engine has more ranks than are endpoints.
func (t *target) noteParts(whole fleet.Report) {
	declared := 0
	for _, e := range t.current() {
		if e.Part.Kind != fleet.WholeEngine {
			declared++
		}
	}
	if whole.Ranks > max(declared, 1) && !t.counted {
		t.counted = true
		t.log.Warn(
			"engine has data-parallel ranks that are not declared: it chooses one without knowing which has the cache",
			"ranks", whole.Ranks, "declared", declared, "do", "ranks: "+strconv.Itoa(whole.Ranks))
	}
}

// read is what the answers say of a part.
func (t *target) read(got []engine.Answer, part fleet.Part) fleet.Report {
	r := fleet.Report{Healthy: true, Kind: t.kind, Guarded: t.guarded}
	for _, a := range got {
		if err := t.dialect.Read(a, part, &r); err != nil {
			t.log.Debug("answer of no use", "part", part.String(), "error", err)
		}
	}
	return r
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

func (t *target) current() []fleet.Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.endpoints
}

// jitter varies a period by a tenth either way, so that engines that were started together are not asked together.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
