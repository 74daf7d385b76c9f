package api

// Ask is one request to generate, ready to become a job.
type Ask struct {
	Model        string
	Prompt       []byte
	Salt         string
	Id           string // of the request, without the API's prefix
	Conversation string // label of its blocks (vLLM)
	MaxTokens    int    // 0: as long as it naturally is
	MinTokens    int
	Exact        bool // ignore_eos: exactly maxTokens
	None         bool // no answer at all (embeddings)
	Stream       bool
	Usage        bool // the stream ends with usage
	Each         bool // usage on every chunk
	Rank         int  // -1: the engine chooses
	Slot         int  // -1: the engine chooses (llama.cpp)
	Leg          any  // of the connector: what the request says of a hand-over; nil for nothing
	Ids          bool // the answer has the token ids of its prompt (return_token_ids)
}
