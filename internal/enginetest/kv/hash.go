package kv

import (
	"crypto/sha256"
	"encoding/binary"
)

// The hashes by which engines name the blocks of a prompt. Only simulated engines compute them: the router follows
// events by names of its own (kvstream.Names).

// vllmHash is how a vLLM engine names its blocks (vllm/v1/core/kv_cache_utils.py, hash_block_tokens;
// --prefix-caching-hash-algo sha256: SHA-256 of Python's pickle, protocol 5).
type vllmHash struct{ root []byte }

// newVLLMHash is the hasher of an engine with this PYTHONHASHSEED; the root is the parent of every first block
// (NONE_HASH).
func newVLLMHash(seed string) *vllmHash { return &vllmHash{root: sum(framed(pickleText(nil, seed)))} }

// digest is a block's digest: of its parent's (nil at the beginning of a prompt), its tokens, and further texts: the
// adapter's name, then, for the first block, the cache salt. Images are not supported.
func (h *vllmHash) digest(parent []byte, tokens []uint32, extra ...string) []byte {
	if parent == nil {
		parent = h.root
	}
	return sum(framed(pickleBlock(parent, tokens, extra)))
}

// vllmNumber is the default form in events: the last 8 bytes, big-endian.
func vllmNumber(digest []byte) uint64 {
	return binary.BigEndian.Uint64(digest[len(digest)-8:])
}

func sum(b []byte) []byte {
	d := sha256.Sum256(b)
	return d[:]
}

// framed is a pickle of protocol 5: its head, the length of the rest, and the stop code.
func framed(body []byte) []byte {
	b := append(make([]byte, 0, len(body)+12), 0x80, 5, 0x95)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(body)+1))
	return append(append(b, body...), '.')
}

// pickleBlock is the tuple (parent, tokens, extra or None) as CPython writes it, each new object memoised.
func pickleBlock(parent []byte, tokens []uint32, extra []string) []byte {
	b := append(make([]byte, 0, 64+5*len(tokens)), 'C', byte(len(parent)))
	b = append(append(b, parent...), 0x94)
	b = pickleTuple(b, len(tokens), func(b []byte, i int) []byte {
		switch t := tokens[i]; {
		case t < 1<<8:
			return append(b, 'K', byte(t))
		case t < 1<<16:
			return binary.LittleEndian.AppendUint16(append(b, 'M'), uint16(t))
		case t < 1<<31:
			return binary.LittleEndian.AppendUint32(append(b, 'J'), t)
		default: // five bytes, lest the last be its sign
			return append(binary.LittleEndian.AppendUint32(append(b, 0x8a, 5), t), 0)
		}
	})
	if len(extra) == 0 {
		b = append(b, 'N')
	} else {
		b = pickleTuple(b, len(extra), func(b []byte, i int) []byte { return pickleText(b, extra[i]) })
	}
	return append(b, 0x87, 0x94)
}

func pickleTuple(b []byte, n int, item func(b []byte, i int) []byte) []byte {
	if n > 3 {
		b = append(b, '(')
	}
	for i := range n {
		b = item(b, i)
	}
	switch {
	case n == 0:
		return append(b, ')')
	case n > 3:
		return append(b, 't', 0x94)
	}
	return append(b, 0x84+byte(n), 0x94)
}

func pickleText(b []byte, s string) []byte {
	if len(s) < 1<<8 {
		b = append(b, 0x8c, byte(len(s)))
	} else {
		b = binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s)))
	}
	return append(append(b, s...), 0x94)
}

// sglangDigest is SGLang's digest of a block (observed with 0.5.23): SHA-256 of the parent's digest, nothing at the
// beginning of a prompt, and the tokens as 32 bits each, little-endian.
func sglangDigest(parent []byte, tokens []uint32) []byte {
	b := append(make([]byte, 0, len(parent)+4*len(tokens)), parent...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	return sum(b)
}

// sglangNumber is its form in events: the first 8 bytes, big-endian, signed.
func sglangNumber(digest []byte) int64 { return int64(binary.BigEndian.Uint64(digest)) }

// trtllmAlgorithm is the name of the algorithm below in events (hash_algo).
const trtllmAlgorithm = "v1_block_key"

// Constants of v1_block_key. trtC is SplitMix64's, trtG is 2^32 over the golden ratio.
const (
	trtC = 0xBF58476D1CE4E5B9
	trtG = 0x9E3779B9
	trtK = 0x45D9F3B
)

// trtllmBlock is the v1_block_key of one block of a request without adapter and salt after its parent's, 0 for a
// prompt's first block (tensorrt_llm/serve/router.py, 2026). All arithmetic wraps.
func trtllmBlock(parent uint64, block []uint32) uint64 {
	seed := uint64(len(block)) ^ parent*trtC
	for _, token := range block {
		seed = trtMix(token, seed)
	}
	return seed
}

func trtMix(x uint32, seed uint64) uint64 {
	x = (x>>16 ^ x) * trtK
	x = (x>>16 ^ x) * trtK
	x = x>>16 ^ x
	x += trtG
	return seed ^ (uint64(x) + seed<<6 + seed>>2)
}
