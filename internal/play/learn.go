package play

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/warmpath/warmpath/sim/text"
	"github.com/warmpath/warmpath/sim/trace"
)

// sampleWords are the lengths of the two samples, in words of a trace: 64 bytes and 4 kB. The longer one has enough
// words for an average (off by 1 % usually, 4 % at most), and is within the context of each model that can hold a
// conversation.
var sampleWords = [2]int{16, 1024}

// Tokenizers' tokens of ASCII words have more than half a byte and at most some words: else usage says something else.
const leastTokenBytes, mostTokenBytes = 0.5, 32

// Learn learns how many bytes of conversations (or, if recorded, of a trace's prompts) the address counts as a token,
// from what two short requests say in usage. What both have, such as the chat template's tokens, is in neither. Where
// it fails, texts have text.TokenBytes bytes a token, as they had before.
func (t *Target) Learn(ctx context.Context, recorded bool) error {
	var bytes, tokens [2]int
	for i, words := range sampleWords {
		path, body, size, err := t.sample(words, recorded)
		if err != nil {
			return err
		}
		out, _, _ := t.send(ctx, path, body, names{}, false, false)
		if out.Err != nil {
			return out.Err
		}
		bytes[i], tokens[i] = size, out.PromptTokens
	}
	learnt := float64(bytes[1]-bytes[0]) / float64(tokens[1]-tokens[0])
	if !(learnt >= leastTokenBytes && learnt <= mostTokenBytes) {
		return fmt.Errorf("usage says %d tokens for %d bytes and %d for %d", tokens[0], bytes[0], tokens[1], bytes[1])
	}
	t.TokenBytes = learnt
	return nil
}

// sample makes a request that no engine has seen. Its prompt is words of a trace if recorded is set, else a user's text
// of the same size. size is that of the text, in bytes.
func (t *Target) sample(words int, recorded bool) (path string, body []byte, size int, err error) {
	said := trace.Words(rand.Uint64(), words)
	if recorded {
		body, err = json.Marshal(completionRequest{Model: t.Model, Prompt: said, MaxTokens: 1})
		return "/v1/completions", body, len(said), err
	}
	said = text.Sized(rand.Uint64(), len(said))
	body, err = json.Marshal(chatRequest{Model: t.Model, Messages: []message{{"user", said}}, MaxTokens: 1})
	return "/v1/chat/completions", body, len(said), err
}

// tokenBytes is TokenBytes, or what simulated engines count.
func (t *Target) tokenBytes() float64 {
	if t.TokenBytes > 0 {
		return t.TokenBytes
	}
	return text.TokenBytes
}
