package prompt

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// BlockBytes is the length of one block of a Chain in canonical bytes. At about four bytes per token it is two engine
// blocks of 16 tokens.
const BlockBytes = 128

// Role is the role of a message.
type Role uint8

// The roles. OtherRole is any other role, and plain text without one.
const (
	OtherRole Role = iota
	User
	Assistant
	Tool
	System
)

// String is the role's word for logs and tests.
func (r Role) String() string {
	switch r {
	case User:
		return "user"
	case Assistant:
		return "assistant"
	case Tool:
		return "tool"
	case System:
		return "system"
	}
	return "other"
}

// Mark is the end of one message.
type Mark struct {
	Bytes int    // canonical bytes up to and including the message
	Hash  uint64 // of all of them; HashAt(Bytes)
	Own   uint64 // hash of this message alone, independent of its position; for the end of a plain prompt equal to Hash
	Role  Role   // as in the body: tool results in a user message (Anthropic) have the user's role
}

// TextKinds counts canonical bytes by kind of text, for the estimate of tokens: the kinds differ in bytes per token.
// From 2 kB on it is estimated from samples. Latin, Code, CJK and Other add up to Chain.Bytes; for token ids all are
// zero.
type TextKinds struct {
	Latin int // ASCII letters and the single spaces between words
	Code  int // digits, punctuation, symbols, line ends, indentation and the marks of messages
	CJK   int // Chinese, Japanese and Korean characters
	Other int // every other character beyond ASCII

	Digits int // number of digits in Code
	// Starts counts beginnings of words, humps of camelCase, runs of punctuation, indentation, and line ends.
	// Tokenizers split there before they merge.
	Starts int
}

// Chain is the content of a prompt as 64-bit xxh3 hashes over a canonical form, which is independent of the JSON's
// spelling: escapes, white space, order of members, and text as a string or as parts. If a prompt extends another by
// messages or text, its chain begins with the other's chain. A prompt that extends the last message in the middle also
// begins with the other's text (see HashAt), but shares no mark with it there.
//
// The hashes are neither secret nor forgery-proof: a client that chooses prompts can make two chains collide, which
// only misroutes its own conversations. The router mixes in what separates tenants.
//
// The zero Chain is ready for use. ParseChain fills it and reuses its buffers. It is not safe for concurrent use.
type Chain struct {
	// Scope is the hash of what the whole prompt depends on besides its text: tools, functions, documents, cache_salt,
	// extra_key, adapters, chat_template and engine-side state (previous_response_id); 0 without any. The router mixes
	// in model and tenant. Fields that only change the answer or the last few tokens of the prompt are excluded
	// (response_format, tool_choice, chat_template_kwargs, reasoning_effort): a conversation that changes them keeps
	// its identity and nearly all of its cache.
	Scope      uint64
	Space      uint64 // Scope without tools, functions and documents; 0 without any
	ToolsBytes int    // tools, functions and documents as compact JSON, which are rendered before everything else

	SystemBytes int    // canonical bytes of the leading system or developer part
	System      uint64 // its hash, HashAt(SystemBytes); 0 without such a part

	Blocks []uint64 // Blocks[i] is the hash of the canonical bytes [0, (i+1)*BlockBytes)
	Marks  []Mark   // ends of messages in order, including the system part; for a plain prompt its end only
	Bytes  int      // canonical bytes
	Whole  uint64   // HashAt(Bytes)

	// Prompts is the number of prompts in the body. The canonical form of several is that of all texts, joined by line
	// ends, or of the first list of token ids, as in TensorRT-LLM's conversation router. List has the first MaxListed
	// separately; it is empty for a single prompt.
	Prompts int
	List    []Listed
	Media   int       // number of images, audio and files, whose tokens Bytes does not include
	Kinds   TextKinds // features of the text

	root  uint64                    // HashAt(0)
	text  []byte                    // the canonical form from base on, see markRole
	base  int                       // canonical bytes of which only hashes are known
	tape  tape                      // tokens of parts not in place yet
	sort  []uint32                  // stack of members being put in order
	scope [numScoped]jsonscan.Value // top-level members that belong to Scope

	lumps     [numLumps]lump
	lumpKnown [numLumps]bool // the last occurrence was recognised

	front     front
	straight  bool // a plain prompt was written in place
	ids       int  // bytes of text that are a prompt's token ids
	resumed   bool // known parts are used
	pending   bool // the front is not there yet, so nothing can be hashed
	mainAt    int  // start of the main field's value
	sampled   TextKinds
	wasHashed int // marks with a known Hash

	noting   bool   // record stops
	stops    []stop // the last one of each chunk
	filled   int    // complete stops
	chunkEnd int    // end of the last stop's chunk
	cut      jsonscan.Cuts
	known    known
	broken   bool // the known parts are inconsistent
	keys     []chunkKey
	again    again
	scan     *scan    // memory of the pass that fills the chain in; nil before the first
	listed   []uint64 // blocks of all List
}

