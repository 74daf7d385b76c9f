// Package kv decodes the KV events of engines: ZeroMQ messages of vLLM and SGLang (msgpack) and TensorRT-LLM's list of
// events (JSON), into batches of package kvstream.
//
// It owns the encodings. It promises that malformed or unknown events are counted and skipped, and that memory is
// bounded for any input. It never opens a socket, and does not interpret events for an endpoint.
package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/warmpath/warmpath/kvstream"
)

// KV events as vLLM publishes them (vllm/distributed/kv_events.py, PR 16750 and after; read up to 0.32) and SGLang
// (sglang/srt/disaggregation/kv_events.py; read up to 0.5.23): three ZeroMQ frames, of which the third is msgpack,
//
//	[ts, [event, ...], data_parallel_rank]
//
// or a map with the keys ts, events and data_parallel_rank (attn_dp_rank in SGLang). An event is an array that begins
// with its name, or, since vLLM PR 42892 and SGLang PR 37482, a map with the key type; fields with their default are
// omitted. Unknown fields are skipped, in maps and at the end of arrays.

// Bounds of one message.
const (
	maxBlockTokens = 1 << 16 // tokens per block
	maxEvents      = 1 << 16 // events per message
	// hashes and tokens of all events of a message: of at least 8 and 2 bytes each, as engines send them, there are no
	// more in 16 MB. Of a byte each they would take many times the message.
	maxHashes    = 1 << 21
	maxTokens    = 1 << 23
	maxNameBytes = 256 // of a medium or an adapter
)

// MaxSessionBytes is the length of the longest accepted conversation id.
const MaxSessionBytes = 1024

var errShape = errors.New("not an event")

// ReadBatch decodes a message's payload into b, reusing its memory. A malformed or unknown event is counted in
// b.Skipped and skipped; the error means that the message is not a batch, or is truncated.
func ReadBatch(payload []byte, b *kvstream.Batch) error {
	b.Reset()
	switch msgp.NextType(payload) {
	case msgp.ArrayType:
		n, rest, err := msgp.ReadArrayHeaderBytes(payload)
		if err != nil || n < 2 {
			return fmt.Errorf("engine: KV events: a batch has a time and a list of events, got %d items", n)
		}
		for i := range n {
			if rest, err = batchField(batchKeys(i), rest, b); err != nil {
				return err
			}
		}
		return nil
	case msgp.MapType:
		n, rest, err := msgp.ReadMapHeaderBytes(payload)
		for ; n > 0 && err == nil; n-- {
			var key []byte
			if key, rest, err = msgp.ReadMapKeyZC(rest); err == nil {
				rest, err = batchField(string(key), rest, b)
			}
		}
		if err != nil {
			return fmt.Errorf("engine: KV events: %w", err)
		}
		return nil
	default:
		return fmt.Errorf("engine: KV events: a batch is an array or a map, got %v", msgp.NextType(payload))
	}
}

func batchKeys(i uint32) string {
	switch i {
	case 0:
		return "ts"
	case 1:
		return "events"
	case 2:
		return "data_parallel_rank"
	}
	return ""
}

func batchField(key string, b []byte, to *kvstream.Batch) (rest []byte, err error) {
	switch key {
	case "ts":
		if to.At, rest, err = msgp.ReadFloat64Bytes(b); err != nil {
			if n, r, e := msgp.ReadInt64Bytes(b); e == nil {
				to.At, rest, err = float64(n), r, nil
			}
		}
	case "events":
		return readEvents(b, to)
	case "data_parallel_rank", "attn_dp_rank":
		if n, r, e := msgp.ReadInt64Bytes(b); e == nil && n >= 0 && n < maxRank {
			to.Rank = int(n)
			return r, nil
		}
		rest, err = msgp.Skip(b)
	default:
		rest, err = msgp.Skip(b)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: KV events: %q: %w", key, err)
	}
	return rest, nil
}

func readEvents(b []byte, to *kvstream.Batch) (rest []byte, err error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil || n > maxEvents {
		return nil, fmt.Errorf("engine: KV events: the list of events is none, or longer than %d", maxEvents)
	}
	room := listRoom{hashes: maxHashes, extra: maxHashes, tokens: maxTokens}
	for ; n > 0; n-- {
		r := reader{b: b, e: to.Next(), room: &room}
		if known := r.event(); !known || r.err != nil {
			to.Undo()
			to.Skipped++
			if b, err = msgp.Skip(b); err != nil {
				return nil, fmt.Errorf("engine: KV events: an event ends too early: %w", err)
			}
			continue
		}
		b = r.b
	}
	return b, nil
}

