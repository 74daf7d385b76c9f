package api

import (
	"encoding/json"

	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// Fields are the body fields used by the simulated engines, for all their APIs; others are ignored, as by real engines.
type Fields struct {
	Model    string            `json:"model"`
	Messages []prompts.Message `json:"messages"`
	Tools    json.RawMessage   `json:"tools"`
	Prompt   json.RawMessage   `json:"prompt"`
	Input    json.RawMessage   `json:"input"`
	System   json.RawMessage   `json:"system"`

	MaxTokens           *int  `json:"max_tokens"`
	MaxCompletionTokens *int  `json:"max_completion_tokens"`
	MaxOutputTokens     *int  `json:"max_output_tokens"` // responses
	NPredict            *int  `json:"n_predict"`         // llama.cpp
	MinTokens           int   `json:"min_tokens"`
	IgnoreEOS           bool  `json:"ignore_eos"`
	N                   *int  `json:"n"`
	Stream              *bool `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`

	CacheSalt *string `json:"cache_salt"`
	ExtraKey  string  `json:"extra_key"` // SGLang
	RequestID string  `json:"request_id"`
	SessionID string  `json:"session_id"` // vLLM
	RID       string  `json:"rid"`        // SGLang

	RoutedDPRank     *int `json:"routed_dp_rank"`     // SGLang
	DataParallelRank *int `json:"data_parallel_rank"` // SGLang, its older name
	IDSlot           *int `json:"id_slot"`            // llama.cpp

	rooms // SGLang

	KVTransferParams json.RawMessage `json:"kv_transfer_params"` // vLLM
	ReturnTokenIDs   bool            `json:"return_token_ids"`   // vLLM

	DisaggregatedParams json.RawMessage `json:"disaggregated_params"` // TensorRT-LLM, with those that follow
	ConversationParams  json.RawMessage `json:"conversation_params"`
	PromptTokenIDs      json.RawMessage `json:"prompt_token_ids"`
	PromptTokenIDsB64   string          `json:"prompt_token_ids_b64"`

	Body []byte // all of it
}

// Keep keeps the whole body.
func (f *Fields) Keep(body []byte) { f.Body = body }

// rooms are the members by which two servers meet.
type rooms struct {
	Host json.RawMessage `json:"bootstrap_host"`
	Port json.RawMessage `json:"bootstrap_port"`
	Room json.RawMessage `json:"bootstrap_room"`
	Rank *int            `json:"disagg_prefill_dp_rank"`
}
