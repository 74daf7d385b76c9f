package live

import (
	"context"
	"log/slog"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Logger is a listener that writes what an operator wants to read: each endpoint's change of state and, when requests
// is true, one line for each client request. No line holds prompt text.
func Logger(log *slog.Logger, requests bool) Listener {
	l := Listener{
		Entry: func(e *route.Entry) {
			for _, c := range e.Changes {
				logChange(log, c)
			}
		},
	}
	if requests {
		l.Served = func(s *Served) { logServed(log, s) }
	}
	return l
}

func logChange(log *slog.Logger, c route.Change) {
	level := slog.LevelInfo
	if c.From == "" {
		level = slog.LevelDebug // declared; the line that says what its engine is follows
	}
	if c.To == fleet.StateDown || c.To == fleet.StateEjected || c.To == fleet.StateBusy {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("endpoint", c.Endpoint)}
	if c.From != c.To {
		attrs = append(attrs, slog.String("from", string(c.From)), slog.String("to", string(c.To)))
	}
	if c.Detail != "" {
		attrs = append(attrs, slog.String("detail", c.Detail))
	}
	log.LogAttrs(context.Background(), level, happened(c), attrs...)
}

// happened says in words what a change is, for a line of the log.
func happened(c route.Change) string {
	switch {
	case c.From == "":
		return "endpoint declared"
	case c.To == "":
		return "endpoint removed"
	case c.From == c.To:
		return "endpoint changed"
	}
	return "endpoint is " + string(c.To)
}

func logServed(log *slog.Logger, s *Served) {
	level := slog.LevelInfo
	if s.Status >= 500 {
		level = slog.LevelWarn
	}
	d := &s.Decision
	attrs := []slog.Attr{
		slog.String("request", s.ID), slog.String("api", s.API),
		slog.Int("status", s.Status), slog.String("outcome", s.Outcome.String()),
		slog.String("model", d.Model), slog.String("endpoint", d.Endpoint.Name),
		slog.String("reason", string(d.Reason)), slog.Bool("first_turn", d.FirstTurn), slog.Bool("new_id", d.NewID),
		slog.Int("attempts", s.Attempts), slog.Bool("stream", s.Stream),
		slog.Float64("duration_ms", fleet.Ms(s.Ended.Sub(s.Started))),
		slog.Int64("bytes_in", s.BytesIn), slog.Int64("bytes_out", s.BytesOut),
	}
	if d.Why != "" {
		attrs = append(attrs, slog.String("split", string(d.Why)))
	}
	if s.Prefill.Lease != 0 {
		attrs = append(attrs, slog.String("prefill", s.Prefill.Endpoint.Name))
	}
	if first, ok := s.FirstToken(); ok {
		attrs = append(attrs, slog.Float64("ttft_ms", fleet.Ms(first)))
	}
	if u := s.Usage; u.PromptTokens > 0 {
		attrs = append(attrs, slog.Int("prompt_tokens", u.PromptTokens), slog.Int("output_tokens", u.OutputTokens),
			slog.Int("predicted_cached_tokens", predictedCached(s)))
		if u.CachedKnown {
			attrs = append(attrs, slog.Int("cached_tokens", u.CachedTokens))
		}
	}
	if s.Error != "" {
		attrs = append(attrs, slog.String("error", s.Error))
	}
	if s.Limit != "" {
		attrs = append(attrs, slog.String("limit", s.Limit))
	}
	if s.API == "other" {
		attrs = append(attrs, slog.String("method", s.Method), slog.String("path", s.Path))
	}
	log.LogAttrs(context.Background(), level, "request", attrs...)
}

// predictedCached is what was expected to be cached where the prompt was computed.
func predictedCached(s *Served) int {
	if s.Prefill.Lease != 0 {
		return s.Prefill.CachedTokens
	}
	return s.Decision.CachedTokens
}
