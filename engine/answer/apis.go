package answer

// The words for APIs, which say in what shape an answer reports its usage.
const (
	APIChat           = "chat"            // OpenAI /v1/chat/completions
	APICompletions    = "completions"     // OpenAI /v1/completions
	APIEmbeddings     = "embeddings"      // OpenAI /v1/embeddings
	APIResponses      = "responses"       // OpenAI /v1/responses
	APIMessages       = "messages"        // Anthropic /v1/messages
	APICountTokens    = "count_tokens"    // Anthropic /v1/messages/count_tokens
	APIGenerate       = "generate"        // SGLang /generate
	APIOllamaChat     = "ollama_chat"     // Ollama /api/chat
	APIOllamaGenerate = "ollama_generate" // Ollama /api/generate
	APIOther          = "other"           // anything else: the shape is told by the names in it
)
