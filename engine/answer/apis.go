package answer

// The words for APIs, which determine the shape of usage in an answer.
const (
	APIChat           = "chat"            // OpenAI /v1/chat/completions
	APICompletions    = "completions"     // OpenAI /v1/completions
	APIResponses      = "responses"       // OpenAI /v1/responses
	APIMessages       = "messages"        // Anthropic /v1/messages
	APICountTokens    = "count_tokens"    // Anthropic /v1/messages/count_tokens
	APIEmbeddings     = "embeddings"      // OpenAI /v1/embeddings, Ollama /api/embed
	APIGenerate       = "generate"        // SGLang /generate
	APIOllamaChat     = "ollama_chat"     // Ollama /api/chat
	APIOllamaGenerate = "ollama_generate" // Ollama /api/generate
	APIOther          = "other"           // any other: the names in it tell the shape
)
