package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// responsesRoutes are OpenAI's responses API.
func (s *Server) responsesRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/responses", s.createResponse)
	m.HandleFunc("GET /v1/responses/{id}", func(w http.ResponseWriter, r *http.Request) {
		if st := s.responses.Find(r.PathValue("id")); st != nil {
			api.WriteJSON(w, http.StatusOK, st.Body)
			return
		}
		s.noResponse(w, r, r.PathValue("id"))
	})
	m.HandleFunc("DELETE /v1/responses/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if !s.responses.Remove(id) {
			s.noResponse(w, r, id)
			return
		}
		api.WriteJSON(w, http.StatusOK, map[string]any{"id": id, "object": "response", "deleted": true})
	})
	m.HandleFunc("POST /v1/responses/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		if s.responses.Find(r.PathValue("id")) == nil {
			s.noResponse(w, r, r.PathValue("id"))
			return
		}
		// Only background responses can be cancelled, and the simulated engine has none.
		s.fail(w, r, http.StatusBadRequest, "invalid_request_error", "Cannot cancel a synchronous response.")
	})
}

func (s *Server) noResponse(w http.ResponseWriter, r *http.Request, id string) {
	s.fail(w, r, http.StatusNotFound, "invalid_request_error", "Response with id '"+id+"' not found.")
}

func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) {
	var f struct {
		api.Fields
		Instructions string `json:"instructions"`
		Previous     string `json:"previous_response_id"`
		Store        *bool  `json:"store"`
		Background   bool   `json:"background"`
	}
	err := s.read(w, r, &f)
	var a *api.Ask
	if err == nil {
		a, err = s.newAsk(r, &f.Fields)
	}
	if err == nil && f.Background {
		err = api.Bad("the simulated engine runs no responses in the background")
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	a.Usage = true
	var msgs []prompts.Message
	if f.Instructions != "" {
		msgs = append(msgs, prompts.Message{Role: "system", Content: prompts.Quoted(f.Instructions)})
	}
	var history []prompts.Message
	if f.Previous != "" {
		st := s.responses.Find(f.Previous)
		if st == nil {
			s.noResponse(w, r, f.Previous)
			return
		}
		history = append(history, st.Messages...)
	}
	input, err := api.InputMessages(f.Input)
	if err != nil {
		s.failWith(w, r, api.Bad("input: %v", err))
		return
	}
	history = append(history, input...)
	if a.Prompt, err = prompts.Render(nil, f.Tools, append(msgs, history...)); err != nil {
		s.failWith(w, r, api.Bad("%v", err))
		return
	}
	s.play(w, r, a, api.NewResponses(s.style, &s.responses, history, f.Store == nil || *f.Store, f.Previous))
}
