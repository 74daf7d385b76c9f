package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Block hashes of TensorRT-LLM, as its KV cache events and its kv_cache_aware router name blocks (tensorrt_llm/serve/router.py,
// 2026). The hash of a block covers all blocks before it.

// TRTLLMHash names one of the algorithms by which TensorRT-LLM hashes blocks, as /server_info (kv_cache_hash_algo) and events
// (hash_algo) spell it.
type TRTLLMHash string

// The algorithms. Values of the first and the last are unsigned 64-bit integers in JSON, beyond 2^53; those of TRTLLMHashV2 are
// texts of 64 hexadecimal digits.
const (
	TRTLLMHashV1   TRTLLMHash = "v1_block_key"
	TRTLLMHashV2   TRTLLMHash = "v2_sha256"
	TRTLLMHashV264 TRTLLMHash = "v2_sha256_64"
)

// ParseTRTLLMHash reads the name of an algorithm. A missing one means v1_block_key, as it does to the router.
func ParseTRTLLMHash(name string) (TRTLLMHash, error) {
	switch h := TRTLLMHash(name); h {
	case "":
		return TRTLLMHashV1, nil
	case TRTLLMHashV1, TRTLLMHashV2, TRTLLMHashV264:
		return h, nil
	}
	return "", fmt.Errorf("engine: no TensorRT-LLM hash algorithm %q; there are %s, %s and %s", name, TRTLLMHashV1, TRTLLMHashV2, TRTLLMHashV264)
}

// TRTLLMScope is what a block hash depends on besides the tokens. The zero value is a request without adapter and salt.
type TRTLLMScope struct {
	LoRA    uint64 // id of the adapter
	HasLoRA bool
	Salt    uint64 // see TRTLLMSalt
	HasSalt bool
}

// TRTLLMSalt is the id of a request's cache_salt: the first 8 bytes of its SHA-256, little-endian, as current engines have it. (Routers
// up to mid 2026 took BLAKE3 and matched no salted request: TensorRT-LLM issue 18156. The first C++ engine mixes a hash of the
// standard library's, which nobody outside can compute.)
func TRTLLMSalt(salt string) uint64 {
	sum := sha256.Sum256([]byte(salt))
	return binary.LittleEndian.Uint64(sum[:8])
}

// TRTLLMBlocks cuts a prompt into the blocks that keys are made of: size tokens each, the last one perhaps shorter. The prompt's last
// token is never part of a key, so that a prompt of one token has no blocks. A size below 1 gives none.
func TRTLLMBlocks(tokens []uint32, size int) [][]uint32 {
	if len(tokens) < 2 || size < 1 {
		return nil
	}
	tokens = tokens[:len(tokens)-1]
	out := make([][]uint32, 0, (len(tokens)+size-1)/size)
	for len(tokens) > 0 {
		n := min(size, len(tokens))
		out = append(out, tokens[:n])
		tokens = tokens[n:]
	}
	return out
}

// Constants of v1_block_key. The first two are SplitMix64's, the third is 2^32 over the golden ratio.
const (
	trtC = 0xBF58476D1CE4E5B9
	trtD = 0x94D049BB133111EB
	trtG = 0x9E3779B9
	trtK = 0x45D9F3B
)

// TRTLLMBlockV1 is the v1_block_key of one block after its parent's, which is 0 for a prompt's first block. All arithmetic wraps.
func TRTLLMBlockV1(parent uint64, block []uint32, scope TRTLLMScope) uint64 {
	seed := uint64(len(block)) ^ parent*trtC
	if parent == 0 && scope.HasSalt {
		seed = trtMix64(scope.Salt, seed)
	}
	for _, token := range block {
		seed = trtMix32(token, seed)
	}
	if scope.HasLoRA {
		seed = trtMix64(scope.LoRA, seed)
	}
	return seed
}

func trtMix32(x uint32, seed uint64) uint64 {
	x = (x>>16 ^ x) * trtK
	x = (x>>16 ^ x) * trtK
	x = x>>16 ^ x
	x += trtG
	return seed ^ (uint64(x) + seed<<6 + seed>>2)
}

func trtMix64(x, seed uint64) uint64 {
	x = (x ^ x>>30) * trtC
	x = (x ^ x>>27) * trtD
	x ^= x >> 31
	return seed ^ (x + trtG + seed<<6 + seed>>2)
}

// TRTLLMChainV1 is the v1_block_key of each block of a prompt.
func TRTLLMChainV1(tokens []uint32, size int, scope TRTLLMScope) []uint64 {
	var out []uint64
	parent := uint64(0)
	for _, block := range TRTLLMBlocks(tokens, size) {
		parent = TRTLLMBlockV1(parent, block, scope)
		out = append(out, parent)
	}
	return out
}

// TRTLLMRootV2 is the key that the first block of a v2 chain follows: SHA-256 of a mask (bit 0 adapter, bit 1 salt) and of each
// that is there as 8 little-endian bytes.
func TRTLLMRootV2(scope TRTLLMScope) [sha256.Size]byte {
	b := make([]byte, 1, 17)
	if scope.HasLoRA {
		b[0] |= 1
		b = binary.LittleEndian.AppendUint64(b, scope.LoRA)
	}
	if scope.HasSalt {
		b[0] |= 2
		b = binary.LittleEndian.AppendUint64(b, scope.Salt)
	}
	return sha256.Sum256(b)
}

// TRTLLMChainV2 is the v2 key of each block of a prompt: SHA-256 of the parent's and of each token as 4 little-endian bytes. (An earlier
// version that has salts already took 8 bytes a token.)
func TRTLLMChainV2(tokens []uint32, size int, scope TRTLLMScope) [][sha256.Size]byte {
	var out [][sha256.Size]byte
	parent := TRTLLMRootV2(scope)
	room := make([]byte, 0, sha256.Size+4*max(0, min(size, len(tokens))))
	for _, block := range TRTLLMBlocks(tokens, size) {
		room = append(room[:0], parent[:]...)
		for _, token := range block {
			room = binary.LittleEndian.AppendUint32(room, token)
		}
		parent = sha256.Sum256(room)
		out = append(out, parent)
	}
	return out
}

// TRTLLMWireV2 is a v2_sha256 key as events spell it.
func TRTLLMWireV2(key [sha256.Size]byte) string { return hex.EncodeToString(key[:]) }

// TRTLLMWireV264 is a v2_sha256_64 key as events spell it: the first 8 bytes, big-endian. Chains go on from the whole key.
func TRTLLMWireV264(key [sha256.Size]byte) uint64 { return binary.BigEndian.Uint64(key[:8]) }
