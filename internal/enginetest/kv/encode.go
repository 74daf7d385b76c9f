package kv

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"github.com/warmpath/warmpath/fleet"
)

// storedRun is a run of blocks as an event tells them.
type storedRun struct {
	hashes  []uint64
	parent  uint64
	first   bool // there is no parent
	tokens  []uint32
	size    int
	adapter string
	salt    string
	session string
}

// event is one event: a run stored, blocks removed, or, without either, all cleared.
type event struct {
	stored  *storedRun
	removed []uint64
}

// appendBatch is a message's payload as the dialect has it: an array of time, events and rank (vLLM 0.32, SGLang
// 0.5.23).
func appendBatch(dialect fleet.Kind, arrays bool, at float64, events []event, rank int) []byte {
	b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), at)
	n := 0
	for _, e := range events {
		if n++; dialect == fleet.KindVLLM && len(e.removed) > 0 {
			n += len(e.removed) - 1
		}
	}
	b = msgp.AppendArrayHeader(b, uint32(n))
	for _, e := range events {
		switch {
		case e.stored != nil && arrays:
			b = appendArray(b, e.stored)
		case e.stored != nil && dialect == fleet.KindSGLang:
			b = appendSGLang(b, e.stored)
		case e.stored != nil:
			b = appendVLLM(b, e.stored)
		case e.removed == nil && arrays:
			b = msgp.AppendString(msgp.AppendArrayHeader(b, 1), "AllBlocksCleared")
		case e.removed == nil:
			b = appendText(msgp.AppendMapHeader(b, 1), "type", "AllBlocksCleared")
		case dialect == fleet.KindSGLang:
			b = appendRemoved(b, arrays, dialect, e.removed)
		default: // one event a block
			for i := range e.removed {
				b = appendRemoved(b, arrays, dialect, e.removed[i:i+1])
			}
		}
	}
	return msgp.AppendUint64(b, uint64(rank))
}

func appendText(b []byte, key, value string) []byte {
	return msgp.AppendString(msgp.AppendString(b, key), value)
}

// appendHash writes a hash: unsigned for vLLM, signed for SGLang, each as short as it can be.
func appendHash(b []byte, dialect fleet.Kind, h uint64) []byte {
	if dialect == fleet.KindSGLang && int64(h) < 0 {
		return msgp.AppendInt64(b, int64(h))
	}
	return msgp.AppendUint64(b, h)
}

func appendHashes(b []byte, dialect fleet.Kind, hashes []uint64) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(hashes)))
	for _, h := range hashes {
		b = appendHash(b, dialect, h)
	}
	return b
}

func appendParent(b []byte, dialect fleet.Kind, s *storedRun) []byte {
	if s.first {
		return msgp.AppendNil(b)
	}
	return appendHash(b, dialect, s.parent)
}

func appendTokens(b []byte, tokens []uint32) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(tokens)))
	for _, t := range tokens {
		b = msgp.AppendUint64(b, uint64(t))
	}
	return b
}

// appendCommon writes what vLLM and SGLang have in common.
func appendCommon(b []byte, dialect fleet.Kind, s *storedRun) []byte {
	b = appendText(b, "type", "BlockStored")
	b = appendHashes(msgp.AppendString(b, "block_hashes"), dialect, s.hashes)
	b = appendParent(msgp.AppendString(b, "parent_block_hash"), dialect, s)
	b = appendTokens(msgp.AppendString(b, "token_ids"), s.tokens)
	b = msgp.AppendUint64(msgp.AppendString(b, "block_size"), uint64(s.size))
	b = msgp.AppendNil(msgp.AppendString(b, "lora_id"))
	return appendText(b, "medium", "GPU")
}

func appendVLLM(b []byte, s *storedRun) []byte {
	n := uint32(11)
	if s.session != "" {
		n++
	}
	b = appendCommon(msgp.AppendMapHeader(b, n), fleet.KindVLLM, s)
	b = msgp.AppendString(b, "lora_name")
	if s.adapter == "" {
		b = msgp.AppendNil(b)
	} else {
		b = msgp.AppendString(b, s.adapter)
	}
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "extra_keys"), uint32(len(s.hashes)))
	for i := range s.hashes {
		b = appendExtra(b, s, s.first && i == 0)
	}
	b = msgp.AppendInt(msgp.AppendString(b, "group_idx"), 0)
	b = appendText(b, "kv_cache_spec_kind", "full_attention")
	if s.session != "" {
		b = appendText(b, "session_id", s.session)
	}
	return b
}

