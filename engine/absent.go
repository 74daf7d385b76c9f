package engine

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Absence is what an engine says that it does not have.
type Absence uint8

// The absences.
const (
	AbsentNothing Absence = iota // the answer is not about something absent
	AbsentPath                   // the path, or the method on it: whatever was posted cost nothing and had no effect
	AbsentUse                    // the same, of an engine that has the path and says itself why it does not serve it
	// the model or adapter that the request names: it did nothing either, and another engine may have it
	AbsentModel
	AbsentOther // what else the request names: a response, a file. The engine serves the path
)

// What engines answer to a path that they do not have: FastAPI (vLLM, SGLang, TensorRT-LLM) {"detail":"Not Found"},
// which vLLM also wraps as an error; llama.cpp "File Not Found"; Ollama (gin) and Go's net/http "404 page not found";
// others nothing, a text or a page; the gateway Kong a text of its own. Their answers about something absent name it.
var absentPaths = [...]string{
	"", "not found", "file not found", "page not found", "404 page not found", "404 not found", "404",
	"route not found", "path not found", "endpoint not found", "the requested resource was not found",
	"the requested url was not found on this server", "no route matched with those values",
}

// AbsentBytes is how much of an answer's body Absent needs.
const AbsentBytes = 4 << 10

// MayLack reports whether an answer with a status may be about something that the engine does not have.
func MayLack(status int) bool {
	return status == 400 || status == 404 || status == 405 || status == 501
}

// Absent is what the answer to a request means by its status and the first AbsentBytes of its body. It is the one place
// that says what a 404 from an engine means. A 501 may also be about something in the request, such as an image: only
// one of llama-server is about the path, which says what the server was not started for.
func Absent(status int, body []byte) Absence {
	switch {
	case !MayLack(status):
		return AbsentNothing
	case status == 405:
		return AbsentPath
	}
	text := unaddressed(strings.ToLower(strings.Trim(absentText(body), " \t\r\n.")))
	switch {
	case status == 501:
		return absentUse(text)
	case status == 400 && !aboutModel(text):
		return AbsentNothing
	case lacksModel(text):
		return AbsentModel
	case status == 400:
		return AbsentNothing
	}
	if slices.Contains(absentPaths[:], text) || bare(body) {
		return AbsentPath
	}
	return AbsentOther
}

// absentUse is what a 501 means by its message in lower case (llama-server b11669).
func absentUse(text string) Absence {
	if of, ok := strings.CutPrefix(text, "this server does not support "); ok {
		for _, use := range [...]string{"completions", "embeddings", "reranking"} {
			if strings.HasPrefix(of, use) {
				return AbsentUse
			}
		}
	}
	return AbsentNothing
}

// unaddressed is a message without the worker that Xinference says before it: "[address=0.0.0.0:51672, pid=57224] Model
// not found, uid: m-0", which it answers also where that worker has died.
func unaddressed(text string) string {
	if _, said, found := strings.Cut(text, "] "); found && strings.HasPrefix(text, "[address=") {
		return said
	}
	return text
}

// bare reports whether a body is a text or a page, as of a web server or a proxy before engines ("default backend -
// 404"): what engines say of something absent is JSON, and S3's are XML.
func bare(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && body[0] != '{' && !bytes.HasPrefix(body, []byte("<?xml"))
}

// lacksModel reports whether a message in lower case says that there is no such model: "The model `m` does not exist."
// (vLLM 0.32.0, SGLang, TensorRT-LLM), "model 'm' not found, try pulling it first" (Ollama 0.33), "model not found",
// "model is not loaded" and, when it has just gone, "model name=m is not running" (llama.cpp as a router), "LoRA
// adapters are not loaded: m" (SGLang 0.5), "model: m" (Anthropic's form), "Model unloaded.", "Failed to load model",
// "Invalid model identifier" (LM Studio).
func lacksModel(text string) bool {
	text, _, _ = strings.Cut(text, " valid aliases:") // vLLM lists all names behind it
	if len(text) > longestComplaint {
		return false
	}
	if gatewayLacks(text) {
		return true
	}
	if !strings.Contains(text, "model") && !strings.Contains(text, "adapter") && !strings.Contains(text, "lora") {
		return false
	}
	for _, said := range [...]string{
		"does not exist", "not found", "not loaded", "not running", "no such", "unknown model", "no model", "unloaded",
		"failed to load model", "invalid model identifier",
	} {
		if strings.Contains(text, said) {
			return true
		}
	}
	return strings.HasPrefix(text, "model: ")
}

// gatewayLacks reports whether a message in lower case is what a gateway in an engine's place says of a model that it
// does not have: llama-swap, and LiteLLM, which puts the path before it.
func gatewayLacks(text string) bool {
	return strings.HasPrefix(text, "could not find suitable inference handler for ") ||
		strings.Contains(text, ": invalid model name passed in model=")
}

// aboutModel reports whether a message in lower case begins like those about a model. A 400 may be about anything else
// in the request, such as the URL of an image, whose name and server's words it repeats.
func aboutModel(text string) bool {
	for _, begins := range [...]string{
		"model ", "model: ", "the model ", "no model ", "no such model", "unknown model", // llama.cpp as a router, vLLM
		"no models are ",                                                         // TabbyAPI
		"no models loaded", "failed to load model ", "invalid model identifier ", // LM Studio
		// SGLang 0.5
		"adapter ", "lora ", "the lora ", "no such adapter", "no such lora", "the following requested lora adapters ",
	} {
		if strings.HasPrefix(text, begins) {
			return true
		}
	}
	return gatewayLacks(text)
}

// longestComplaint bounds the message about a model, in bytes: a longer one repeats the request.
const longestComplaint = 2*maxNameBytes + 256

// absentText is the message of an error in any of the shapes above, or the body itself.
func absentText(body []byte) string {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		return string(body)
	}
	var told struct {
		Detail  json.RawMessage `json:"detail"`
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &told) != nil {
		return string(body)
	}
	for _, raw := range []json.RawMessage{told.Error, told.Detail} {
		var text string
		var nested struct {
			Message string `json:"message"`
		}
		switch {
		case len(raw) == 0 || string(raw) == "null":
		case json.Unmarshal(raw, &text) == nil:
			return text
		case json.Unmarshal(raw, &nested) == nil && nested.Message != "":
			return nested.Message
		default:
			return string(raw)
		}
	}
	return told.Message
}
