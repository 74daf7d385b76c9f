package enginetest

import (
	"math/rand/v2"
	"net/http"

	"github.com/zeebo/xxh3"
)

// embeddingSize is the length of the vectors.
const embeddingSize = 16

// embeddings computes a prompt and gives a vector drawn from it.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var f fields
	if err := s.read(w, r, &f); err != nil {
		s.failWith(w, r, err)
		return
	}
	a, err := s.newAsk(r, &f)
	if err == nil {
		a.none, a.stream, a.maxTokens = true, false, 0
		if a.prompt, err = promptBytes(f.Input); err != nil {
			err = bad("input: %v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, embeddingShape{s})
}

// embeddingShape writes the answer; there is no stream of it.
type embeddingShape struct{ s *Server }

func (embeddingShape) contentType() string                     { return "application/json" }
func (embeddingShape) open(b []byte, _ *answer) []byte         { return b }
func (embeddingShape) token(b []byte, _ *answer, _ int) []byte { return b }
func (embeddingShape) closing(b []byte, _ *answer) []byte      { return b }
func (embeddingShape) failure(b []byte, _ int, _ string) []byte {
	return b
}

func (e embeddingShape) whole(a *answer) any {
	rng := rand.New(rand.NewPCG(xxh3.HashString(a.ask.model), xxh3.HashSeed(a.ask.prompt, e.s.opts.Seed)))
	v := make([]float64, embeddingSize)
	for i := range v {
		v[i] = 2*rng.Float64() - 1
	}
	return map[string]any{
		"id": "embd-" + a.ask.id, "object": "list", "created": a.created, "model": a.ask.model, "simulated": true,
		"data":  []any{map[string]any{"index": 0, "object": "embedding", "embedding": v}},
		"usage": map[string]any{"prompt_tokens": a.promptTokens, "total_tokens": a.promptTokens, "completion_tokens": 0},
	}
}
