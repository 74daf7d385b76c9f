package paths

import (
	"net/http"
	"strings"
)

// Kept is what a path says of objects that an engine keeps for its clients: responses, conversations, files, jobs.
type Kept struct {
	Is bool   // the path belongs to such objects
	ID string // the object that it names; "" for none
}

// Lists reports whether the engine would list the objects of all clients.
func (k Kept) Lists(method string) bool {
	return k.Is && k.ID == "" && (method == http.MethodGet || method == http.MethodHead)
}

// KeptAt reads a path, with slashes that follow each other as one: nginx and other servers before engines make that of
// them. Collections are those of OpenAI's and Anthropic's APIs that engines, and servers before them, have.
func KeptAt(method, path string) Kept {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if method == http.MethodPost && path == "/open_session" { // SGLang
		return Kept{Is: true}
	}
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return Kept{}
	}
	collection, rest, _ := strings.Cut(rest, "/")
	switch collection {
	case "responses", "conversations", "videos", "files", "batches", "uploads", "vector_stores", "assistants",
		"threads", "evals", "containers", "jobs", "tasks", "sessions":
	case "chat", "fine_tuning", "messages", "realtime":
		inner := ""
		inner, rest, _ = strings.Cut(rest, "/")
		switch collection + "/" + inner {
		case "fine_tuning/jobs", "messages/batches", "realtime/calls":
		case "chat/completions":
			if rest == "" && method != http.MethodGet && method != http.MethodHead {
				return Kept{}
			}
		default:
			return Kept{}
		}
	default:
		return Kept{}
	}
	id, _, _ := strings.Cut(rest, "/")
	if method == http.MethodPost {
		switch id {
		case "batch", "compact", "derender", "input_tokens", "render", "sync": // actions, not ids
			return Kept{}
		}
	}
	return Kept{Is: true, ID: id}
}

// NamesInside reports whether what is posted to a path names models where they are not looked for: in a file, or in
// what an earlier request has said.
func NamesInside(method, path string) bool {
	if method != http.MethodPost {
		return false
	}
	collection, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	return collection == "batches" || collection == "evals"
}
