package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
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

// stillLoading is the answer of every path while the model loads.
func (s *Server) stillLoading(w http.ResponseWriter) {
	api.WriteJSON(w, http.StatusServiceUnavailable, map[string]any{
		"error": map[string]any{"code": 503, "message": "Loading model", "type": "unavailable_error"},
	})
}

func (s *Server) llamacppHealth(w http.ResponseWriter, _ *http.Request) {
	if s.loading() {
		s.stillLoading(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) llamacppSlots(w http.ResponseWriter, r *http.Request) {
	slots, free := s.listSlots()
	if r.URL.Query().Get("fail_on_no_slot") == "1" && free == 0 {
		s.fail(w, r, http.StatusServiceUnavailable, "unavailable_error", "no slot available")
		return
	}
	api.WriteJSON(w, http.StatusOK, slots)
}

func (s *Server) llamacppProps(w http.ResponseWriter, _ *http.Request) {
	if s.loading() {
		s.stillLoading(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.opts.ContextTokens},
		"total_slots":                 s.opts.Engine.Slots, "model_path": s.opts.Models[0],
		"build_info": s.dialect.version, "chat_template": "",
		"modalities": map[string]bool{"vision": false, "audio": false}, "endpoint_slots": true, "endpoint_props": false,
		"endpoint_metrics": true, "is_sleeping": false, "simulated": true,
	})
}

func (s *Server) llamacppMetrics(w http.ResponseWriter, _ *http.Request) {
	st := s.pump.Stats()[0]
	var x exposition
	one := func(name, kind, help string, v float64) {
		x.family("llamacpp:"+name, kind, help)
		x.sample("llamacpp:"+name, v)
	}
	one("prompt_tokens_total", "counter", "Number of prompt tokens processed.",
		float64(st.PromptTokens-st.CachedTokens))
	one("prompt_tokens_cached_total", "counter", "Number of prompt tokens reused.", float64(st.CachedTokens))
	one("tokens_predicted_total", "counter", "Number of generation tokens processed.", float64(st.OutputTokens))
	one("n_decode_total", "counter", "Total number of llama_decode() calls", float64(st.Steps))
	one("n_busy_slots_per_decode", "counter", "Average number of busy slots per llama_decode() call",
		ratio(float64(st.OutputTokens), float64(st.Steps)))
	one("predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.",
		ratio(float64(st.OutputTokens), st.Busy.Seconds()))
	one("requests_processing", "gauge", "Number of requests processing.", float64(st.Running))
	one("requests_deferred", "gauge", "Number of requests deferred.", float64(st.Waiting))
	x.write(w)
}

// completion is llama.cpp's native path.
func (s *Server) completion(w http.ResponseWriter, r *http.Request) {
	var f api.Fields
	err := s.read(w, r, &f)
	var a *api.Ask
	if err == nil {
		a, err = s.newAsk(r, &f)
	}
	if err == nil {
		if a.Prompt, err = prompts.PromptBytes(f.Prompt); err != nil {
			err = api.Bad("%v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, api.NewCompletion())
}
