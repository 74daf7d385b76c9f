package api

// NewMessages writes Anthropic messages.
func NewMessages(s Style) Shape { return &messages{s} }

// messages writes Anthropic messages. input_tokens excludes cached tokens (vLLM 0.32, and Anthropic's own definition).
type messages struct{ Style }

func (*messages) ContentType() string { return "text/event-stream; charset=utf-8" }

func (m *messages) usage(a *Answer) map[string]any {
	u := map[string]any{"input_tokens": a.PromptTokens, "output_tokens": a.Made}
	if !m.NoCacheReport {
		u["input_tokens"] = a.PromptTokens - a.Progress.Cached
		u["cache_read_input_tokens"] = a.Progress.Cached
		u["cache_creation_input_tokens"] = 0
	}
	return u
}

func (m *messages) stopReason(a *Answer) string {
	if a.Finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

func (m *messages) message(a *Answer, content []any, stop any) map[string]any {
	return map[string]any{
		"id": "msg_" + a.Ask.Id, "type": "message", "role": "assistant", "model": a.Ask.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": m.usage(a), "system_fingerprint": "simulated",
	}
}

func (m *messages) Open(b []byte, a *Answer) []byte {
	b = named(b, "message_start", map[string]any{"message": m.message(a, []any{}, nil)})
	return named(b, "content_block_start", map[string]any{
		"index": 0, "content_block": map[string]any{"type": "text", "text": ""},
	})
}

func (*messages) Token(b []byte, a *Answer, i int) []byte {
	return named(b, "content_block_delta", map[string]any{
		"index": 0, "delta": map[string]any{"type": "text_delta", "text": a.piece(i)},
	})
}

func (m *messages) Closing(b []byte, a *Answer) []byte {
	b = named(b, "content_block_stop", map[string]any{"index": 0})
	b = named(b, "message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": m.stopReason(a), "stop_sequence": nil}, "usage": m.usage(a),
	})
	return named(b, "message_stop", map[string]any{})
}

func (*messages) Failure(b []byte, _ int, msg string) []byte {
	return named(b, "error", map[string]any{"error": map[string]any{"type": "api_error", "message": msg}})
}

func (m *messages) Whole(a *Answer) any {
	return m.message(a, []any{map[string]any{"type": "text", "text": a.Text}}, m.stopReason(a))
}
