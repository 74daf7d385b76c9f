package api

import "time"

// NewCompletion writes answers of /completion.
func NewCompletion() Shape { return &completion{} }

// completion writes answers of /completion.
type completion struct{}

// timingsOf are the timings that llama.cpp puts into its answers.
func timingsOf(a *Answer) map[string]any {
	p := a.Progress
	prompt, predicted := p.Prefilled.Sub(p.Submitted), p.Last.Sub(p.Prefilled)
	n := a.PromptTokens - p.Cached
	return map[string]any{
		"cache_n": p.Cached, "prompt_n": n, "prompt_ms": milliseconds(prompt),
		"prompt_per_second": perSecond(n, prompt), "predicted_n": a.Made, "predicted_ms": milliseconds(predicted),
		"predicted_per_second": perSecond(a.Made, predicted),
	}
}

func (*completion) ContentType() string { return "text/event-stream" }

func (*completion) Open(b []byte, _ *Answer) []byte { return b }

func (*completion) Token(b []byte, a *Answer, i int) []byte {
	return event(b, map[string]any{
		"index": 0, "content": a.piece(i), "stop": false, "id_slot": a.Ask.Slot, "tokens_predicted": i + 1,
		"tokens_evaluated": a.PromptTokens,
	})
}

func (c *completion) Closing(b []byte, a *Answer) []byte { return event(b, c.final(a, "")) }

func (*completion) Failure(b []byte, status int, msg string) []byte {
	return event(append(b, "error: "...), ErrorObject(status, "server_error", msg))
}

func (c *completion) Whole(a *Answer) any { return c.final(a, a.Text) }

func (*completion) final(a *Answer, text string) map[string]any {
	stop := "eos"
	if a.Finish == "length" {
		stop = "limit"
	}
	return map[string]any{
		"index": 0, "content": text, "stop": true, "stop_type": stop, "stopping_word": "", "truncated": false,
		"id_slot": a.Ask.Slot, "model": a.Ask.Model, "tokens_predicted": a.Made, "tokens_evaluated": a.PromptTokens,
		"tokens_cached": a.PromptTokens + a.Made, "timings": timingsOf(a), "simulated": true,
	}
}

// perSecond is a rate, 0 for no time.
func perSecond(n int, d time.Duration) float64 {
	if d.Seconds() == 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
