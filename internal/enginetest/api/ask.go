package api

// Ask is one request, ready to become a job.
type Ask struct {
	Model        string
	Prompt       []byte
	Salt         string
	Id           string // of the request, without the API's prefix
	Conversation string // label of its blocks (vLLM)
	MaxTokens    int    // 0: its natural length
	MinTokens    int
	Exact        bool // ignore_eos: exactly maxTokens
	None         bool // no answer at all (embeddings)
	Stream       bool
	Usage        bool // the stream ends with usage
	Each         bool // usage on every chunk
	Rank         int  // -1: the engine chooses
	Slot         int  // -1: the engine chooses (llama.cpp)
	Leg          any  // of the connector: the request's parameters; nil for none
	Ids          bool // the answer contains the prompt's token ids (return_token_ids)
}
