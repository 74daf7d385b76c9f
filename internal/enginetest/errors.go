package enginetest

import (
	"errors"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/engine"
)

// failWith answers with an error of ours in the dialect's shape.
func (s *Server) failWith(w http.ResponseWriter, r *http.Request, err error) {
	var b *badRequest
	switch {
	case errors.As(err, &b):
		if b.kind == "exceed_context_size_error" {
			v := errorObject(b.status, b.kind, b.msg)
			v["error"].(map[string]any)["n_prompt_tokens"] = b.promptTokens
			v["error"].(map[string]any)["n_ctx"] = s.opts.ContextTokens
			writeJSON(w, b.status, v)
			return
		}
		s.fail(w, r, b.status, b.kind, b.msg)
	case errors.Is(err, engine.ErrQueueFull):
		s.fail(w, r, http.StatusServiceUnavailable, "ServiceUnavailableError", "The request queue is full.")
	case errors.Is(err, engine.ErrTooLong):
		s.fail(w, r, http.StatusBadRequest, "BadRequestError", "prompt and answer do not fit the KV cache")
	default:
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", err.Error())
	}
}

// fail writes an error in the shape of the API that was asked: Anthropic's, Ollama's own, SGLang's flat one, or
// OpenAI's object.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, kind, msg string) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/messages"):
		writeJSON(w, status, map[string]any{"type": "error", "error": map[string]any{"type": anthropicKind(status), "message": msg}})
	case s.opts.Dialect == fleet.KindOllama && strings.HasPrefix(r.URL.Path, "/api/"):
		writeJSON(w, status, map[string]any{"error": msg})
	case s.dialect.flatErrors && strings.HasPrefix(r.URL.Path, "/v1/"):
		writeJSON(w, status, map[string]any{"object": "error", "message": msg, "type": kind, "param": nil, "code": status})
	case s.dialect.flatErrors:
		writeJSON(w, status, map[string]any{"error": map[string]any{"message": msg}})
	default:
		writeJSON(w, status, errorObject(status, kind, msg))
	}
}

func errorObject(status int, kind, msg string) map[string]any {
	return map[string]any{"error": map[string]any{"message": msg, "type": kind, "param": nil, "code": status}}
}

// anthropicKind is the error type that Anthropic's API names for a status.
func anthropicKind(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusInternalServerError:
		return "api_error"
	default:
		return "invalid_request_error"
	}
}

// clientFault makes an error of reading a prompt into a 400, unless it already says what it is.
func clientFault(err error) error {
	var b *badRequest
	if errors.As(err, &b) {
		return err
	}
	return bad("%v", err)
}
