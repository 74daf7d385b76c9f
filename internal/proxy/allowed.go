package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/prompt"
)

// pathError says that a path is not passed on.
type pathError struct{ method, path string }

func (e *pathError) Error() string {
	return "the router does not pass on " + e.method + " " + strconv.Quote(e.path) + ": it is none of the inference APIs; paths in its configuration allows others"
}

// passes reports whether a request may reach an engine; it has been refused when not.
func (c *call) passes() bool {
	method, path := c.r.Method, c.r.URL.Path
	if c.api != prompt.Other || allowed(method, path) || c.p.cfg.Paths.Has(method, path) {
		return true
	}
	switch method {
	case http.MethodHead:
		if c.p.cfg.Paths.Has(http.MethodGet, path) {
			return true
		}
	case http.MethodOptions: // a browser asks before it calls; no engine does anything for it
		for _, m := range [...]string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if prompt.Classify(m, path) != prompt.Other || allowed(m, path) || c.p.cfg.Paths.Has(m, path) {
				return true
			}
		}
	}
	c.refuse(&pathError{method, path})
	return false
}

// allowed reports whether a request is one of the inference APIs that engines have beside those the router reads, or asks how an engine is.
// What acts on an engine as a whole (sleep, wake-up, caches, profiles, weights, adapters, models on its disk, slots) is none of them, and
// neither is what takes the parameters of a hand-over of KV cache under a path that the router does not read.
func allowed(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return asks(path)
	case http.MethodPost:
		return infers(path)
	case http.MethodDelete:
		return strings.HasPrefix(path, "/v1/responses/")
	}
	return false
}

// asks are the paths that are read.
func asks(path string) bool {
	switch path {
	case "/", "/health", "/health_generate", "/ping", "/version", "/v1/models", // vLLM, SGLang, TensorRT-LLM
		"/model_info", "/get_model_info", // SGLang
		"/v1/health", "/models", // llama.cpp
		"/api/tags", "/api/ps", "/api/version", // Ollama
		"/v1/realtime", "/v1/audio/voices": // OpenAI and vLLM
		return true
	}
	return strings.HasPrefix(path, "/v1/models/") || strings.HasPrefix(path, "/v1/responses/")
}

// infers are the paths to which work is posted.
func infers(path string) bool {
	switch path {
	case "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/generations", "/v1/images/edits", "/v1/images/variations",
		"/v1/moderations", "/v1/realtime/sessions", "/v1/realtime/client_secrets", // OpenAI
		"/tokenize", "/v1/tokenize", "/detokenize", "/v1/detokenize", "/v1/chat/completions/render", "/v1/completions/render", "/v1/chat/completions/input_tokens",
		"/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score", "/classify", "/v1/classify", "/pooling", "/v2/embed", "/ping", // vLLM
		"/encode", "/parse_function_call", "/separate_reasoning", // SGLang
		"/completion", "/completions", "/chat/completions", "/infill", "/embedding", "/embeddings", "/reranking", "/v1/reranking", "/apply-template", // llama.cpp
		"/api/show": // Ollama
		return true
	}
	return strings.HasPrefix(path, "/v1/responses/")
}

// shape is the API in whose shape an error is told: the path's own, or its family's.
func (c *call) shape() prompt.API {
	switch path := c.r.URL.Path; {
	case c.api != prompt.Other:
		return c.api
	case strings.HasPrefix(path, "/api/"):
		return prompt.OllamaChat
	case strings.HasPrefix(path, "/v1/messages/"):
		return prompt.Messages
	}
	return c.api
}
