package play

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/warmpath/warmpath/sim/trace"
)

// Session plays one session against an address, and reports whether it came to its end. begin is called when a turn is
// sent; what it returns is called when that turn has ended.
type Session func(ctx context.Context, at *Target, begin func() func(Turn)) (whole bool)

// Loop is clients in closed loop: each plays one session after the other. It counts what sessions see.
type Loop struct {
	Target  *Target
	Clients int
	Next    func() Session // the session to begin, nil when there is none left; not called by two at a time

	mu      sync.Mutex
	began   time.Time
	took    time.Duration // 0 while it runs
	output  int64         // tokens of answers that are complete
	ended   int
	slowest []time.Duration    // of sessions that are over
	open    map[*progress]bool // those under way
	all     bool               // there was none left
}

// progress is how far a session is.
type progress struct {
	slowest time.Duration
	sent    map[*Turn]time.Time // turns without an answer
	seen    bool                // a turn has an answer, or was cut off
}

// waits is what the slowest turn has waited for its first token, or waits at a time.
func (x *progress) waits(now time.Time) time.Duration {
	slowest := x.slowest
	for _, at := range x.sent {
		slowest = max(slowest, now.Sub(at))
	}
	return slowest
}

// Play plays until ctx ends, or there is no session left. observe is called from many goroutines.
func (l *Loop) Play(ctx context.Context, observe func(Turn)) {
	l.mu.Lock()
	l.began, l.open = time.Now(), map[*progress]bool{}
	l.mu.Unlock()
	var wg sync.WaitGroup
	for range l.Clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				x := &progress{sent: map[*Turn]time.Time{}}
				play := l.next(x)
				if play == nil {
					return
				}
				whole := play(ctx, l.Target, func() func(Turn) {
					t := l.sends(x)
					return func(out Turn) {
						l.answered(x, t, &out)
						uncut(observe)(out)
					}
				})
				l.over(x, whole)
			}
		})
	}
	wg.Wait()
	l.mu.Lock()
	l.took = time.Since(l.began)
	l.mu.Unlock()
}

func (l *Loop) next(x *progress) Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	play := l.Next()
	if l.all = play == nil; !l.all {
		l.open[x] = true
	}
	return play
}

func (l *Loop) sends(x *progress) *Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := new(Turn)
	x.sent[t] = time.Now()
	return t
}

func (l *Loop) answered(x *progress, t, out *Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(x.sent, t)
	if out.Cut || out.Err == nil {
		x.slowest, x.seen = max(x.slowest, cmp.Or(out.TTFT, time.Since(out.Sent))), true
	}
	if out.Err == nil {
		l.output += int64(out.OutputTokens)
	}
}

func (l *Loop) over(x *progress, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, x)
	if whole {
		l.ended++
	}
	if x.seen {
		l.slowest = append(l.slowest, x.slowest)
	}
}

// LoopFigures are what sessions in closed loop saw.
type LoopFigures struct {
	Seconds float64 `json:"seconds"`
	Output  float64 `json:"output_tokens_per_s"` // of answers that are complete
	Slowest Latency `json:"slowest_ms"`          // each session's slowest turn until its first token, or up to now
	Ended   int     `json:"sessions_ended"`
	PerHour float64 `json:"sessions_ended_per_hour"`
	All     bool    `json:"all_played"` // no session was left to begin: the end of the run is less busy
}

// Figures are those up to now.
func (l *Loop) Figures() LoopFigures {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, took := time.Now(), l.took
	if took == 0 && !l.began.IsZero() {
		took = now.Sub(l.began)
	}
	waits := slices.Clone(l.slowest)
	for x := range l.open {
		if x.seen || len(x.sent) > 0 {
			waits = append(waits, x.waits(now))
		}
	}
	f := LoopFigures{Seconds: took.Seconds(), Slowest: spread(waits), Ended: l.ended, All: l.all}
	if s := took.Seconds(); s > 0 {
		f.Output, f.PerHour = float64(l.output)/s, float64(l.ended)*3600/s
	}
	return f
}

// spread is the distribution of some times.
func spread(all []time.Duration) (l Latency) {
	if len(all) == 0 {
		return l
	}
	slices.Sort(all)
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	at := func(share int) float64 { return ms(all[min(len(all)*share/100, len(all)-1)]) }
	return Latency{Mean: ms(sum / time.Duration(len(all))), P50: at(50), P90: at(90), P99: at(99)}
}

// Talks draws conversations as sessions, in their order.
func Talks(all []trace.Conversation) func() Session {
	p, next := newPatience(), 0
	return func() Session {
		if next == len(all) {
			return nil
		}
		c := &all[next]
		next++
		return func(ctx context.Context, at *Target, begin func() func(Turn)) bool {
			return at.converse(ctx, ctx, c, p, begin)
		}
	}
}

