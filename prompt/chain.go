package prompt

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// BlockBytes is the length of one block of a Chain in canonical bytes. At about four bytes a token it is two to three
// of an engine's blocks of 16 tokens.
const BlockBytes = 128

// Role is who speaks in a message.
type Role uint8

// The roles. OtherRole is any other, and plain text that has none.
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
	Bytes int    // canonical bytes up to and with the message
	Hash  uint64 // of all of them; HashAt(Bytes)
	Own   uint64 // of this message alone, wherever it stands; of a plain prompt's end the same as Hash
	Role  Role   // as the body has it: results of tools that come in a user's message (Anthropic) are the user's
}

// TextKinds counts canonical bytes by the kind of text, for the estimate of tokens: the kinds differ in bytes per
// token. From 2 kB on it is an estimate from samples. Latin, Code, CJK and Other add up to Chain.Bytes; of a prompt of
// token ids all are zero.
type TextKinds struct {
	Latin int // ASCII letters and the single spaces between words
	Code  int // digits, punctuation, symbols, line ends, indentation and the marks of messages
	CJK   int // Chinese, Japanese and Korean characters
	Other int // every other character beyond ASCII

	Digits int // how many of Code are digits
	// Starts counts where something new begins: words, humps of camelCase, runs of punctuation, indentation, ends of
	// lines. Tokenizers cut there before they merge anything.
	Starts int
}

// Chain is the content of a prompt as hashes (xxh3, 64 bits) over a canonical form, in which the spelling of the JSON
// does not show: escapes, white space, the order of members, and text as a string or as parts. The chain of a prompt
// that another one extends by messages or by text is the beginning of the other's chain. A prompt that goes on in the
// middle of the last message begins the other's text too (HashAt says so), but has no mark in common with it there.
//
// The hashes are no secret and not proof against forgery; whoever can choose prompts can make two chains meet, which
// gives a wrong guess about his own conversations. Tenants are kept apart by what the router mixes in.
//
// The zero Chain is ready for use. ParseChain fills it; its buffers are kept from one prompt to the next. It serves one
// caller at a time.
type Chain struct {
	// Scope is of what the whole prompt depends on besides its text: tools, functions, documents, cache_salt,
	// extra_key, adapters, chat_template and state the engine keeps (previous_response_id); 0 when there is none of
	// it. Model and tenant are the router's to mix in. Fields that change only how the answer is made or the last few
	// tokens of the prompt are left out (response_format, tool_choice, chat_template_kwargs, reasoning_effort):
	// a conversation that changes them midway keeps its name and nearly all of its cache.
	Scope      uint64
	Space      uint64 // of Scope, all but tools, functions and documents; 0 when there is none of it
	ToolsBytes int    // tools, functions and documents as compact JSON: they are rendered in front of everything

	SystemBytes int    // canonical bytes of the leading system or developer part
	System      uint64 // its hash, HashAt(SystemBytes); 0 when there is no such part

	Blocks []uint64 // Blocks[i] identifies the canonical bytes [0, (i+1)*BlockBytes)
	Marks  []Mark   // ends of messages in order, the system part's with them; of a plain prompt its end alone
	Bytes  int      // canonical bytes
	Whole  uint64   // HashAt(Bytes)

	Prompts int       // prompts in the body, more than one in a batch; everything here is about the first
	Media   int       // images, audio and files, whose tokens Bytes says nothing about
	Kinds   TextKinds // what the text is like

	root  uint64                    // HashAt(0)
	text  []byte                    // the canonical form from base on, see markRole
	base  int                       // canonical bytes that are known by their hashes alone
	tape  tape                      // tokens of what is not in its place yet
	sort  []uint32                  // stack of members being put in order
	scope [numScoped]jsonscan.Value // top-level members that belong to Scope

	lumps     [numLumps]lump
	lumpKnown [numLumps]bool // the last occurrence was recognised

	front     front
	straight  bool // a plain prompt was written in its place
	resumed   bool // what was known is in use
	pending   bool // the front is still to come, so nothing can be hashed yet
	mainAt    int  // where the value of the main field begins
	sampled   TextKinds
	wasHashed int // marks whose Hash is known

	noting   bool   // stops are wanted
	stops    []stop // the last in each chunk
	filled   int    // stops that are complete
	chunkEnd int    // end of the last stop's chunk
	cut      jsonscan.Cuts
	known    known
	broken   bool // what was known does not fit together
	keys     []chunkKey
	again    again
}

