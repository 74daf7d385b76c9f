package play

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	simtrace "github.com/warmpath/warmpath/sim/trace"
)

type completionRequest struct {
	Model         string         `json:"model,omitempty"`
	Prompt        string         `json:"prompt"`
	MaxTokens     int            `json:"max_tokens"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options"`
	IgnoreEOS     bool           `json:"ignore_eos,omitempty"`
}

// PlayTrace plays a trace in real time as the simulator plays it: its requests at the moments of the plan, or, in a closed loop, each
// turn so long after the one before as the trace says. Prompts have in common what those of the trace have (simtrace.Trace.Text), and are
// sent as completions, which no chat template makes longer. With Sessions: Send, clients name their conversations. observe is
// called from many goroutines. Traces in which sessions start sessions cannot be played so.
func (t *Target) PlayTrace(ctx context.Context, trace *simtrace.Trace, plan simtrace.Plan, observe func(turn int, out Turn)) error {
	for i := range trace.Sessions {
		if trace.Sessions[i].Parent >= 0 {
			return errors.New("play: sessions of this trace start sessions, which cannot be played over HTTP")
		}
	}
	turns := make([][]int, len(trace.Sessions))
	for i := range trace.Turns {
		s := trace.Turns[i].Session
		turns[s] = append(turns[s], i)
	}
	var wg sync.WaitGroup
	began := time.Now()
	play := func(at time.Duration, turns []int) {
		for n, i := range turns {
			if n > 0 {
				at = max(0, time.Duration(float64(trace.Turns[i].Delay)*plan.Stretch)) + time.Since(began)
			}
			if !sleep(ctx, time.Until(began.Add(at))) {
				return
			}
			observe(i, t.traceTurn(ctx, trace, i))
		}
	}
	for s := range turns {
		if trace.Closed {
			wg.Go(func() { play(plan.Arrivals[s], turns[s]) })
			continue
		}
		for _, i := range turns[s] {
			wg.Go(func() { play(plan.Arrivals[i], []int{i}) })
		}
	}
	wg.Wait()
	return ctx.Err()
}

// traceTurn sends one turn of a trace.
func (t *Target) traceTurn(ctx context.Context, trace *simtrace.Trace, i int) Turn {
	turn := &trace.Turns[i]
	body, err := json.Marshal(completionRequest{
		Model: t.Model, Prompt: t.Salt + trace.Text(i), MaxTokens: max(turn.Output, 1), Stream: true, StreamOptions: map[string]any{"include_usage": true},
		IgnoreEOS: t.IgnoreEOS,
	})
	if err != nil {
		return Turn{Err: err}
	}
	session := ""
	if t.Sessions == Send {
		session = trace.Sessions[turn.Session].ID
	}
	out, _, _ := t.send(ctx, "/v1/completions", body, session, true)
	out.First = turn.Number == 0
	return out
}
