package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// openAIRoutes are the paths in OpenAI's form that all dialects have.
func (s *Server) openAIRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/chat/completions", s.chat)
	m.HandleFunc("POST /v1/completions", s.completions)
	m.HandleFunc("GET /v1/models", s.models)
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var f api.Fields
	a, err := s.askChat(w, r, &f)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, api.NewOpenAI(s.style, true))
}

// askChat reads a chat request and renders its prompt.
func (s *Server) askChat(w http.ResponseWriter, r *http.Request, f *api.Fields) (*api.Ask, error) {
	if err := s.read(w, r, f); err != nil {
		return nil, err
	}
	a, err := s.newAsk(r, f)
	if err != nil {
		return nil, err
	}
	if len(f.Messages) == 0 {
		return nil, api.Bad("messages must be a list of at least one message")
	}
	told := a.Prompt
	if a.Prompt, err = s.rendered(f); err != nil {
		return nil, api.Bad("%v", err)
	}
	if told != nil {
		a.Prompt = told
	}
	return a, nil
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	var f api.Fields
	if err := s.read(w, r, &f); err != nil {
		s.failWith(w, r, err)
		return
	}
	a, err := s.newAsk(r, &f)
	if err == nil {
		a.Prompt, err = s.prompted(&f)
		if err != nil {
			err = api.Bad("%v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	if a.MaxTokens == 0 && !s.dialect.lanes {
		a.MaxTokens = 16 // OpenAI's default for completions
	}
	s.play(w, r, a, api.NewOpenAI(s.style, false))
}