// MaxListed is the number of prompts of one body that are examined separately.
const MaxListed = fleet.MaxListed

// Listed is one of several prompts in a body.
type Listed struct {
	Blocks []uint64 // Chain.Blocks of this prompt alone
	Bytes  int      // canonical bytes
	Whole  uint64   // Chain.Whole of this prompt alone
	IDs    int      // number of token ids; 0 for text

	at uint32 // token on the tape
}

// again is what is needed to recompute the text from its beginning.
type again struct {
	parser *Parser
	api    API
	body   []byte
}

// The hashes of an empty text and of no token ids, which must differ.
const (
	rootText = 0x9ae16a3b2f90404f
	rootIDs  = 0xc3a5c85c97cb3127
)

// maxKeep is the largest buffer kept for the next prompt, so that one huge body does not hold memory for ever.
const maxKeep = 2 << 20

// mostReadAgain is the largest body that HashAt reads again, since it may hold the router's lock.
const mostReadAgain = 256 << 10

// maxChainBody bounds the bodies of chains: offsets have 32 bits.
const maxChainBody = 1 << 30

// A mark takes 32 bytes and a token on the tape 16, of which a body needs 3 each ("{}," and "1,"). These bounds, which
// no prompt that fits an engine's context reaches, keep a body from taking many times its own memory.
const (
	maxMarks  = 1 << 16
	maxTokens = 1 << 18
)

// Reset empties the chain and keeps its buffers.
func (c *Chain) Reset() {
	list, listed, blocks, marks := c.List[:0], kept(c.listed, 8), kept(c.Blocks, 8), kept(c.Marks, 32)
	text, sort, tokens, tapeText := kept(c.text, 1), kept(c.sort, 4), kept(c.tape.tokens, 4*16), kept(c.tape.text, 4)
	stops, keys, cuts, tail := kept(c.stops, 80), kept(c.keys, 24), kept(c.cut.Found, 24), c.known.tail[:0]
	scan := c.scan
	*c = Chain{} // in place: one with the buffers in it would be made on the stack and copied
	c.root, c.Whole, c.scan = rootText, rootText, scan
	c.List, c.listed, c.Blocks, c.Marks, c.text, c.sort = list, listed, blocks, marks, text, sort
	c.tape.tokens, c.tape.text, c.stops, c.keys, c.cut.Found, c.known.tail = tokens, tapeText, stops, keys, cuts, tail
}

// kept returns s for reuse, given its element size; larger buffers are kept for rarely large data.
func kept[T any](s []T, size int) []T {
	if cap(s)*size > maxKeep {
		return nil
	}
	return s[:0]
}

// TokenIDs appends up to most ids of a prompt that consists of token ids only; whole means that these are all. It
// appends none for any other prompt, or for several prompts. Ids below 0 or from 2^31 on, which engines reject, are
// clamped. It is valid until the next Reset or ParseChain.
func (c *Chain) TokenIDs(to []uint32, most int) (list []uint32, whole bool) {
	if c.Prompts != 1 || c.root != rootIDs || c.ids == 0 || c.ids != len(c.text) || c.base > 0 {
		return to, false
	}
	return idsOf(to, c.text[:c.ids], most)
}

// ListedIDs is TokenIDs of List[i].
func (c *Chain) ListedIDs(i int, to []uint32, most int) (list []uint32, whole bool) {
	if c.List[i].IDs == 0 {
		return to, false
	}
	return idsOf(to, c.tape.content(c.List[i].at), most)
}

// idsOf appends up to most ids of a canonical text.
func idsOf(to []uint32, text []byte, most int) (list []uint32, whole bool) {
	n := min(len(text)/4, most)
	for ids := text[:4*n]; len(ids) > 0; ids = ids[4:] {
		to = append(to, binary.LittleEndian.Uint32(ids))
	}
	return to, 4*n == len(text)
}

// HashAt is the hash of the first n canonical bytes, for 0 <= n <= Bytes, the same function as Mark.Hash and Whole. At
// the end of block i it is Blocks[i]. It is valid until the next Reset or ParseChain. After ParseChainFrom it may have
// to read the body again, which must be unchanged: for n in the known part, unless a message or a block ends there.
func (c *Chain) HashAt(n int) uint64 {
	h, full := c.root, n/BlockBytes
	if full > 0 {
		h = c.Blocks[full-1]
	}
	if n == full*BlockBytes {
		return h
	}
	if full*BlockBytes < c.base {
		i, ok := slices.BinarySearchFunc(c.Marks, n, func(m Mark, n int) int { return m.Bytes - n })
		if ok {
			return c.Marks[i].Hash
		}
		if len(c.again.body) > mostReadAgain || !c.readAgain() {
			return ^h
		}
	}
	return xxh3.HashSeed(c.text[full*BlockBytes-c.base:n-c.base], h)
}

