package engine

// EndingBytes bounds the body of an answer that Ending reads.
const EndingBytes = 512

// Ending reports whether the answer to a request says that the engine itself is ending, with a status that blames the
// request: it has done nothing, another engine can answer, and a client may ask again. TensorRT-LLM's server answers
// 400 to whatever its engine raises, also to what its engine says of itself once the executor is shut down or has died
// (llmapi/llm.py, serve/openai_server.py): {"object":"error","message":"LLM is shutting down",...,"code":400}.
func Ending(status int, body []byte) bool {
	return status == 400 && len(body) <= EndingBytes && absentText(body) == "LLM is shutting down"
}
