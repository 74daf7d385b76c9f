package enginetest

import (
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// ollamaRoutes are the paths of Ollama (0.33). There are no metrics and no tokenizer.
func (s *Server) ollamaRoutes(m *http.ServeMux) {
	s.openAIRoutes(m)
	s.messagesRoutes(m)
	m.HandleFunc("POST /v1/embeddings", s.embeddings)
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("Ollama is running"))
	})
	m.HandleFunc("GET /api/version", s.versionJSON)
	m.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) {
		api.WriteJSON(w, http.StatusOK, map[string]any{"models": s.ollamaModels(false)})
	})
	m.HandleFunc("GET /api/ps", func(w http.ResponseWriter, _ *http.Request) {
		api.WriteJSON(w, http.StatusOK, map[string]any{"models": s.ollamaModels(true)})
	})
	m.HandleFunc("POST /api/chat", func(w http.ResponseWriter, r *http.Request) { s.ollamaGenerate(w, r, true) })
	m.HandleFunc("POST /api/generate", func(w http.ResponseWriter, r *http.Request) { s.ollamaGenerate(w, r, false) })
}

func (s *Server) ollamaModels(loaded bool) []any {
	out := []any{}
	for _, id := range s.opts.Models {
		m := map[string]any{
			"name": id, "model": id, "size": 0, "digest": "simulated",
			"details": map[string]any{
				"format": "simulated", "family": "simulated", "parameter_size": "", "quantization_level": "",
			},
		}
		if loaded {
			m["expires_at"] = time.Now().Add(5 * time.Minute).Format(time.RFC3339Nano)
			m["size_vram"] = 0
			m["context_length"] = s.opts.ContextTokens
		} else {
			m["modified_at"] = s.started.Format(time.RFC3339Nano)
		}
		out = append(out, m)
	}
	return out
}

// ollamaGenerate is /api/chat and /api/generate; both stream by default.
func (s *Server) ollamaGenerate(w http.ResponseWriter, r *http.Request, chat bool) {
	var f struct {
		api.Fields
		Prompt  string `json:"prompt"`
		System  string `json:"system"`
		Options struct {
			NumPredict *int `json:"num_predict"`
		} `json:"options"`
	}
	err := s.read(w, r, &f)
	var a *api.Ask
	if err == nil {
		if f.Model == "" {
			err = api.Bad("model is required")
		} else {
			f.NPredict = f.Options.NumPredict
			a, err = s.newAsk(r, &f.Fields)
		}
	}
	if err == nil {
		a.Stream = f.Stream == nil || *f.Stream
		msgs := f.Messages
		if !chat {
			if f.System != "" {
				msgs = append(msgs, prompts.Message{Role: "system", Content: prompts.Quoted(f.System)})
			}
			msgs = append(msgs, prompts.Message{Role: "user", Content: prompts.Quoted(f.Prompt)})
		}
		if len(msgs) == 0 {
			err = api.Bad("messages must be a list of at least one message")
		} else if a.Prompt, err = prompts.Render(nil, f.Tools, msgs); err != nil {
			err = api.Bad("%v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, api.NewOllama(s.style, chat))
}
