package api

import (
	"math/rand/v2"

	"github.com/zeebo/xxh3"
)

// embeddingSize is the length of the vectors.
const embeddingSize = 16

// NewEmbedding writes a vector drawn from the prompt.
func NewEmbedding(s Style) Shape { return embedding{s} }

// embedding writes the answer, which is never streamed.
type embedding struct{ Style }

func (embedding) ContentType() string { return "application/json" }

func (embedding) Open(b []byte, _ *Answer) []byte { return b }

func (embedding) Token(b []byte, _ *Answer, _ int) []byte { return b }

func (embedding) Closing(b []byte, _ *Answer) []byte { return b }

func (embedding) Failure(b []byte, _ int, _ string) []byte {
	return b
}

func (e embedding) Whole(a *Answer) any {
	rng := rand.New(rand.NewPCG(xxh3.HashString(a.Ask.Model), xxh3.HashSeed(a.Ask.Prompt, e.Seed)))
	v := make([]float64, embeddingSize)
	for i := range v {
		v[i] = 2*rng.Float64() - 1
	}
	return map[string]any{
		"id": "embd-" + a.Ask.Id, "object": "list", "created": a.Created, "model": a.Ask.Model, "simulated": true,
		"data": []any{map[string]any{"index": 0, "object": "embedding", "embedding": v}},
		"usage": map[string]any{
			"prompt_tokens": a.PromptTokens, "total_tokens": a.PromptTokens, "completion_tokens": 0,
		},
	}
}
