package send

import "net/http"

// resumable names a conversation to llama-server (0.7.0, server-stream.cpp). The engine then goes on with the answer
// when its client has left, for GET /v1/stream. It ends an answer under way that has the same name, of any client.
const resumable = "X-Conversation-Id"

// StreamPath is where a client comes back for such an answer, and ends it (DELETE); conv_id in the query names it.
const StreamPath = "/v1/stream"

// Resumable is the name of the answer that a request begins, or comes back for, at an engine that keeps it; "" for
// none. It is like the id of a stored response, and differs from all of those.
func (s *Sender) Resumable(r *http.Request) (begins, comesFor string) {
	const prefix = "stream "
	switch {
	case !s.cfg.Resumes:
	case r.URL.Path == StreamPath:
		if id := r.URL.Query().Get("conv_id"); id != "" {
			return "", prefix + id
		}
	case r.Method == http.MethodPost:
		if id := Named(r.Header).Get(resumable); id != "" {
			return prefix + id, ""
		}
	}
	return "", ""
}