// again is what it takes to make the text from its beginning.
type again struct {
	parser *Parser
	api    API
	body   []byte
}

// The hash of no text at all, and of no token ids: the two must not meet.
const (
	rootText = 0x9ae16a3b2f90404f
	rootIDs  = 0xc3a5c85c97cb3127
)

// maxKeep is the most that a buffer may hold to be kept for the next prompt, so that one huge body does not stay in
// memory for good.
const maxKeep = 2 << 20

// mostReadAgain is the length in bytes of a body beyond which HashAt does not read it again: that may be under the router's lock.
const mostReadAgain = 256 << 10

// maxChainBody bounds the bodies that chains are made of: offsets are kept in 32 bits.
const maxChainBody = 1 << 30

// Reset empties the chain and keeps its buffers.
func (c *Chain) Reset() {
	*c = Chain{
		root: rootText, Whole: rootText,
		Blocks: kept(c.Blocks, 8), Marks: kept(c.Marks, 32), text: kept(c.text, 1), sort: kept(c.sort, 4),
		tape:  tape{tokens: kept(c.tape.tokens, 4*16), text: kept(c.tape.text, 4)},
		stops: kept(c.stops, 80), keys: kept(c.keys, 24), cut: jsonscan.Cuts{Found: kept(c.cut.Found, 24)},
		known: known{tail: c.known.tail[:0]},
	}
}

// kept is s for use again, of items of a size in bytes; more than that for what is rarely large.
func kept[T any](s []T, size int) []T {
	if cap(s)*size > maxKeep {
		return nil
	}
	return s[:0]
}

// HashAt is the hash of the first n canonical bytes, for 0 <= n <= Bytes, the same function as Mark.Hash and Whole. At
// the end of block i it is Blocks[i]. It works until the next Reset or ParseChain. After ParseChainFrom it may have to
// read the body again, which must not have been changed then: for n in the part that was known, unless a message or a
// block ends there.
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

// readAgain makes the text from its beginning. False: this is not the body that the chain was made of.
func (c *Chain) readAgain() bool {
	var whole Chain
	if _, err := c.again.parser.ParseChain(c.again.api, c.again.body, nil, &whole); err != nil || whole.Bytes != c.Bytes {
		return false
	}
	c.text, c.base = whole.text, 0
	return true
}

// ParseChain is Parse that also makes the chain of the prompt, in the same pass over the body. What c held before is
// gone. The chain is empty (Bytes is 0) after an error and for an API whose prompts have no turns: Other, Embeddings,
// CountTokens; also for bodies above 1 GiB.
func (p *Parser) ParseChain(api API, body []byte, header func(string) string, c *Chain) (Prompt, error) {
	c.Reset()
	out, _, err := p.chain(nil, api, body, header, c)
	return out, err
}

// chain fills in c, from what is known of the body if something is. False: that was wrong.
func (p *Parser) chain(mem *Memory, api API, body []byte, header func(string) string, c *Chain) (out Prompt, ok bool, err error) {
	var s scan
	s.parser, s.api, s.mem = p, api, mem
	if api.hasChain() && len(body) <= maxChainBody {
		s.chain = c
	}
	if out, err = s.parse(body, header); err != nil {
		c.Reset()
		return out, true, err
	}
	if s.chain != nil && !c.finish(&s, body) {
		return out, false, nil
	}
	return out, true, nil
}

func (a API) hasChain() bool { return a != Other && a != Embeddings && a != CountTokens }

// finish completes the canonical form and hashes it.
func (c *Chain) finish(s *scan, body []byte) bool {
	if c.known.raw > 0 && !c.resumed || !c.settleFront(s.api) {
		return false
	}
	if s.api.isPlain() {
		c.composePlain(s.api)
	}
	c.composeScope(s, body)
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
