package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/text"
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

// playTrace plays a trace in real time as the simulator plays it: its requests at the moments of the plan, or, in a
// closed loop, each turn so long after the one before as the trace says. Prompts have in common what those of the trace
// have (simtrace.Trace.Text), and are sent as completions, which no chat template makes longer. Before each of them
// stands a salt, so that engines know nothing of it from an earlier play. With Sessions: Send, clients name their
// conversations. observe is called from many goroutines. Traces in which sessions start sessions cannot be played so.
func playTrace(
	ctx context.Context, at *play.Target, salt string, trace *simtrace.Trace, plan simtrace.Plan,
	observe func(play.Turn),
) error {
	for i := range trace.Sessions {
		if trace.Sessions[i].Parent >= 0 {
			return errors.New("sessions of this trace start sessions, which cannot be played over HTTP")
		}
	}
	turns := make([][]int, len(trace.Sessions))
	for i := range trace.Turns {
		s := trace.Turns[i].Session
		turns[s] = append(turns[s], i)
	}
	var wg sync.WaitGroup
	began := time.Now()
	playOne := func(when time.Duration, turns []int) {
		for n, i := range turns {
			if n > 0 {
				when = max(0, time.Duration(float64(trace.Turns[i].Delay)*plan.Stretch)) + time.Since(began)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(began.Add(when))):
			}
			observe(traceTurn(ctx, at, salt, trace, i))
		}
	}
	for s := range turns {
		if trace.Closed {
			wg.Go(func() { playOne(plan.Arrivals[s], turns[s]) })
			continue
		}
		for _, i := range turns[s] {
			wg.Go(func() { playOne(plan.Arrivals[i], []int{i}) })
		}
	}
	wg.Wait()
	return ctx.Err()
}

// traceTurn sends one turn of a trace.
func traceTurn(ctx context.Context, at *play.Target, salt string, trace *simtrace.Trace, i int) play.Turn {
	turn := &trace.Turns[i]
	body, err := json.Marshal(completionRequest{
		Model: at.Model, Prompt: salt + trace.Text(i, text.TokenBytes), MaxTokens: max(turn.Output, 1), Stream: true,
		StreamOptions: map[string]any{"include_usage": true}, IgnoreEOS: at.IgnoreEOS,
	})
	if err != nil {
		return play.Turn{Err: err}
	}
	session := ""
	if at.Sessions == play.Send {
		session = trace.Sessions[turn.Session].ID
	}
	out, _, _ := at.Send(ctx, "/v1/completions", body, session, true, false)
	out.First = turn.Number == 0
	return out
}
