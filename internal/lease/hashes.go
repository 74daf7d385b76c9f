package lease

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
)

// Bounds on prompts that are given by hashes.
const (
	mostHashes     = 1 << 20 // bytes
	mostPrompt     = 1 << 22 // tokens
	mostBlock      = 1 << 16 // tokens
	tokenBytes     = 4       // of text that a token is taken for, as in the simulator
	hashesScope    = 0x6c65617365686173
	defaultBlock   = 512 // tokens, as in Mooncake's traces
	longestModel   = 1024
	mostHashBlocks = 1 << 15 // blocks of the router's that are made of them
)

// hashes is a prompt that is given by the hashes of its blocks, each of which stands for its block and all before it.
type hashes struct {
	Model  string   `json:"model"`
	Hashes []uint64 `json:"prompt_hashes"`
	Block  int      `json:"block_tokens"`  // tokens of each block; 0 for 512
	Tokens int      `json:"prompt_tokens"` // of the whole prompt
	Max    int      `json:"max_tokens"`
	Stream bool     `json:"stream"`

	content fleet.Content
}

// readHashes reads one. Prompts of hashes share nothing with prompts of text.
func readHashes(r io.Reader) (*hashes, error) {
	h := &hashes{}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(h); err != nil {
		return nil, fmt.Errorf("the body is not {\"model\", \"prompt_hashes\", \"prompt_tokens\", \"block_tokens\", "+
			"\"max_tokens\", \"stream\"}: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the object")
	}
	if h.Block == 0 {
		h.Block = defaultBlock
	}
	switch {
	case len(h.Model) > longestModel:
		return nil, errors.New("model is longer than 1,024 bytes")
	case h.Block < 1 || h.Block > mostBlock:
		return nil, errors.New("block_tokens is " + strconv.Itoa(h.Block) + ", must be 1 to 65,536")
	case h.Tokens < 1 || h.Tokens > mostPrompt:
		return nil, errors.New("prompt_tokens is " + strconv.Itoa(h.Tokens) + ", must be 1 to 4,194,304")
	case h.Max < 0 || h.Max > mostPrompt:
		return nil, errors.New("max_tokens is " + strconv.Itoa(h.Max) + ", must be 0 to 4,194,304")
	case len(h.Hashes) > (h.Tokens+h.Block-1)/h.Block:
		return nil, errors.New("there are more prompt_hashes than the prompt has blocks: " +
			strconv.Itoa(len(h.Hashes)) + " of " + strconv.Itoa(h.Block) + " tokens")
	}
	h.divide()
	return h, nil
}

// divide makes the router's blocks of the program's, whose sizes differ: each of the former is named by the last of the
// latter that it lies in, and its place there.
func (h *hashes) divide() {
	size := tokenBytes * h.Tokens
	h.content = fleet.Content{Scope: hashesScope, Bytes: size}
	named := min(len(h.Hashes)*h.Block*tokenBytes, size)
	n := min(named/fleet.BlockBytes, mostHashBlocks)
	h.content.Blocks = make([]uint64, n)
	for i := range n {
		end := (i + 1) * fleet.BlockBytes
		of := min((end-1)/(h.Block*tokenBytes), len(h.Hashes)-1)
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], h.Hashes[of])
		binary.LittleEndian.PutUint64(b[8:], uint64(end))
		h.content.Blocks[i] = xxh3.Hash(b[:])
	}
}

// body is what the door reads of the request.
func (h *hashes) body() (io.ReadCloser, int64) {
	fields := map[string]any{"stream": h.Stream}
	if h.Model != "" {
		fields["model"] = h.Model
	}
	if h.Max > 0 {
		fields["max_tokens"] = h.Max
	}
	b, _ := json.Marshal(fields)
	return io.NopCloser(bytes.NewReader(b)), int64(len(b))
}
