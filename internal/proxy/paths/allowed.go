package paths

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/prompt"
)

// PathError means that a request is not passed on: its path is not, or takes other methods.
type PathError struct {
	method, path string
	Methods      []string // that the path takes; none for a path that is not passed on
}

func (e *PathError) Error() string {
	if len(e.Methods) > 0 {
		takes := slices.DeleteFunc(
			slices.Clone(e.Methods),
			func(m string) bool { return m == http.MethodHead || m == http.MethodOptions },
		)
		return e.path + " takes " + strings.Join(takes, " or ") + ", not " + e.method
	}
	why := cmp.Or(Meant(e.path), ": it is not a path of an inference API such as /v1/chat/completions;")
	if rest, ok := strings.CutPrefix(e.path, "/v1/v1/"); ok { // the Anthropic libraries add it themselves
		why = "; did you mean " + strconv.Quote("/v1/"+rest) + "? Leave /v1 out of the client's base URL;"
	} else if whole := wholeBase(e.path); whole != "" {
		why = Meant(e.path) + " Leave " + whole + " out of the client's base URL;"
	}
	switch e.path {
	case "/abort_request", "/abort_requests", "/inference/v1/abort_requests":
		why = ": ids of requests name those of all clients. To abort a request, close its connection: the engine " +
			"stops at once;"
	}
	return "the router does not pass on " + e.method + " " + strconv.Quote(e.path) + why +
		" the setting paths allows others"
}

// Passes is the reason, a *PathError, why a request must not reach an engine; nil if it may. more are paths that are
// passed on besides the inference APIs.
func Passes(method, path string, more *guard.Paths) error {
	if passes(method, path, more) || method == http.MethodOptions && len(Methods(path, more)) > 0 {
		return nil
	}
	return &PathError{method, path, Methods(path, more)}
}

// passes reports whether a path takes a method. It takes HEAD where it takes GET.
func passes(method, path string, more *guard.Paths) bool {
	return prompt.Classify(method, path) != prompt.Other || allowed(method, path) || more.Has(method, path) ||
		method == http.MethodHead && more.Has(http.MethodGet, path)
}

// Methods are the methods that a path takes, OPTIONS among them; nil for a path that is not passed on.
func Methods(path string, more *guard.Paths) []string {
	var all []string
	for _, m := range [...]string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		if passes(m, path, more) {
			all = append(all, m)
		}
	}
	if len(all) > 0 || more.Has(http.MethodOptions, path) {
		all = append(all, http.MethodOptions)
	}
	return all
}

// Known is the path if it is one of a known, finite set of paths that some engines have and others do not; else "".
func Known(api prompt.API, method, path string) string {
	switch {
	case api != prompt.Other, method == http.MethodPost && inferring(path), method == http.MethodGet && asking(path):
		return path
	}
	return ""
}

// allowed reports whether a request is one of the engines' further inference APIs, or asks for an engine's state. It
// excludes what acts on an engine as a whole (sleep, wake-up, caches, profiles, weights, adapters, models on disk,
// slots), and unparsed paths that accept the parameters of a KV hand-over.
func allowed(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return asks(path)
	case http.MethodPost:
		return infers(path)
	case http.MethodDelete:
		return strings.HasPrefix(path, "/v1/responses/") || strings.HasPrefix(path, "/v1/sessions/") &&
			path != "/v1/sessions/"
	}
	return false
}

// Computes reports whether an engine computes a prompt for a request, which it may keep in its cache. Of paths that are
// not known it does whenever something is posted.
func Computes(api prompt.API, method, path string) bool {
	if api != prompt.Other {
		return api != prompt.CountTokens
	}
	if method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions ||
		method == http.MethodDelete {
		return false
	}
	switch path {
	case "/tokenize", "/v1/tokenize", "/detokenize", "/v1/detokenize",
		"/v1/chat/completions/render", "/v1/completions/render", "/v1/messages/render", "/v1/responses/render",
		"/v1/chat/completions/derender", "/v1/completions/derender",
		"/v1/chat/completions/input_tokens", "/v1/responses/input_tokens",
		"/parse_function_call", "/separate_reasoning", "/apply-template", "/api/show", "/ping",
		"/v1/realtime/sessions", "/v1/realtime/client_secrets", "/open_session", "/close_session":
		return false
	}
	if !KeptAt(method, path).Is {
		return true
	}
	collection, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	switch collection {
	case "responses", "conversations", "files", "uploads", "vector_stores", "containers", "sessions":
		return false
	}
	return true // batches, jobs, videos
}

// Repeats reports whether what is posted to a path without an API of its own is work that leaves nothing behind, so
// that another engine may do it once more, and that has an answer.
func Repeats(method, path string) bool {
	switch path {
	case "/v1/realtime/sessions", "/v1/realtime/client_secrets", // each is a session of the engine's
		"/ping": // answered with nothing
		return false
	}
	return method == http.MethodPost && inferring(path)
}

// asks reports whether a path is read with GET.
func asks(path string) bool {
	return asking(path) || strings.HasPrefix(path, "/v1/models/") || strings.HasPrefix(path, "/v1/responses/")
}

// asking lists the paths that are read with GET.
func asking(path string) bool {
	switch path {
	case "/", "/health", "/ping", "/version", "/v1/models", // vLLM, SGLang, TensorRT-LLM
		"/model_info", "/get_model_info", // SGLang
		"/v1/health", "/models", // llama.cpp
		"/api/tags", "/api/ps", "/api/version", // Ollama
		"/v1/realtime", "/v1/audio/voices": // OpenAI and vLLM
		return true
	}
	return false
}

// infers reports whether work is posted to a path.
func infers(path string) bool { return inferring(path) || strings.HasPrefix(path, "/v1/responses/") }

// inferring lists the paths to which work is posted.
func inferring(path string) bool {
	switch path {
	case "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations", // OpenAI
		"/v1/images/generations", "/v1/images/edits", "/v1/images/variations",
		"/v1/moderations", "/v1/realtime/sessions", "/v1/realtime/client_secrets":
		return true
	case "/tokenize", "/v1/tokenize", "/detokenize", "/v1/detokenize", // vLLM
		"/v1/chat/completions/render", "/v1/completions/render", "/v1/messages/render", "/v1/responses/render",
		"/v1/chat/completions/derender", "/v1/completions/derender", "/v1/chat/completions/input_tokens",
		"/v1/chat/completions/batch", "/generative_scoring", "/v1/decisions", "/v1/systemone",
		"/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score", "/classify", "/v1/classify",
		"/pooling", "/v2/embed", "/ping":
		return true
	case "/encode", "/parse_function_call", "/separate_reasoning": // SGLang
		return true
	case "/completion", "/completions", "/chat/completions", "/infill", "/embedding", "/embeddings", // llama.cpp
		"/reranking", "/v1/reranking", "/apply-template":
		return true
	case "/api/show": // Ollama
		return true
	}
	return false
}