// Begun is how many canonical bytes at the end of a text are the beginning of the answer: what opens the model's
// thinking, or opens and closes it to prevent that. Chat templates put it there and leave it out of later turns, as
// those of DeepSeek-R1 (<think>), Qwen3 (<think></think>) and Seed-OSS (<seed:think>) do. It is 0 where a chat or token
// ids are the prompt.
func (c *Chain) Begun() int {
	if len(c.Marks) != 1 || c.Marks[0].Role != OtherRole || c.root != rootText {
		return 0
	}
	end := len(c.text)
	for {
		text := bytes.TrimRight(c.text[:end], " \r\n")
		at := bytes.LastIndexByte(text, '<')
		if at < 0 || !opensThinking(text[at:]) {
			return len(c.text) - end
		}
		end = at
	}
}

// opensThinking reports whether a text is one tag that opens or closes thinking.
func opensThinking(tag []byte) bool {
	name, ok := bytes.CutSuffix(tag, []byte(">"))
	return ok && !bytes.ContainsAny(name, " \r\n") && (bytes.HasSuffix(name, []byte("think")) ||
		bytes.HasSuffix(name, []byte("thought")))
}

// readAgain recomputes the text from its beginning. It returns false if this is not the chain's body.
func (c *Chain) readAgain() bool {
	var whole Chain
	if _, err := c.again.parser.ParseChain(c.again.api, c.again.body, nil, &whole); err != nil ||
		whole.Bytes != c.Bytes {
		return false
	}
	c.text, c.base = whole.text, 0
	return true
}

// ParseChain is Parse that also computes the prompt's chain in the same pass. The earlier content of c is dropped. The
// chain is empty (Bytes is 0) after an error, for APIs without turns (Other, Embeddings, CountTokens), and for bodies
// above 1 GiB or of too many pieces (65,536 messages, 262,144 JSON values in one message, or in tools, adapters and the
// like).
func (p *Parser) ParseChain(api API, body []byte, header func(string) string, c *Chain) (Prompt, error) {
	return p.ParseChainFrom(nil, api, body, header, c)
}

// chain fills in c, using the known part of the body if there is one, and an empty Prompt. It returns false if what is
// known was wrong.
func (p *Parser) chain(
	mem *Memory,
	api API,
	body []byte,
	header func(string) string,
	c *Chain,
	out *Prompt,
) (ok bool, err error) {
	if c.scan == nil {
		c.scan = new(scan)
	}
	s := c.scan // 5 kB, which would otherwise be cold on the stack of each connection
	defer s.clear()
	s.parser, s.api, s.mem = p, api, mem
	if api.hasChain() && len(body) <= maxChainBody {
		s.chain = c
	}
	err = s.parse(body, header, out)
	if s.chain != nil && c.crowded() {
		c.Reset()
		s.clear()
		s.parser, s.api = p, api
		*out = Prompt{}
		err = s.parse(body, header, out)
	}
	if err != nil {
		c.Reset()
		return true, err
	}
	return s.chain == nil || c.finish(s, body), nil
}

func (a API) hasChain() bool { return a != Other && a != Embeddings && a != CountTokens }

// crowded reports whether a body has more pieces than a chain may have. The pass over it has ended then, maybe early.
func (c *Chain) crowded() bool { return len(c.Marks) > maxMarks || len(c.tape.tokens) > maxTokens }

// finish completes the canonical form and hashes it.
func (c *Chain) finish(s *scan, body []byte) bool {
	if c.known.raw > 0 && !c.resumed || !c.settleFront(s.api) {
		return false
	}
	if s.api.isPlain() {
		c.composePlain(s.api)
	}
	if !c.composeScope(s, body) {
		c.Reset()
		return true
	}
	c.Media += c.front.media
	c.Bytes = c.base + len(c.text)
	c.Blocks = slices.Grow(c.Blocks, c.Bytes/BlockBytes-len(c.Blocks))
	c.fill()
	c.advance(c.Bytes)
	c.Whole = c.HashAt(c.Bytes)
	for i := c.wasHashed; i < len(c.Marks); i++ {
		c.Marks[i].Hash = c.HashAt(c.Marks[i].Bytes)
	}
	if n := len(c.Marks); n > 0 && s.api.isPlain() {
		c.Marks[n-1].Own = c.Whole
	}
	for i := range c.Marks {
		if c.Marks[i].Role != System {
			break
		}
		c.SystemBytes, c.System = c.Marks[i].Bytes, c.Marks[i].Hash
	}
	if c.root == rootText {
		c.Kinds = c.kinds()
	}
	return true
}
