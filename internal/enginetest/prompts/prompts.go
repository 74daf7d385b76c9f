// Package prompts converts requests for a simulated engine: the text rendered by its chat template, tokens of four
// bytes, and the chain of block hashes. Equal messages give equal bytes, and a conversation continues where its last
// answer ended. It keeps no state.
package prompts

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/zeebo/xxh3"

	simtext "github.com/warmpath/warmpath/sim/text"
)

// Message is one message of a chat, of the OpenAI, Anthropic or Ollama kind.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
	Images     json.RawMessage `json:"images"` // Ollama
}

// part is one piece of a message's content.
type part struct {
	Type    string          `json:"type"`
	Text    *string         `json:"text"`
	Content json.RawMessage `json:"content"` // Anthropic tool_result
}

// Render appends a chat as the engine's template would write it: tools, then each message between its marks, then the
// mark that opens the answer. An answer sent back as an assistant message gives the same bytes up to its end.
func Render(dst []byte, tools json.RawMessage, messages []Message) ([]byte, error) {
	if Present(tools) {
		dst = append(dst, "<|tools|>\n"...)
		dst = appendCompact(dst, tools)
		dst = append(dst, "<|end|>\n"...)
	}
	var err error
	for i, m := range messages {
		if m.Role == "" {
			return nil, fmt.Errorf("messages[%d]: role is missing", i)
		}
		dst = append(append(append(dst, "<|"...), m.Role...), "|>\n"...)
		if dst, err = appendContent(dst, m.Content); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		dst = append(append(dst, m.Name...), m.ToolCallID...)
		if Present(m.ToolCalls) {
			dst = appendCompact(dst, m.ToolCalls)
		}
		if Present(m.Images) {
			dst = appendDigest(dst, m.Images)
		}
		dst = append(dst, "<|end|>\n"...)
	}
	return append(dst, "<|assistant|>\n"...), nil
}

// appendContent appends a string, null, or a list of parts. Non-text parts count by a digest.
func appendContent(dst []byte, raw json.RawMessage) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if !Present(raw) {
		return dst, nil
	}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		return append(dst, s...), nil
	case '[':
		var parts []json.RawMessage
		if err := json.Unmarshal(raw, &parts); err != nil {
			return nil, err
		}
		for _, rawPart := range parts {
			var p part
			if err := json.Unmarshal(rawPart, &p); err != nil {
				return nil, fmt.Errorf("content must be a string or a list of objects: %w", err)
			}
			if p.Text != nil {
				dst = append(dst, *p.Text...)
				continue
			}
			dst = appendDigest(dst, rawPart)
		}
		return dst, nil
	}
	return nil, fmt.Errorf("content must be a string or a list of parts")
}

// appendDigest represents an image or another non-text part: 1 kB of marker, about 256 image tokens.
func appendDigest(dst []byte, raw []byte) []byte {
	h := xxh3.Hash(raw)
	for i := range uint64(128) {
		dst = binary.LittleEndian.AppendUint64(dst, h+i)
	}
	return dst
}

func appendCompact(dst []byte, raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return append(dst, raw...)
	}
	return append(dst, b.Bytes()...)
}

// PromptBytes reads the prompt of a completion: a text, a list of token ids, or a list with one of these.
func PromptBytes(raw json.RawMessage) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if !Present(raw) {
		return nil, fmt.Errorf("prompt is missing")
	}
	var text string
	if raw[0] == '"' {
		err := json.Unmarshal(raw, &text)
		return []byte(text), err
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		return TokenBytes(ids), nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("prompt must be a string, a list of token ids, or a list of one of these")
	}
	if len(list) > 1 {
		return nil, fmt.Errorf("the simulated engine takes one prompt a request, got %d", len(list))
	}
	if b := bytes.TrimSpace(list[0]); len(b) > 0 && b[0] == '[' && json.Unmarshal(b, &ids) != nil {
		return nil, fmt.Errorf("prompt: token ids must be whole numbers from 0 to 4294967295")
	}
	return PromptBytes(list[0])
}

// TokenBytes writes token ids as four bytes each.
func TokenBytes(ids []uint32) []byte {
	b := make([]byte, 0, len(ids)*simtext.TokenBytes)
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// TokenIDs is the reverse, for /tokenize.
func TokenIDs(b []byte) []uint32 {
	ids := make([]uint32, 0, Tokens(len(b)))
	for len(b) > 0 {
		var t [simtext.TokenBytes]byte
		b = b[copy(t[:], b):]
		ids = append(ids, binary.LittleEndian.Uint32(t[:]))
	}
	return ids
}

// Tokens is the number of tokens of n bytes.
func Tokens(n int) int { return (n + simtext.TokenBytes - 1) / simtext.TokenBytes }

// Chain hashes each full block of the bytes, each hash covering all before it. The root separates adapters, salts and
// slots, as in engines.
func Chain(root uint64, b []byte, blockTokens int) []uint64 {
	size := blockTokens * simtext.TokenBytes
	out := make([]uint64, 0, len(b)/size)
	for ; len(b) >= size; b = b[size:] {
		root = xxh3.HashSeed(b[:size], root)
		out = append(out, root)
	}
	return out
}

// Present reports whether a JSON value is present and not null.
func Present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}