// appendExtra is what a block depends on besides: the adapter's name, and for the first block the salt.
func appendExtra(b []byte, s *storedRun, first bool) []byte {
	keys := vllmExtra(s.adapter, s.salt, first)
	if len(keys) == 0 {
		return msgp.AppendNil(b)
	}
	b = msgp.AppendArrayHeader(b, uint32(len(keys)))
	for _, k := range keys {
		b = msgp.AppendString(b, k)
	}
	return b
}

func vllmExtra(adapter, salt string, first bool) (keys []string) {
	if adapter != "" {
		keys = append(keys, adapter)
	}
	if salt != "" && first {
		keys = append(keys, salt)
	}
	return keys
}

func appendSGLang(b []byte, s *storedRun) []byte {
	n := uint32(7)
	if s.salt != "" {
		n++
	}
	if s.adapter != "" {
		n++
	}
	b = appendCommon(msgp.AppendMapHeader(b, n), fleet.KindSGLang, s)
	if s.salt != "" {
		b = appendText(b, "cache_salt", s.salt)
	}
	if s.adapter != "" {
		b = appendText(b, "lora_name", s.adapter)
	}
	return b
}

// appendArray is the older form: the tag, and the fields of vLLM 0.11.
func appendArray(b []byte, s *storedRun) []byte {
	b = msgp.AppendString(msgp.AppendArrayHeader(b, 7), "BlockStored")
	b = appendHashes(b, fleet.KindVLLM, s.hashes)
	b = appendParent(b, fleet.KindVLLM, s)
	b = msgp.AppendUint64(appendTokens(b, s.tokens), uint64(s.size))
	return msgp.AppendString(msgp.AppendNil(b), "GPU")
}

func appendRemoved(b []byte, arrays bool, dialect fleet.Kind, hashes []uint64) []byte {
	if arrays {
		b = msgp.AppendString(msgp.AppendArrayHeader(b, 3), "BlockRemoved")
		return msgp.AppendString(appendHashes(b, dialect, hashes), "GPU")
	}
	n := uint32(4)
	if dialect == fleet.KindSGLang {
		n = 3
	}
	b = appendText(msgp.AppendMapHeader(b, n), "type", "BlockRemoved")
	b = appendText(appendHashes(msgp.AppendString(b, "block_hashes"), dialect, hashes), "medium", "GPU")
	if dialect == fleet.KindSGLang {
		return b
	}
	return msgp.AppendInt(msgp.AppendString(b, "group_idx"), 0)
}

// trtEvent writes one event of TensorRT-LLM's list.
func trtEvent(id uint64, rank, ranks int, e event) json.RawMessage {
	data := map[string]any{"type": "created", "num_blocks_per_cache_level": []int{0, 0}}
	switch {
	case e.stored != nil:
		data = trtStored(e.stored)
	case e.removed != nil:
		data = map[string]any{"type": "removed", "block_hashes": e.removed}
	}
	x := map[string]any{"event_id": id, "data": data, "window_size": 32768, "hash_algo": trtllmAlgorithm}
	if ranks > 1 {
		x["attention_dp_rank"] = rank
	}
	b, _ := json.Marshal(x) // of numbers and texts only
	return b
}

func trtStored(s *storedRun) map[string]any {
	var blocks []any
	for i, h := range s.hashes {
		var tokens []any
		for _, t := range s.tokens[i*s.size : (i+1)*s.size] {
			tokens = append(tokens, map[string]any{"type": "unique_token", "token_id": t, "token_extra_id": 0})
		}
		blocks = append(blocks, map[string]any{
			"type": "stored_block", "block_hash": h, "tokens": tokens, "cache_level": 0, "priority": 35,
		})
	}
	var parent any
	if !s.first {
		parent = s.parent
	}
	return map[string]any{"type": "stored", "parent_hash": parent, "blocks": blocks}
}

// digests names the whole blocks of a prompt as the dialect's engine does: numbers, by block.
func digests(dialect fleet.Kind, tokens []uint32, size int, adapter, salt string) []uint64 {
	var out []uint64
	h := newVLLMHash("0")
	var digest []byte
	if dialect == fleet.KindSGLang && salt+adapter != "" {
		digest = sglangDigest(nil, []uint32{
			binary.LittleEndian.Uint32(sglangDigest([]byte(strconv.Quote(salt)+adapter), nil)),
		})
	}
	parent := uint64(0)
	for i := 0; (i+1)*size <= len(tokens); i++ {
		block := tokens[i*size : (i+1)*size]
		switch dialect {
		case fleet.KindSGLang:
			digest = sglangDigest(digest, block)
			out = append(out, uint64(sglangNumber(digest)))
		case fleet.KindTRTLLM:
			parent = trtllmBlock(parent, block)
			out = append(out, parent)
		default:
			digest = h.digest(digest, block, vllmExtra(adapter, salt, i == 0)...)
			out = append(out, vllmNumber(digest))
		}
	}
	return out
}
