package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// messagesRoutes are Anthropic's messages API, which vLLM and llama.cpp serve natively.
func (s *Server) messagesRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/messages", s.messages)
	m.HandleFunc("POST /v1/messages/count_tokens", s.countTokens)
}

// askMessages reads an Anthropic request: system is a separate field and comes first.
func (s *Server) askMessages(w http.ResponseWriter, r *http.Request, mustBound bool) (*api.Ask, error) {
	var f api.Fields
	if err := s.read(w, r, &f); err != nil {
		return nil, err
	}
	a, err := s.newAsk(r, &f)
	if err != nil {
		return nil, err
	}
	switch {
	case len(f.Messages) == 0:
		return nil, api.Bad("messages: at least one message is required")
	case mustBound && f.MaxTokens == nil:
		return nil, api.Bad("max_tokens: Field required")
	}
	msgs := f.Messages
	if prompts.Present(f.System) {
		msgs = append([]prompts.Message{{Role: "system", Content: f.System}}, msgs...)
	}
	if a.Prompt, err = prompts.Render(nil, f.Tools, msgs); err != nil {
		return nil, api.Bad("%v", err)
	}
	return a, nil
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	a, err := s.askMessages(w, r, true)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, api.NewMessages(s.style))
}

func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	a, err := s.askMessages(w, r, false)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{"input_tokens": prompts.Tokens(len(a.Prompt))})
}
