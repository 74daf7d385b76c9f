// Package prompt reads what the router needs to know from a request body, in one pass: the model, whether the answer
// streams, the amount of text, the conversation, the prompt as a chain of hashes, and the positions of members that may
// have to be changed for an engine.
//
// It owns the APIs and their fields, the canonical form of prompts, the places of ids, and the memory of bodies read
// before (Memory). It promises to accept exactly what encoding/json accepts, that equal prompts have equal chains
// however their JSON is written, and that edits leave all other bytes unchanged. It never serialises a body anew, keeps
// at most 135 bytes of a prompt in its memory, and chooses no endpoint.
package prompt

import "github.com/warmpath/warmpath/fleet"

// API is the request format of a path.
type API uint8

// The supported formats. Other is everything else; its bodies are only inspected by Peek.
const (
	Other          API = iota
	Chat               // OpenAI POST /v1/chat/completions
	Completions        // OpenAI POST /v1/completions
	Embeddings         // OpenAI POST /v1/embeddings, Ollama POST /api/embed and /api/embeddings
	Responses          // OpenAI POST /v1/responses
	Messages           // Anthropic POST /v1/messages
	CountTokens        // Anthropic POST /v1/messages/count_tokens
	Generate           // SGLang POST /generate
	OllamaChat         // Ollama POST /api/chat
	OllamaGenerate     // Ollama POST /api/generate
)

var apiNames = [...]string{
	Other: "other", Chat: "chat", Completions: "completions", Embeddings: "embeddings", Responses: "responses",
	Messages: "messages", CountTokens: "count_tokens", Generate: "generate", OllamaChat: "ollama_chat",
	OllamaGenerate: "ollama_generate",
}

// String is the metric label and log word of the API.
func (a API) String() string {
	if int(a) < len(apiNames) {
		return apiNames[a]
	}
	return apiNames[Other]
}

// Class is the class of this API's requests.
func (a API) Class() fleet.Class {
	switch a {
	case Embeddings:
		return fleet.Embed
	case Other, CountTokens:
		return fleet.Auxiliary
	default:
		return fleet.Turn
	}
}

// NamesModel reports whether engines read the model in the body's member model. SGLang's own API has none.
func (a API) NamesModel() bool { return a != Other && a != Generate }

// streamsByDefault reports whether an absent "stream" means true, as in Ollama's two generating calls (ollama
// docs/api.md, v0.5 and later).
func (a API) streamsByDefault() bool { return a == OllamaChat || a == OllamaGenerate }

// Classify returns the API of a method and path without query. Anything but an exact match is Other.
func Classify(method, path string) API {
	if method != "POST" {
		return Other
	}
	switch path {
	case "/v1/chat/completions":
		return Chat
	case "/v1/completions":
		return Completions
	case "/v1/embeddings", "/api/embed", "/api/embeddings":
		return Embeddings
	case "/v1/responses":
		return Responses
	case "/v1/messages":
		return Messages
	case "/v1/messages/count_tokens":
		return CountTokens
	case "/generate":
		return Generate
	case "/api/chat":
		return OllamaChat
	case "/api/generate":
		return OllamaGenerate
	}
	return Other
}
