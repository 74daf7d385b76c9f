package enginetest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// letters is a tokenizer with a token for each byte.
type letters struct{}

func (letters) Request(body []byte) ([]int32, error) {
	var asked struct{ Prompt string }
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	return letters{}.Encode(asked.Prompt, true), nil
}

func (letters) Encode(text string, _ bool) (out []int32) {
	for _, b := range []byte(text) {
		out = append(out, int32(b))
	}
	return out
}

// TestTokenizerOfAnEngine: with a tokenizer the engine counts its tokens, and the blocks of its KV events consist of
// them, by TensorRT-LLM's own hash.
func TestTokenizerOfAnEngine(t *testing.T) {
	r := start(t, enginetest.Options{Dialect: fleet.KindTRTLLM, KVEvents: "127.0.0.1:0", Tokenizer: letters{}})
	text := strings.Repeat("abcdefgh", 13) // 104 tokens are 6 whole blocks and a half
	_, answer := r.do("/v1/completions", fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":4}`, text))
	var told struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &told); err != nil || told.Usage.Prompt != 104 {
		t.Fatalf("%v: %s", err, answer)
	}
	_, body := r.do("POST /kv_cache_events", "")
	events, err := kv.ReadTRTEvents([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, b := range events.Batches {
		for _, e := range b.Batch.Events {
			got = append(got, e.Hashes...)
		}
	}
	// The v1_block_key of each block of these tokens, computed from its description.
	if want := []uint64{
		3197661356083670288, 7892998783753178318, 11220711104095299134, 5860539051316704598, 6843117866742127288,
		10982045366442872354,
	}; !slices.Equal(got, want) {
		t.Errorf("blocks %d, want %d", got, want)
	}
	if _, err := enginetest.New(enginetest.Options{Dialect: fleet.KindVLLM, Tokenizer: letters{}}); err == nil {
		t.Error("an engine that answers /tokenize by itself takes a tokenizer")
	}
	if resp, _ := r.do("/v1/completions", `{"model":"m","prompt":[1]}`); resp.StatusCode != 400 {
		t.Errorf("what the tokenizer does not take: status %d", resp.StatusCode)
	}
}
