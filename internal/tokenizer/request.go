package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Errors of requests whose tokens cannot be computed from their text and the tokenizer alone.
var (
	ErrMedia    = errors.New("tokenizer: the tokens of images, sound and video are known only to what runs the model")
	ErrTemplate = errors.New("tokenizer: there is no chat template for this request")
)

// request has the fields of an OpenAI body that affect its tokens.
type request struct {
	Messages         json.RawMessage `json:"messages"`
	Prompt           json.RawMessage `json:"prompt"`
	PromptTokenIDs   json.RawMessage `json:"prompt_token_ids"`
	AddSpecialTokens *bool           `json:"add_special_tokens"`
	Truncate         json.RawMessage `json:"truncate_prompt_tokens"`

	Tools               json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	Documents           json.RawMessage `json:"documents"`
	AddGenerationPrompt *bool           `json:"add_generation_prompt"`
	ContinueFinal       bool            `json:"continue_final_message"`
	ChatTemplate        *string         `json:"chat_template"`
	Kwargs              json.RawMessage `json:"chat_template_kwargs"`
}

// Request returns the model's token ids for a body of OpenAI's API: a chat (messages) or a completion (prompt: a text,
// a list of ids, or a list with one of these). An error says why they cannot be computed; the request itself may still
// be valid.
func (t *Tokenizer) Request(body []byte) ([]int32, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("tokenizer: the body is no request: %w", err)
	}
	if given(r.Truncate) {
		return nil, errors.New("tokenizer: truncate_prompt_tokens is not supported")
	}
	switch {
	case given(r.Messages) && given(r.PromptTokenIDs): // ids computed earlier
		return ids(r.PromptTokenIDs)
	case given(r.Messages):
		return t.chatTokens(&r)
	case given(r.Prompt):
		return t.prompt(r.Prompt, r.AddSpecialTokens == nil || *r.AddSpecialTokens, true)
	}
	return nil, errors.New("tokenizer: the body has neither messages nor prompt")
}

// given is false of a field that is missing or null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// prompt is the prompt of a completion.
func (t *Tokenizer) prompt(raw json.RawMessage, special, list bool) ([]int32, error) {
	switch raw = bytes.TrimSpace(raw); raw[0] {
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("tokenizer: prompt: %w", err)
		}
		return t.Encode(text, special), nil
	case '[':
		var all []json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, fmt.Errorf("tokenizer: prompt: %w", err)
		}
		if list && len(all) > 0 && (all[0][0] == '"' || all[0][0] == '[') {
			if len(all) > 1 {
				return nil, fmt.Errorf("tokenizer: prompt: has %d prompts, and only one has token ids", len(all))
			}
			return t.prompt(all[0], special, false)
		}
		return ids(raw)
	}
	return nil, errors.New("tokenizer: prompt: is neither a text nor a list")
}

// ids reads a list of token ids.
func ids(raw json.RawMessage) ([]int32, error) {
	var wide []json.Number
	if err := json.Unmarshal(raw, &wide); err != nil {
		return nil, fmt.Errorf("tokenizer: prompt: no list of token ids: %w", err)
	}
	out := make([]int32, len(wide))
	for i, n := range wide {
		id, err := n.Int64()
		if err != nil || id < 0 || id > math.MaxInt32 {
			return nil, fmt.Errorf("tokenizer: prompt: %s at place %d is not a token id", n, i)
		}
		out[i] = int32(id)
	}
	return out, nil
}
