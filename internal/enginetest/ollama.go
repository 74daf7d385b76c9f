package enginetest

import (
	"net/http"
	"time"
)

// ollamaRoutes are the paths of Ollama (0.33). There are no metrics and no tokenizer.
func (s *Server) ollamaRoutes(m *http.ServeMux) {
	s.openAIRoutes(m)
	s.messagesRoutes(m)
	m.HandleFunc("POST /v1/embeddings", s.embeddings)
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Ollama is running")) })
	m.HandleFunc("GET /api/version", s.versionJSON)
	m.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"models": s.ollamaModels(false)})
	})
	m.HandleFunc("GET /api/ps", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"models": s.ollamaModels(true)})
	})
	m.HandleFunc("POST /api/chat", func(w http.ResponseWriter, r *http.Request) { s.ollamaGenerate(w, r, true) })
	m.HandleFunc("POST /api/generate", func(w http.ResponseWriter, r *http.Request) { s.ollamaGenerate(w, r, false) })
}

func (s *Server) ollamaModels(loaded bool) []any {
	out := []any{}
	for _, id := range s.opts.Models {
		m := map[string]any{
			"name": id, "model": id, "size": 0, "digest": "simulated",
			"details": map[string]any{"format": "simulated", "family": "simulated", "parameter_size": "", "quantization_level": ""},
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

// ollamaGenerate is /api/chat and /api/generate; both stream unless told not to.
func (s *Server) ollamaGenerate(w http.ResponseWriter, r *http.Request, chat bool) {
	var f struct {
		fields
		Prompt  string `json:"prompt"`
		System  string `json:"system"`
		Options struct {
			NumPredict *int `json:"num_predict"`
		} `json:"options"`
	}
	err := s.read(w, r, &f)
	var a *ask
	if err == nil {
		if f.Model == "" {
			err = bad("model is required")
		} else {
			f.NPredict = f.Options.NumPredict
			a, err = s.newAsk(r, &f.fields)
		}
	}
	if err == nil {
		a.stream = f.Stream == nil || *f.Stream
		msgs := f.Messages
		if !chat {
			if f.System != "" {
				msgs = append(msgs, message{Role: "system", Content: quoted(f.System)})
			}
			msgs = append(msgs, message{Role: "user", Content: quoted(f.Prompt)})
		}
		if len(msgs) == 0 {
			err = bad("messages must be a list of at least one message")
		} else if a.prompt, err = render(nil, f.Tools, msgs); err != nil {
			err = bad("%v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, &ollamaShape{s: s, chat: chat})
}

// ollamaShape writes newline-delimited JSON.
type ollamaShape struct {
	s    *Server
	chat bool
}

func (*ollamaShape) contentType() string { return "application/x-ndjson" }

func (*ollamaShape) open(b []byte, _ *answer) []byte { return b }

func (o *ollamaShape) line(a *answer, text string, done bool) map[string]any {
	v := map[string]any{"model": a.ask.model, "created_at": time.Now().UTC().Format(time.RFC3339Nano), "done": done}
	if o.chat {
		v["message"] = map[string]any{"role": "assistant", "content": text}
	} else {
		v["response"] = text
	}
	if !done {
		return v
	}
	p := a.progress
	v["done_reason"] = a.finish
	v["total_duration"] = p.last.Sub(p.submitted)
	v["load_duration"] = 0
	v["prompt_eval_count"] = a.promptTokens
	v["prompt_eval_duration"] = p.prefilled.Sub(p.submitted)
	if !o.s.opts.NoCacheReport {
		v["prompt_eval_cached_count"] = p.cached
	}
	v["eval_count"] = a.made
	v["eval_duration"] = p.last.Sub(p.prefilled)
	v["simulated"] = true
	return v
}

func (o *ollamaShape) token(b []byte, a *answer, i int) []byte {
	return ndjson(b, o.line(a, a.piece(i), false))
}

func (o *ollamaShape) closing(b []byte, a *answer) []byte { return ndjson(b, o.line(a, "", true)) }

func (*ollamaShape) failure(b []byte, _ int, msg string) []byte {
	return ndjson(b, map[string]any{"error": msg})
}

func (o *ollamaShape) whole(a *answer) any { return o.line(a, a.text, true) }

func ndjson(b []byte, v map[string]any) []byte { return append(appendJSON(b, v), '\n') }
