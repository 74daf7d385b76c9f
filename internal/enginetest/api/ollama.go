package api

import "time"

// NewOllama writes answers of /api/chat, or of /api/generate.
func NewOllama(s Style, chat bool) Shape { return &ollama{Style: s, chat: chat} }

// ollama writes newline-delimited JSON.
type ollama struct {
	Style
	chat bool
}

func (*ollama) ContentType() string { return "application/x-ndjson" }

func (*ollama) Open(b []byte, _ *Answer) []byte { return b }

func (o *ollama) line(a *Answer, text string, done bool) map[string]any {
	v := map[string]any{"model": a.Ask.Model, "created_at": time.Now().UTC().Format(time.RFC3339Nano), "done": done}
	if o.chat {
		v["message"] = map[string]any{"role": "assistant", "content": text}
	} else {
		v["response"] = text
	}
	if !done {
		return v
	}
	p := a.Progress
	v["done_reason"] = a.Finish
	v["total_duration"] = p.Last.Sub(p.Submitted)
	v["load_duration"] = 0
	v["prompt_eval_count"] = a.PromptTokens
	v["prompt_eval_duration"] = p.Prefilled.Sub(p.Submitted)
	if !o.NoCacheReport {
		v["prompt_eval_cached_count"] = p.Cached
	}
	v["eval_count"] = a.Made
	v["eval_duration"] = p.Last.Sub(p.Prefilled)
	v["simulated"] = true
	return v
}

func (o *ollama) Token(b []byte, a *Answer, i int) []byte {
	return ndjson(b, o.line(a, a.piece(i), false))
}

func (o *ollama) Closing(b []byte, a *Answer) []byte { return ndjson(b, o.line(a, "", true)) }

func (*ollama) Failure(b []byte, _ int, msg string) []byte {
	return ndjson(b, map[string]any{"error": msg})
}

func (o *ollama) Whole(a *Answer) any { return o.line(a, a.Text, true) }
