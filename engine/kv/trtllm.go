package kv

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/kvstream"
)

// trtEvent is an event in TensorRT-LLM's /kv_cache_events (tensorrt_llm/_utils.py, KVCacheEventSerializer;
// serve/router.py, PR 12526), with or without an envelope.
type trtEvent struct {
	EventID *int64          `json:"event_id"`
	Window  int64           `json:"window_size"`
	Rank    *int            `json:"attention_dp_rank"`
	Data    json.RawMessage `json:"data"`
	trtData
}

type trtData struct {
	Type   string            `json:"type"`
	Parent json.RawMessage   `json:"parent_hash"`
	Blocks []trtBlock        `json:"blocks"`
	Hashes []json.RawMessage `json:"block_hashes"`
}

type trtBlock struct {
	Hash   json.RawMessage `json:"block_hash"`
	Tokens []struct {
		ID    json.Number `json:"token_id"`
		Extra json.Number `json:"token_extra_id"`
	} `json:"tokens"`
	Level json.Number `json:"cache_level"`
	Lora  json.Number `json:"lora_id"`
}

// TRTEvents is the result of one poll of TensorRT-LLM's events.
type TRTEvents struct {
	Batches []TRTBatch
	Skipped int // events that were malformed or of an unknown kind
}

// TRTBatch is one event, as a batch of one.
type TRTBatch struct {
	ID    int64 // event_id; -1 if absent
	Batch kvstream.Batch
}

// ReadTRTEvents decodes the answer of /kv_cache_events: a JSON array, oldest first. Events without blocks (created,
// updated) become empty batches, so that their ids count. The error means that the answer is not a list.
func ReadTRTEvents(body []byte) (TRTEvents, error) {
	var list []json.RawMessage
	var out TRTEvents
	if crowded(body) {
		return out, errors.New("engine: KV events: the answer has more values than events of its length can have")
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return out, fmt.Errorf("engine: KV events: the answer is not a list of events: %w", err)
	}
	if len(list) > maxEvents {
		return out, fmt.Errorf("engine: KV events: %d events at once, want at most %d", len(list), maxEvents)
	}
	largest := int64(0)
	for _, raw := range list {
		b, window, err := readTRTEvent(raw)
		if err != nil {
			out.Skipped++
			continue
		}
		// With windows of several sizes (sliding and full attention) the largest holds whole prefixes.
		if window < largest && len(b.Batch.Events) > 0 {
			b.Batch.Events[0].Windowed = true
		}
		largest = max(largest, window)
		out.Batches = append(out.Batches, b)
	}
	return out, nil
}

// fewValues may be in any answer, and one more for each valueBytes: a block takes a hundred bytes here, and three where
// it is empty; a token with its two numbers takes thirty.
const fewValues, valueBytes = 1 << 16, 8

// crowded reports whether reading an answer would take many times its own memory.
func crowded(body []byte) bool {
	values := bytes.Count(body, []byte(",")) + bytes.Count(body, []byte("{"))
	return values > fewValues+len(body)/valueBytes
}

func readTRTEvent(raw []byte) (b TRTBatch, window int64, err error) {
	var x trtEvent
	if err := json.Unmarshal(raw, &x); err != nil {
		return b, 0, err
	}
	d := x.trtData
	if len(x.Data) > 0 && !bytes.Equal(x.Data, []byte("null")) {
		d = trtData{}
		if err := json.Unmarshal(x.Data, &d); err != nil {
			return b, 0, err
		}
	}
	b.ID = -1
	if x.EventID != nil {
		b.ID = *x.EventID
	}
	b.Batch.Reset()
	if x.Rank != nil && *x.Rank >= 0 {
		b.Batch.Rank = *x.Rank
	}
	switch d.Type {
	case "stored":
		err = d.stored(&b.Batch)
	case "removed":
		e := b.Batch.Next()
		e.Kind = kvstream.Removed
		for _, h := range d.Hashes {
			n, bad := trtHash(h)
			if bad != nil {
				return b, 0, bad
			}
			e.Hashes = append(e.Hashes, n)
		}
	case "all_cleared":
		b.Batch.Next().Kind = kvstream.Cleared
	case "created", "updated":
	default:
		err = fmt.Errorf("unknown event %q", d.Type)
	}
	return b, x.Window, err
}

// stored appends the blocks. A partial last block in an event becomes an event of its own.
func (d *trtData) stored(to *kvstream.Batch) error {
	var parent uint64
	has := len(d.Parent) > 0 && !bytes.Equal(d.Parent, []byte("null"))
	if has {
		var err error
		if parent, err = trtHash(d.Parent); err != nil {
			return err
		}
	}
	var e *kvstream.Event
	for i := range d.Blocks {
		k := &d.Blocks[i]
		h, err := trtHash(k.Hash)
		if err != nil {
			return err
		}
		if len(k.Tokens) > maxBlockTokens {
			return errShape
		}
		if e == nil || len(k.Tokens) != e.BlockTokens || k.adapter() != e.Adapter || k.medium() != e.Medium {
			e = to.Next()
			e.Kind, e.Parent, e.HasParent, e.BlockTokens = kvstream.Stored, parent, has, len(k.Tokens)
			e.Adapter, e.Medium = k.adapter(), k.medium()
		}
		e.Hashes = append(e.Hashes, h)
		extra := uint64(0)
		for _, t := range k.Tokens {
			id, err := strconv.ParseUint(string(t.ID), 10, 32)
			if err != nil {
				return fmt.Errorf("token id %q: %w", t.ID, err)
			}
			if x, err := strconv.ParseUint(string(t.Extra), 10, 64); err == nil && x != 0 {
				extra = (extra^x)*0x9e3779b97f4a7c15 | 1
			}
			e.Tokens = append(e.Tokens, uint32(id))
		}
		e.Extra = append(e.Extra, extra)
		parent, has = h, true
	}
	if len(d.Blocks) == 0 {
		return errShape
	}
	return nil
}

func (k *trtBlock) adapter() string {
	if k.Lora == "0" {
		return ""
	}
	return string(k.Lora)
}

func (k *trtBlock) medium() string {
	switch k.Level {
	case "", "0":
		return "GPU"
	default:
		return "CPU"
	}
}

// trtHash reads a hash: a number of 64 bits (v1_block_key, v2_sha256_64), or 64 hexadecimal digits (v2_sha256), whose
// first 8 bytes equal v2_sha256_64. Never a float: they exceed 2^53.
func trtHash(raw json.RawMessage) (uint64, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 1 && raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return 0, err
		}
		if _, err := hex.DecodeString(s); err != nil || len(s) < 16 {
			return 0, fmt.Errorf("block hash %q is not in hexadecimal digits", s)
		}
		return strconv.ParseUint(s[:16], 16, 64)
	}
	return strconv.ParseUint(string(raw), 10, 64)
}
