package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// embeddings computes a prompt and answers with a vector drawn from it.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var f api.Fields
	if err := s.read(w, r, &f); err != nil {
		s.failWith(w, r, err)
		return
	}
	a, err := s.newAsk(r, &f)
	if err == nil {
		a.None, a.Stream, a.MaxTokens = true, false, 0
		if a.Prompt, err = prompts.PromptBytes(f.Input); err != nil {
			err = api.Bad("input: %v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, api.NewEmbedding(s.style))
}