// Recorded draws the sessions of a closed-loop trace, each with those that it starts, in an order that the seed draws.
// Times between turns are as recorded, and longest at most, unless that is 0. Prompts are sent as completions, which no
// chat template makes longer (trace.Trace.Text); answers are not part of what follows.
func Recorded(t *trace.Trace, seed uint64, longest time.Duration) func() Session {
	r := &recorded{Trace: t, longest: longest, after: map[int][]int{}, with: map[int][]int{}}
	order := []int{}
	for i := range t.Sessions {
		switch s := &t.Sessions[i]; {
		case s.Parent < 0:
			order = append(order, i)
		case s.After >= 0:
			r.after[s.After] = append(r.after[s.After], i)
		default:
			r.with[s.Parent] = append(r.with[s.Parent], i)
		}
	}
	trace.Shuffle(order, seed)
	return func() Session {
		if len(order) == 0 {
			return nil
		}
		s := order[0]
		order = order[1:]
		return func(ctx context.Context, at *Target, begin func() func(Turn)) bool {
			f := &family{recorded: r, at: at, begin: begin, ids: map[int]string{}}
			f.run(ctx, s)
			f.members.Wait()
			return !f.failed && ctx.Err() == nil
		}
	}
}

// recorded is a trace whose sessions are played.
type recorded struct {
	*trace.Trace
	longest time.Duration
	after   map[int][]int // sessions that start after a turn of their parent, by turn
	with    map[int][]int // those that start with their parent, by session
}

// family is a session that is played, with those that it starts.
type family struct {
	*recorded
	at      *Target
	begin   func() func(Turn)
	members sync.WaitGroup

	mu     sync.Mutex
	ids    map[int]string // by session
	failed bool           // a turn has: the rest of its session is not sent
}

// run plays one session of the family.
func (f *family) run(ctx context.Context, s int) {
	if f.at.Sessions == Send {
		f.name(s, uuid.NewString())
	}
	began := time.Now()
	for _, child := range f.with[s] {
		f.starts(ctx, child, began.Add(f.pause(f.Sessions[child].Gap)))
	}
	f.turn(ctx, f.Sessions[s].First, began)
}

// starts has a session of the family begin at a time.
func (f *family) starts(ctx context.Context, s int, at time.Time) {
	f.members.Go(func() {
		if sleep(ctx, time.Until(at)) {
			f.run(ctx, s)
		}
	})
}

// turn plays a turn at a time, and those that follow it in its session.
func (f *family) turn(ctx context.Context, i int, at time.Time) {
	for i >= 0 && sleep(ctx, time.Until(at)) {
		t, sent := &f.Turns[i], time.Now()
		overlaps := t.Next >= 0 && f.Turns[t.Next].Overlaps
		if overlaps {
			next := sent.Add(f.pause(f.Turns[t.Next].Delay))
			f.members.Go(func() { f.turn(ctx, int(t.Next), next) })
		}
		if !f.send(ctx, i) {
			return
		}
		for _, child := range f.after[i] {
			f.starts(ctx, child, sent.Add(f.pause(f.Sessions[child].Gap)))
		}
		if i = int(t.Next); i < 0 || overlaps {
			return
		}
		next := &f.Turns[i]
		if at = time.Now().Add(f.pause(next.Delay)); next.Delay < 0 { // only the time between them is known
			at = sent.Add(f.pause(next.At - t.At))
		}
	}
}

// pause is a recorded time between turns.
func (f *family) pause(d time.Duration) time.Duration {
	if d = max(d, 0); f.longest > 0 {
		d = min(d, f.longest)
	}
	return d
}

type completionRequest struct {
	Model         string         `json:"model,omitempty"`
	Prompt        string         `json:"prompt"`
	MaxTokens     int            `json:"max_tokens"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options,omitempty"`
	IgnoreEOS     bool           `json:"ignore_eos,omitempty"`
}

// send sends one turn, and reports whether the session goes on.
func (f *family) send(ctx context.Context, i int) bool {
	t := &f.Turns[i]
	body, err := json.Marshal(completionRequest{
		Model: f.at.Model, Prompt: f.Text(i, f.at.tokenBytes()), MaxTokens: max(t.Output, 1), Stream: true,
		StreamOptions: map[string]any{"include_usage": true}, IgnoreEOS: f.at.IgnoreEOS,
	})
	ended := f.begin()
	out, echoed := Turn{Err: err}, ""
	if err == nil {
		out, _, echoed = f.at.send(ctx, "/v1/completions", body, f.called(t.Session), true, false)
	}
	out.First, out.Cut = t.Number == 0, ctx.Err() != nil
	ended(out)
	f.mu.Lock()
	defer f.mu.Unlock()
	if out.Err != nil {
		f.failed = true
		return false
	}
	if f.at.Sessions == Adopt && f.ids[t.Session] == "" {
		f.ids[t.Session] = echoed
	}
	return true
}

func (f *family) name(s int, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids[s] = id
}

// called is how a session is named to the address.
func (f *family) called(s int) (n names) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.session = f.ids[s]; f.Sessions[s].Parent >= 0 {
		n.parent = f.ids[f.Sessions[s].Parent]
	}
	return n
}
