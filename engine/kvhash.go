package engine

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// The hashes by which engines name the blocks of a prompt. The router does not need them to follow events, since it gives blocks
// names of its own by their tokens (kvstream.Names); simulated engines publish them, and they check what a real one publishes.

// VLLMHash is how a vLLM engine names its blocks (vllm/v1/core/kv_cache_utils.py, hash_block_tokens; --prefix-caching-hash-algo).
type VLLMHash struct {
	CBOR bool // canonical CBOR (sha256_cbor, xxhash_cbor) in place of Python's pickle, protocol 5 (sha256, xxhash)
	XXH3 bool // XXH3-128 in place of SHA-256
	root []byte
}

// NewVLLMHash makes the hasher of an engine whose PYTHONHASHSEED is seed. Without one an engine draws its root at random, unless its
// version fixes it, and its hashes cannot be told from outside; SetRoot takes one that is known.
func NewVLLMHash(cbor, xxh bool, seed string) *VLLMHash {
	h := &VLLMHash{CBOR: cbor, XXH3: xxh}
	if cbor {
		h.root = h.sum(cborText(nil, seed))
	} else {
		h.root = h.sum(framed(pickleText(nil, seed)))
	}
	return h
}

// SetRoot sets the parent of every first block (NONE_HASH).
func (h *VLLMHash) SetRoot(root []byte) { h.root = append([]byte(nil), root...) }

// Root is the parent of every first block.
func (h *VLLMHash) Root() []byte { return h.root }

// Digest is the digest of a block: of its parent's (nil at the beginning of a prompt), its tokens, and the texts it depends on besides:
// the adapter's name, then, for the first block, the cache salt. Images are not covered.
func (h *VLLMHash) Digest(parent []byte, tokens []uint32, extra ...string) []byte {
	if parent == nil {
		parent = h.root
	}
	if h.CBOR {
		return h.sum(cborBlock(parent, tokens, extra))
	}
	return h.sum(framed(pickleBlock(parent, tokens, extra)))
}

// Number is what an event carries by default: the last 8 bytes, big endian.
func (h *VLLMHash) Number(digest []byte) uint64 {
	return binary.BigEndian.Uint64(digest[len(digest)-8:])
}

func (h *VLLMHash) sum(b []byte) []byte {
	if h.XXH3 {
		d := xxh3.Hash128(b).Bytes()
		return d[:]
	}
	d := sha256.Sum256(b)
	return d[:]
}

// cborBlock is array(3): the parent's bytes, the tokens, null or an array of texts.
func cborBlock(parent []byte, tokens []uint32, extra []string) []byte {
	b := append(make([]byte, 0, 64+5*len(tokens)), 0x83)
	b = append(cborHead(b, 2, uint64(len(parent))), parent...)
	b = cborHead(b, 4, uint64(len(tokens)))
	for _, t := range tokens {
		b = cborHead(b, 0, uint64(t))
	}
	if len(extra) == 0 {
		return append(b, 0xf6)
	}
	b = cborHead(b, 4, uint64(len(extra)))
	for _, s := range extra {
		b = cborText(b, s)
	}
	return b
}

func cborText(b []byte, s string) []byte { return append(cborHead(b, 3, uint64(len(s))), s...) }

// cborHead is a major type with its number in the shortest form (RFC 8949, section 4.2).
func cborHead(b []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

// framed is a pickle of protocol 5: its head, the length of what follows, and the stop code at its end.
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

// SGLangDigest is the digest by which SGLang names a block (seen of 0.5.23): SHA-256 of the parent's digest, nothing at the
// beginning of a prompt, and the tokens as 32 bits each, little endian.
func SGLangDigest(parent []byte, tokens []uint32) []byte {
	b := append(make([]byte, 0, len(parent)+4*len(tokens)), parent...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	d := sha256.Sum256(b)
	return d[:]
}

// SGLangNumber is what its event carries: the first 8 bytes, big endian, signed.
func SGLangNumber(digest []byte) int64 { return int64(binary.BigEndian.Uint64(digest)) }
