package fleet

// BlockBytes is the length in canonical bytes of the blocks of a Content (prompt.BlockBytes).
const BlockBytes = 128

// Content is what a prompt consists of, as hashes. It is read during Route only and may be used again after.
type Content struct {
	Scope  uint64   // what the whole prompt depends on besides its text; the model and the tenant are mixed in by the router
	Lead   int      // bytes rendered in front of the blocks and known by Scope alone: tools, functions, documents
	Blocks []uint64 // Blocks[i] identifies the canonical bytes [0, (i+1)×BlockBytes)
	Bytes  int      // canonical bytes, the rest after the last block included
	Start  uint64   // what the first two messages say; 0 when the prompt has no messages
	Text   Text     // what they are like; all zero when that is not known
}

// Text is what a prompt is like, as far as the number of its tokens goes: canonical bytes by kind (prompt.TextKinds), and
// what a chat template adds.
type Text struct {
	Latin  int // bytes: ASCII letters and the single spaces between words
	Starts int // count of where a word, a hump of camelCase, a run of punctuation, an indentation or a line's end begins
	Digits int // bytes
	Marks  int // bytes: punctuation and white space but single spaces between words
	CJK    int // bytes of Chinese, Japanese and Korean characters
	Other  int // bytes of every other character beyond ASCII

	Messages int // of a chat; 0 for a prompt that no template is applied to
	Tools    int // bytes of tools, functions and documents as compact JSON
	Media    int // count of images, audio and files
}
