package enginetest

import (
	"net/http"
)

// llamacppRoutes are the paths of llama-server (build 11669).
func (s *Server) llamacppRoutes(m *http.ServeMux) {
	s.openAIRoutes(m)
	s.responsesRoutes(m)
	s.messagesRoutes(m)
	m.HandleFunc("POST /v1/embeddings", s.embeddings)
	m.HandleFunc("POST /completion", s.completion)
	m.HandleFunc("GET /health", s.llamacppHealth)
	m.HandleFunc("GET /v1/health", s.llamacppHealth)
	m.HandleFunc("GET /slots", s.llamacppSlots)
	m.HandleFunc("GET /props", s.llamacppProps)
	m.HandleFunc("GET /metrics", s.llamacppMetrics)
	m.HandleFunc("POST /tokenize", s.tokenize)
	m.HandleFunc("POST /detokenize", s.detokenize)
}

// stillLoading is what every path says while the model loads.
func (s *Server) stillLoading(w http.ResponseWriter) {
	writeJSON(w, http.StatusServiceUnavailable, map[string]any{
		"error": map[string]any{"code": 503, "message": "Loading model", "type": "unavailable_error"},
	})
}

func (s *Server) llamacppHealth(w http.ResponseWriter, _ *http.Request) {
	if s.loading() {
		s.stillLoading(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) llamacppSlots(w http.ResponseWriter, r *http.Request) {
	slots, free := s.listSlots()
	if r.URL.Query().Get("fail_on_no_slot") == "1" && free == 0 {
		s.fail(w, r, http.StatusServiceUnavailable, "unavailable_error", "no slot available")
		return
	}
	writeJSON(w, http.StatusOK, slots)
}

func (s *Server) llamacppProps(w http.ResponseWriter, _ *http.Request) {
	if s.loading() {
		s.stillLoading(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.opts.ContextTokens},
		"total_slots":                 s.opts.Engine.Slots, "model_path": s.opts.Models[0], "build_info": s.dialect.version,
		"chat_template": "", "modalities": map[string]bool{"vision": false, "audio": false},
		"endpoint_slots": true, "endpoint_props": false, "endpoint_metrics": true, "is_sleeping": false, "simulated": true,
	})
}

func (s *Server) llamacppMetrics(w http.ResponseWriter, _ *http.Request) {
	st := s.pump.stats()[0]
	var x exposition
	one := func(name, kind, help string, v float64) {
		x.family("llamacpp:"+name, kind, help)
		x.sample("llamacpp:"+name, v)
	}
	one("prompt_tokens_total", "counter", "Number of prompt tokens processed.", float64(st.PromptTokens-st.CachedTokens))
	one("prompt_tokens_cached_total", "counter", "Number of prompt tokens reused.", float64(st.CachedTokens))
	one("tokens_predicted_total", "counter", "Number of generation tokens processed.", float64(st.OutputTokens))
	one("n_decode_total", "counter", "Total number of llama_decode() calls", float64(st.Steps))
	one("n_busy_slots_per_decode", "counter", "Average number of busy slots per llama_decode() call", ratio(float64(st.OutputTokens), float64(st.Steps)))
	one("predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.", ratio(float64(st.OutputTokens), st.Busy.Seconds()))
	one("requests_processing", "gauge", "Number of requests processing.", float64(st.Running))
	one("requests_deferred", "gauge", "Number of requests deferred.", float64(st.Waiting))
	x.write(w)
}

// timingsOf are the timings that llama.cpp puts into its answers.
func timingsOf(a *answer) map[string]any {
	p := a.progress
	prompt, predicted := p.prefilled.Sub(p.submitted), p.last.Sub(p.prefilled)
	n := a.promptTokens - p.cached
	return map[string]any{
		"cache_n": p.cached, "prompt_n": n, "prompt_ms": ms(prompt), "prompt_per_second": ratio(float64(n), prompt.Seconds()),
		"predicted_n": a.made, "predicted_ms": ms(predicted), "predicted_per_second": ratio(float64(a.made), predicted.Seconds()),
	}
}

// completion is llama.cpp's native path.
func (s *Server) completion(w http.ResponseWriter, r *http.Request) {
	var f fields
	err := s.read(w, r, &f)
	var a *ask
	if err == nil {
		a, err = s.newAsk(r, &f)
	}
	if err == nil {
		if a.prompt, err = promptBytes(f.Prompt); err != nil {
			err = bad("%v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, &completionShape{})
}

// completionShape writes answers of /completion.
type completionShape struct{}

func (*completionShape) contentType() string { return "text/event-stream" }

func (*completionShape) open(b []byte, _ *answer) []byte { return b }

func (*completionShape) token(b []byte, a *answer, i int) []byte {
	return event(b, map[string]any{
		"index": 0, "content": a.piece(i), "stop": false, "id_slot": a.ask.slot, "tokens_predicted": i + 1, "tokens_evaluated": a.promptTokens,
	})
}

func (c *completionShape) closing(b []byte, a *answer) []byte { return event(b, c.final(a, "")) }

func (*completionShape) failure(b []byte, status int, msg string) []byte {
	return event(append(b, "error: "...), errorObject(status, "server_error", msg))
}

func (c *completionShape) whole(a *answer) any { return c.final(a, a.text) }

func (*completionShape) final(a *answer, text string) map[string]any {
	stop := "eos"
	if a.finish == "length" {
		stop = "limit"
	}
	return map[string]any{
		"index": 0, "content": text, "stop": true, "stop_type": stop, "stopping_word": "", "truncated": false, "id_slot": a.ask.slot,
		"model": a.ask.model, "tokens_predicted": a.made, "tokens_evaluated": a.promptTokens,
		"tokens_cached": a.promptTokens + a.made, "timings": timingsOf(a), "simulated": true,
	}
}