// reader decodes one event; after a fault err is set and nothing more is read.
type reader struct {
	b    []byte
	e    *kvstream.Event
	room *listRoom
	err  error
}

// listRoom is how many hashes, further keys and tokens the rest of a message may have.
type listRoom struct{ hashes, extra, tokens int }

// list reads the head of a list whose items take at least a byte each, and takes room for them.
func (r *reader) list(room *int) (n int) {
	items := r.array()
	if r.err == nil && (uint64(items) > uint64(len(r.b)) || int(items) > *room) {
		r.err = errShape
	}
	if r.err != nil {
		return 0
	}
	*room -= int(items)
	return int(items)
}

// event decodes an event in either form. known is false for an unknown kind.
func (r *reader) event() (known bool) {
	switch msgp.NextType(r.b) {
	case msgp.ArrayType:
		n := r.array()
		if n == 0 || r.err != nil {
			return false
		}
		if !r.kind() {
			return false
		}
		for i := uint32(0); i < n-1 && r.err == nil; i++ { // the head may announce more than there is
			r.field(fieldAt(r.e.Kind, i))
		}
	case msgp.MapType:
		return r.fields()
	default:
		return false
	}
	return r.whole()
}

// fields decodes an event in map form. Its kind is the first key in all known messages, but need not be.
func (r *reader) fields() bool {
	n, rest, err := msgp.ReadMapHeaderBytes(r.b)
	r.b, r.err = rest, err
	typed := false
	for ; n > 0 && r.err == nil; n-- {
		var key []byte
		if key, r.b, r.err = msgp.ReadMapKeyZC(r.b); r.err != nil {
			return false
		}
		if string(key) == "type" {
			typed = true
			if !r.kind() {
				return false
			}
			continue
		}
		r.field(string(key))
	}
	return typed && r.whole()
}

func (r *reader) kind() bool {
	name, rest, err := msgp.ReadStringZC(r.b)
	r.b, r.err = rest, err
	switch string(name) {
	case "BlockStored":
		r.e.Kind = kvstream.Stored
	case "BlockRemoved":
		r.e.Kind = kvstream.Removed
	case "AllBlocksCleared":
		r.e.Kind = kvstream.Cleared
	default:
		return false
	}
	return err == nil
}

// fieldAt is the name of field i, after the tag, of an event in array form (vLLM up to 0.23, SGLang).
func fieldAt(k kvstream.Kind, i uint32) string {
	stored := [...]string{
		"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
		"group_idx", "kv_cache_spec_kind",
	}
	removed := [...]string{"block_hashes", "medium", "group_idx", "kv_cache_spec_kind"}
	switch {
	case k == kvstream.Stored && int(i) < len(stored):
		return stored[i]
	case k == kvstream.Removed && int(i) < len(removed):
		return removed[i]
	}
	return ""
}

// field reads the value of a field.
func (r *reader) field(name string) {
	if r.err != nil {
		return
	}
	e := r.e
	switch name {
	case "block_hashes":
		n := r.list(&r.room.hashes)
		for e.Hashes = slices.Grow(e.Hashes[:0], n); n > 0 && r.err == nil; n-- {
			if b := r.b; len(b) > 8 && b[0] == 0xcf { // the common one
				e.Hashes = append(e.Hashes, binary.BigEndian.Uint64(b[1:]))
				r.b = b[9:]
				continue
			}
			e.Hashes = append(e.Hashes, r.hash())
		}
	case "parent_block_hash":
		if !r.null() {
			e.Parent, e.HasParent = r.hash(), true
		}
	case "token_ids":
		r.tokens()
	case "block_size":
		if !r.null() {
			e.BlockTokens = int(r.whole64(maxBlockTokens))
		}
	case "lora_id":
		if !r.null() {
			if n := r.whole64(1 << 40); e.Adapter == "" {
				e.Adapter = strconv.FormatUint(n, 10)
			}
		}
	case "lora_name":
		if s := r.text(maxNameBytes); s != "" {
			e.Adapter = s
		}
	case "medium":
		e.Medium = r.medium()
	case "session_id":
		e.Session = r.text(MaxSessionBytes)
	case "cache_salt":
		e.Salt = r.text(MaxSessionBytes)
	case "extra_keys":
		r.extra()
	case "kv_cache_spec_kind":
		e.Windowed = windowed(r.text(maxNameBytes))
	default:
		r.skip()
	}
}

