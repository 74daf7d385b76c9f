package answer

import "github.com/warmpath/warmpath/fleet"

// End is the mark at the end of a stream, without which it is a part only.
type End string

// The marks.
const (
	EndDone      End = "data: [DONE]"
	EndCompleted End = "response.completed, .incomplete, .cancelled or .failed"
	EndStop      End = "message_stop"
	EndLine      End = `"done": true` // of a JSON line
	EndStopped   End = `"stop": true` // where the events have llama.cpp's own form; see Scanner.Native
	EndLearnt    End = "learnt"       // no mark is known: what this server has always sent before
	EndNone      End = "none"         // the API has no streams
)

// EndOf is the mark that a kind of engine sends at the end of each stream of an API.
//
// vLLM 0.32.0, SGLang 0.5.23, TensorRT-LLM 1.x, llama.cpp 0.7.0 (server-context.cpp: no [DONE] in Messages and
// Responses; its own API has none either) and Ollama 0.33 (middleware/openai.go, anthropic.go). SGLang serves Ollama's
// paths in Ollama's form (entrypoints/ollama/serving.py).
func EndOf(kind fleet.Kind, api string) End {
	if api == APICountTokens || api == APIEmbeddings {
		return EndNone
	}
	if kind == fleet.KindOther || kind == fleet.KindUnknown {
		return EndLearnt
	}
	switch api {
	case APIChat, APICompletions:
		return EndDone
	case APIResponses:
		return EndCompleted
	case APIMessages:
		return EndStop
	case APIGenerate:
		if kind == fleet.KindSGLang {
			return EndDone
		}
	case APIOllamaChat, APIOllamaGenerate:
		if kind == fleet.KindOllama || kind == fleet.KindSGLang {
			return EndLine
		}
	case APIOther:
		if kind == fleet.KindLlamaCpp {
			return EndStopped
		}
	}
	return EndLearnt
}

// GivesUp reports whether a kind of engine ends a stream early, and well, because of what the model says: Ollama does
// so when one token comes more than 30 times in a row (0.33, llm/llama_server.go). Its own API shows the tokens, see
// Scanner.Repeats; in OpenAI's and Anthropic's such an end is taken for that of a process that died.
func GivesUp(kind fleet.Kind) bool { return kind == fleet.KindOllama }
