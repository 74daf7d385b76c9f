package enginetest

import (
	"errors"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/sim/engine"
)

// failWith answers with an error in the dialect's shape.
func (s *Server) failWith(w http.ResponseWriter, r *http.Request, err error) {
	var b *api.Error
	switch {
	case errors.As(err, &b):
		if b.Kind == "exceed_context_size_error" {
			v := api.ErrorObject(b.Status, b.Kind, b.Msg)
			v["error"].(map[string]any)["n_prompt_tokens"] = b.PromptTokens
			v["error"].(map[string]any)["n_ctx"] = s.opts.ContextTokens
			api.WriteJSON(w, b.Status, v)
			return
		}
		if b.Invalid {
			api.WriteJSON(w, b.Status, map[string]any{"error": b.Msg})
			return
		}
		s.fail(w, r, b.Status, b.Kind, b.Msg)
	case errors.Is(err, engine.ErrQueueFull):
		s.fail(w, r, http.StatusServiceUnavailable, "ServiceUnavailableError", "The request queue is full.")
	case errors.Is(err, engine.ErrTooLong):
		s.fail(w, r, http.StatusBadRequest, "BadRequestError", "prompt and answer do not fit the KV cache")
	default:
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", err.Error())
	}
}

// fail writes an error in the shape of the request's API: Anthropic's, Ollama's, SGLang's and TensorRT-LLM's flat one,
// or OpenAI's object.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, kind, msg string) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/messages"):
		api.WriteJSON(w, status, map[string]any{
			"type": "error", "error": map[string]any{"type": api.AnthropicKind(status), "message": msg},
		})
	case s.opts.Dialect == fleet.KindOllama && strings.HasPrefix(r.URL.Path, "/api/"):
		api.WriteJSON(w, status, map[string]any{"error": msg})
	case s.dialect.flatErrors && strings.HasPrefix(r.URL.Path, "/v1/"):
		api.WriteJSON(w, status, map[string]any{
			"object": "error", "message": msg, "type": kind, "param": nil, "code": status,
		})
	case s.dialect.flatErrors:
		api.WriteJSON(w, status, map[string]any{"error": map[string]any{"message": msg}})
	default:
		api.WriteJSON(w, status, api.ErrorObject(status, kind, msg))
	}
}
