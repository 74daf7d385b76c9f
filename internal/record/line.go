package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/trace"
)

// headerLine is the first line of a file. Package trace reads it.
type headerLine struct {
	Format     int       `json:"warmpath_recording"`
	Warmpath   string    `json:"warmpath"` // version of the router
	Began      time.Time `json:"began"`    // origin of the times in other lines
	Salt       string    `json:"salt"`     // fingerprint; hashes can be compared between recordings with the same one
	BlockBytes int       `json:"block_bytes"`
}

// engineLine is what a probe found out about an endpoint's engine. Unknown values are left out.
type engineLine struct {
	Engine      string  `json:"engine"` // the endpoint's name
	At          float64 `json:"at_ms"`
	Kind        string  `json:"kind,omitempty"`
	CacheTokens int64   `json:"cache_tokens,omitempty"`
	BlockTokens int     `json:"block_tokens,omitempty"`
	Slots       int     `json:"slots,omitempty"`
}

// requestLine is a request that has ended. Times are in ms. Unknown values are left out.
type requestLine struct {
	Number       uint64   `json:"n"`                   // in its file, from 1
	At           float64  `json:"at_ms"`               // arrival, after the header's began
	Sent         float64  `json:"sent_ms,omitempty"`   // from arrival until it was sent to the endpoint, if later
	TTFT         *float64 `json:"ttft_ms,omitempty"`   // from arrival to the first data of the answer
	Took         float64  `json:"took_ms"`             // from arrival to the end
	Class        string   `json:"class"`               // turn or embed
	Stream       bool     `json:"stream"`              // if false, the first data comes with the last token
	Model        string   `json:"model,omitempty"`     // pool
	Endpoint     string   `json:"endpoint,omitempty"`  // of the last attempt
	Retries      int      `json:"retries,omitempty"`   // attempts before the last
	Split        bool     `json:"split,omitempty"`     // another endpoint computed the prompt
	Outcome      string   `json:"outcome"`             // of the last attempt; "refused" without one
	Tenant       string   `json:"tenant,omitempty"`    // hash
	Conversation string   `json:"conversation"`        // hash
	Parent       string   `json:"parent,omitempty"`    // hash of the conversation that started this one
	PromptBytes  int      `json:"prompt_bytes"`        // of the text
	Estimate     int      `json:"estimate"`            // prompt tokens, estimated by the router
	PromptTokens int      `json:"tokens,omitempty"`    // prompt tokens, by the engine
	Predicted    int      `json:"predicted,omitempty"` // cached tokens expected by the router
	CachedTokens *int     `json:"cached,omitempty"`    // cached tokens, by the engine
	OutputTokens int      `json:"output,omitempty"`    // output tokens, by the engine
	MaxTokens    int      `json:"max_tokens,omitempty"`

	// The content of the prompt: Blocks blocks of the header's block_bytes. The first Shared blocks equal those of
	// request From of the same file. Hashes are of later blocks; each covers all bytes up to the end of its block.
	// hash of what the KV cache depends on besides the text; prompts of different scopes share nothing
	Scope  string `json:"scope,omitempty"`
	Lead   int    `json:"lead,omitempty"` // bytes before the blocks, the same in all prompts of the scope
	Bytes  int    `json:"bytes,omitempty"`
	Blocks int    `json:"blocks,omitempty"`
	From   uint64 `json:"from,omitempty"`
	Shared int    `json:"shared,omitempty"`
	// base64 of trace.RecordedHash bytes for each block that trace.RecordedMarks names
	Hashes []byte `json:"hashes,omitempty"`
}

// hasher makes hashes with a secret salt (truncated HMAC-SHA256). It is not safe for concurrent use.
type hasher struct {
	mac  hash.Hash
	sum  [sha256.Size]byte
	text []byte
}

func newHasher(salt []byte) hasher { return hasher{mac: hmac.New(sha256.New, salt)} }

func (h *hasher) over(kind byte, parts ...string) []byte {
	h.mac.Reset()
	h.text = append(h.text[:0], kind)
	for _, p := range parts {
		h.text = binary.AppendUvarint(h.text, uint64(len(p)))
		h.text = append(h.text, p...)
	}
	_, _ = h.mac.Write(h.text)
	return h.mac.Sum(h.sum[:0])
}

// fingerprint identifies the salt.
func (h *hasher) fingerprint() string { return hex.EncodeToString(h.over('f')[:4]) }

// name hashes an id; "" stays "".
func (h *hasher) name(kind byte, parts ...string) string {
	if parts[len(parts)-1] == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(h.over(kind, parts...)[:9])
}

// blocks appends the hashes of blocks within a scope.
func (h *hasher) blocks(to []byte, scope string, chain []uint64, which []int) []byte {
	for _, n := range which {
		h.mac.Reset()
		h.text = append(append(h.text[:0], 'b'), scope...)
		h.text = binary.LittleEndian.AppendUint64(h.text, chain[n-1])
		_, _ = h.mac.Write(h.text)
		to = append(to, h.mac.Sum(h.sum[:0])[:trace.RecordedHash]...)
	}
	return to
}

const blockBytes = fleet.BlockBytes
