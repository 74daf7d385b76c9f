package enginetest

import "net/http"

// messagesRoutes are Anthropic's messages API, which vLLM and llama.cpp serve natively.
func (s *Server) messagesRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/messages", s.messages)
	m.HandleFunc("POST /v1/messages/count_tokens", s.countTokens)
}

// askMessages reads an Anthropic request: system is a field of its own and comes first.
func (s *Server) askMessages(w http.ResponseWriter, r *http.Request, mustBound bool) (*ask, error) {
	var f fields
	if err := s.read(w, r, &f); err != nil {
		return nil, err
	}
	a, err := s.newAsk(r, &f)
	if err != nil {
		return nil, err
	}
	switch {
	case len(f.Messages) == 0:
		return nil, bad("messages: at least one message is required")
	case mustBound && f.MaxTokens == nil:
		return nil, bad("max_tokens: Field required")
	}
	msgs := f.Messages
	if present(f.System) {
		msgs = append([]message{{Role: "system", Content: f.System}}, msgs...)
	}
	if a.prompt, err = render(nil, f.Tools, msgs); err != nil {
		return nil, bad("%v", err)
	}
	return a, nil
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	a, err := s.askMessages(w, r, true)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, &messagesShape{s: s})
}

func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	a, err := s.askMessages(w, r, false)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"input_tokens": tokens(len(a.prompt))})
}

// messagesShape writes Anthropic messages. input_tokens counts only what was not in the cache (vLLM 0.32, and
// Anthropic's own definition).
type messagesShape struct{ s *Server }

func (*messagesShape) contentType() string { return "text/event-stream; charset=utf-8" }

func named(b []byte, name string, v map[string]any) []byte {
	v["type"] = name
	return event(append(b, "event: "+name+"\n"...), v)
}

func (m *messagesShape) usage(a *answer) map[string]any {
	u := map[string]any{"input_tokens": a.promptTokens, "output_tokens": a.made}
	if !m.s.opts.NoCacheReport {
		u["input_tokens"] = a.promptTokens - a.progress.cached
		u["cache_read_input_tokens"] = a.progress.cached
		u["cache_creation_input_tokens"] = 0
	}
	return u
}

func (m *messagesShape) stopReason(a *answer) string {
	if a.finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

func (m *messagesShape) message(a *answer, content []any, stop any) map[string]any {
	return map[string]any{
		"id": "msg_" + a.ask.id, "type": "message", "role": "assistant", "model": a.ask.model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": m.usage(a), "system_fingerprint": "simulated",
	}
}

func (m *messagesShape) open(b []byte, a *answer) []byte {
	b = named(b, "message_start", map[string]any{"message": m.message(a, []any{}, nil)})
	return named(b, "content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
}

func (*messagesShape) token(b []byte, a *answer, i int) []byte {
	return named(b, "content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": a.piece(i)}})
}

func (m *messagesShape) closing(b []byte, a *answer) []byte {
	b = named(b, "content_block_stop", map[string]any{"index": 0})
	b = named(b, "message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": m.stopReason(a), "stop_sequence": nil}, "usage": m.usage(a),
	})
	return named(b, "message_stop", map[string]any{})
}

func (*messagesShape) failure(b []byte, _ int, msg string) []byte {
	return named(b, "error", map[string]any{"error": map[string]any{"type": "api_error", "message": msg}})
}

func (m *messagesShape) whole(a *answer) any {
	return m.message(a, []any{map[string]any{"type": "text", "text": a.text}}, m.stopReason(a))
}
