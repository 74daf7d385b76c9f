package fleet

// BlockBytes is the length of a block of a Content, in canonical bytes (prompt.BlockBytes).
const BlockBytes = 128

// Content describes a prompt by hashes. A router reads it while it decides only; the caller may reuse it afterwards.
type Content struct {
	// hash of what the whole prompt depends on besides its text; the router adds the model and the tenant
	Scope  uint64
	Lead   int      // bytes rendered in front of the blocks, determined by Scope alone: tools, functions, documents
	Blocks []uint64 // Blocks[i] is the hash of the canonical bytes [0, (i+1)×BlockBytes)
	Bytes  int      // canonical bytes, including those after the last block
	Hash   uint64   // hash of all Bytes; 0 when unknown
	Ends   []int    // canonical bytes at which each message ends; none where the prompt has none
	Start  uint64   // hash of the first two messages; 0 when the prompt has no messages
	Text   Text     // features of the text; all zero when unknown

	// List holds the prompts of a request with several, at most MaxListed of them; it is empty for one prompt. The
	// other fields then describe all texts joined by line ends, or the first list of token ids.
	List []Listed
}

// MaxListed is the number of prompts of one request that are hashed one by one.
const MaxListed = 16

// Listed is one prompt of a request with several.
type Listed struct {
	Blocks []uint64 // as in a Content of this prompt alone
	Bytes  int      // canonical bytes
	Hash   uint64   // hash of all Bytes
	IDs    int      // number of token ids in the body; 0 for text
	Tokens *Tokens  // those ids, as in Request.Tokens; nil when unknown or not usable
}

// Text holds the features from which the number of tokens is estimated: canonical bytes by kind (prompt.TextKinds), and
// what a chat template adds.
type Text struct {
	Starts int // count of beginnings: of words, humps of camelCase, runs of punctuation, indentations and line ends
	Digits int // bytes
	CJK    int // bytes of Chinese, Japanese and Korean characters
	Other  int // bytes of every other character beyond ASCII

	Messages int // messages of a chat; 0 for a prompt without a chat template
	Tools    int // bytes of tools, functions and documents as compact JSON
	Media    int // count of images, audio and files
}