// whole checks the consistency of an event.
func (r *reader) whole() bool {
	e := r.e
	if r.err != nil {
		return false
	}
	if e.Kind != kvstream.Stored {
		return e.Kind == kvstream.Cleared || len(e.Hashes) > 0
	}
	tokens := len(e.Tokens) == 0 || e.BlockTokens > 0 && len(e.Tokens) == len(e.Hashes)*e.BlockTokens
	if len(e.Extra) != len(e.Hashes) {
		e.Extra = e.Extra[:0]
	}
	return len(e.Hashes) > 0 && tokens
}

// windowed reports, by vLLM's name, whether a group of layers can continue from the end of a prompt only.
func windowed(spec string) bool {
	for _, w := range [...]string{"sliding", "mamba", "chunked", "cross"} {
		if strings.Contains(spec, w) {
			return true
		}
	}
	return false
}

func (r *reader) skip() { r.b, r.err = msgp.Skip(r.b) }

func (r *reader) null() bool {
	if !msgp.IsNil(r.b) {
		return false
	}
	r.b, r.err = msgp.ReadNilBytes(r.b)
	return true
}

// array reads the head of a list; null is an empty list.
func (r *reader) array() (n uint32) {
	if r.null() {
		return 0
	}
	n, r.b, r.err = msgp.ReadArrayHeaderBytes(r.b)
	return n
}

// hash reads a block's hash. vLLM sends the last 8 bytes of its digest as a number, or the digest; SGLang the first 8
// as a signed number.
func (r *reader) hash() (h uint64) {
	switch msgp.NextType(r.b) {
	case msgp.UintType:
		h, r.b, r.err = msgp.ReadUint64Bytes(r.b)
	case msgp.IntType:
		var n int64
		if n, r.b, r.err = msgp.ReadInt64Bytes(r.b); r.err == nil {
			return uint64(n)
		}
	case msgp.BinType:
		var d []byte
		if d, r.b, r.err = msgp.ReadBytesZC(r.b); r.err == nil {
			return r.digest(d)
		}
	case msgp.StrType:
		var d []byte
		if d, r.b, r.err = msgp.ReadStringZC(r.b); r.err == nil {
			return r.digest(d)
		}
	default:
		r.err = errShape
	}
	return h
}

func (r *reader) digest(d []byte) uint64 {
	if len(d) < 8 {
		r.err = errShape
		return 0
	}
	return binary.BigEndian.Uint64(d[len(d)-8:])
}

// whole64 reads a whole number from 0 to most.
func (r *reader) whole64(most uint64) (n uint64) {
	if n, r.b, r.err = msgp.ReadUint64Bytes(r.b); r.err == nil && n > most {
		r.err = errShape
	}
	return n
}

func (r *reader) tokens() {
	n := r.list(&r.room.tokens)
	// Inlined for values below 2^16, since a batch has thousands.
	b, tokens := r.b, slices.Grow(r.e.Tokens[:0], n)
	for ; n > 0 && r.err == nil; n-- {
		switch {
		case len(b) > 2 && b[0] == 0xcd:
			tokens = append(tokens, uint32(b[1])<<8|uint32(b[2]))
			b = b[3:]
		case len(b) > 0 && b[0] < 0x80:
			tokens = append(tokens, uint32(b[0]))
			b = b[1:]
		default:
			r.b = b
			tokens = append(tokens, uint32(r.whole64(1<<32-1)))
			b = r.b
		}
	}
	r.b, r.e.Tokens = b, tokens
}

// text reads a string; null is "".
func (r *reader) text(most int) string {
	if r.null() {
		return ""
	}
	s, rest, err := msgp.ReadStringZC(r.b)
	if r.b, r.err = rest, err; err == nil && len(s) > most {
		r.err = errShape
	}
	return string(s)
}
