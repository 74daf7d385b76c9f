package answer

import (
	"bytes"
	"encoding/json"
)

// Refusal reads an answer of status 200 that has the form of one and is none: the engine has refused or lost the
// request before its first token. It is a whole answer, or the first piece of a stream, and code is the HTTP status
// that it stands for.
//
// SGLang's /generate has {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"The request queue is
// full.", "status_code":503}}}: in streams always, else for some statuses (FINISH_ABORT in schedule_batch.py;
// sgl-project/sglang#31802). A request that its client aborted has no status, and is answered. OpenAI's choices have
// "finish_reason":"error" (vLLM).
func Refusal(api string, piece []byte) (code int, said string, ok bool) {
	piece = bytes.TrimPrefix(behindComments(bytes.TrimSpace(piece)), []byte("data:"))
	switch api {
	case APIGenerate:
		return refusedGenerate(piece)
	case APIChat, APICompletions:
		return refusedChoices(piece)
	}
	return 0, "", false
}

// Nothing reports whether the whole body of a plain answer of status 200 is that of a handler that ended without an
// answer, or of another server at the engine's address. TensorRT-LLM's server writes it while it shuts down because its
// executor failed (CppExecutorError in serve/openai_server.py): null in chat and completions, {"detail":"None"} in
// responses.
func Nothing(body []byte) bool {
	switch string(bytes.TrimSpace(body)) {
	case "", "null", "{}", "[]", `{"detail":"None"}`:
		return true
	}
	return false
}

func refusedGenerate(piece []byte) (code int, said string, ok bool) {
	if !bytes.Contains(piece, []byte(`"abort"`)) {
		return 0, "", false
	}
	var a struct {
		Text      string            `json:"text"`
		OutputIDs []json.RawMessage `json:"output_ids"`
		Meta      struct {
			Output int `json:"completion_tokens"`
			Reason struct {
				Type    string `json:"type"`
				Message string `json:"message"`
				Status  int    `json:"status_code"`
			} `json:"finish_reason"`
		} `json:"meta_info"`
	}
	// the first value alone: of a stream more may follow
	if json.NewDecoder(bytes.NewReader(piece)).Decode(&a) != nil {
		return 0, "", false
	}
	r := &a.Meta.Reason
	refused := r.Type == "abort" && r.Status >= 400 && r.Status < 600
	if !refused || a.Text != "" || len(a.OutputIDs) > 0 || a.Meta.Output > 0 {
		return 0, "", false
	}
	return r.Status, shortened(r.Message), true
}

func refusedChoices(piece []byte) (code int, said string, ok bool) {
	if !bytes.Contains(piece, []byte(`"error"`)) {
		return 0, "", false
	}
	var a struct {
		Choices []struct {
			Reason  string `json:"finish_reason"`
			Text    string `json:"text"`
			Message struct {
				Content   json.RawMessage   `json:"content"`
				Reasoning json.RawMessage   `json:"reasoning_content"`
				Thinking  json.RawMessage   `json:"reasoning"`
				Calls     []json.RawMessage `json:"tool_calls"`
			} `json:"message"`
			Delta json.RawMessage `json:"delta"`
		} `json:"choices"`
	}
	if json.NewDecoder(bytes.NewReader(piece)).Decode(&a) != nil || len(a.Choices) == 0 {
		return 0, "", false
	}
	for i := range a.Choices {
		c := &a.Choices[i]
		if c.Reason != "error" || c.Text != "" || c.Delta != nil && says(c.Delta) || filled(c.Message.Content) ||
			filled(c.Message.Reasoning) || filled(c.Message.Thinking) || len(c.Message.Calls) > 0 {
			return 0, "", false
		}
	}
	return 500, "the engine ended its answer with an error", true
}

// Ended reports whether the message of an error with status 500 says that the engine has ended: vLLM's server says so
// of the process that computes, before it ends too (EngineDeadError in v1/engine/exceptions.py of 0.33: what clients
// get; before that version they got the message for logs).
func Ended(message string) bool {
	return message == "The server had an error while processing your request." ||
		message == "EngineCore encountered an issue. See stack trace (above) for the root cause."
}

// Overfull reports whether the message of an error with status 500 says that the requests at the engine did not fit in
// its memory together. llama-server fails all of them then, where others let some wait (0.7.0, captured:
// {"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}, as a body, or as the first
// or a later event of a stream). One that is too long alone is refused with status 400.
func Overfull(message string) bool { return message == "Context size has been exceeded." }
