package engine

import "strings"

// OwnBytes bounds the body of an answer that OwnStatus reads.
const OwnBytes = 512

// OwnStatus is the status that an answer to a request stands for, where the engine speaks of itself under one that
// blames the request: another engine can answer, and a client may ask again.
//
// TensorRT-LLM's server answers 400 to whatever its engine raises, also to what its engine says of itself once the
// executor is shut down or has died (llmapi/llm.py, serve/openai_server.py):
// {"object":"error","message":"LLM is shutting down",...,"code":400}. LM Studio answers 400 when the process of a model
// has died: {"error":"The model has crashed without additional information. (Exit code: null)"}
// (lmstudio-ai/lmstudio-bug-tracker#1347).
func OwnStatus(status int, body []byte) int {
	if status != 400 || len(body) > OwnBytes {
		return status
	}
	switch said := absentText(body); {
	case said == "LLM is shutting down":
		return 503
	case strings.HasPrefix(said, "The model has crashed without additional information."):
		return 500
	}
	return status
}
