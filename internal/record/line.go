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

// headerLine begins a file. Package trace reads it.
type headerLine struct {
	Format     int       `json:"warmpath_recording"`
	Warmpath   string    `json:"warmpath"` // version of the router
	Began      time.Time `json:"began"`    // times of the other lines count from here
	Salt       string    `json:"salt"`     // fingerprint: hashes of recordings with the same can be compared
	BlockBytes int       `json:"block_bytes"`
}

// engineLine says what a probe found out about an endpoint's engine. What is not known is left out.
type engineLine struct {
	Engine      string  `json:"engine"` // the endpoint's name
	At          float64 `json:"at_ms"`
	Kind        string  `json:"kind,omitempty"`
	CacheTokens int64   `json:"cache_tokens,omitempty"`
	BlockTokens int     `json:"block_tokens,omitempty"`
	Slots       int     `json:"slots,omitempty"`
}

// requestLine is a request that has ended. Times are in ms; what is not known is left out.
type requestLine struct {
	Number       uint64   `json:"n"`                   // in its file, from 1
	At           float64  `json:"at_ms"`               // when it came, after the header's began
	Sent         float64  `json:"sent_ms,omitempty"`   // from there to when the endpoint got it, when that was later
	TTFT         *float64 `json:"ttft_ms,omitempty"`   // from when it came to the answer's first data
	Took         float64  `json:"took_ms"`             // from when it came to its end
	Class        string   `json:"class"`               // turn or embed
	Stream       bool     `json:"stream"`              // without, the first data comes when all is computed
	Model        string   `json:"model,omitempty"`     // pool
	Endpoint     string   `json:"endpoint,omitempty"`  // of the last attempt
	Retries      int      `json:"retries,omitempty"`   // attempts before the last
	Split        bool     `json:"split,omitempty"`     // its prompt was computed elsewhere
	Outcome      string   `json:"outcome"`             // of the last attempt; refused when there was none
	Tenant       string   `json:"tenant,omitempty"`    // hash
	Conversation string   `json:"conversation"`        // hash
	Parent       string   `json:"parent,omitempty"`    // hash of the conversation that started this one
	PromptBytes  int      `json:"prompt_bytes"`        // of text
	Estimate     int      `json:"estimate"`            // of the prompt's tokens, by the router
	PromptTokens int      `json:"tokens,omitempty"`    // the prompt's, by the engine
	Predicted    int      `json:"predicted,omitempty"` // cached tokens expected by the router
	CachedTokens *int     `json:"cached,omitempty"`    // by the engine
	OutputTokens int      `json:"output,omitempty"`    // by the engine
	MaxTokens    int      `json:"max_tokens,omitempty"`

	// What the prompt consists of: Blocks blocks of the header's block_bytes, the first Shared of them being those of request From of
	// the same file, when From is given. Hashes are of blocks that come after those, each of all bytes up to the block's end.
	Scope  string `json:"scope,omitempty"` // hash of what prompts depend on besides their text: only within one do they share anything
	Lead   int    `json:"lead,omitempty"`  // bytes in front of the blocks that all prompts of the scope have
	Bytes  int    `json:"bytes,omitempty"`
	Blocks int    `json:"blocks,omitempty"`
	From   uint64 `json:"from,omitempty"`
	Shared int    `json:"shared,omitempty"`
	Hashes []byte `json:"hashes,omitempty"` // base64 of trace.RecordedHash bytes for each block that trace.RecordedMarks names
}

// hasher makes hashes with a secret salt (HMAC-SHA256, cut off). It serves one caller.
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

// fingerprint tells recordings with the same salt from others.
func (h *hasher) fingerprint() string { return hex.EncodeToString(h.over('f')[:4]) }

// name hashes an id; "" stays.
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

// ms is a time in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const blockBytes = fleet.BlockBytes
