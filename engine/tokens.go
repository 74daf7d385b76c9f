package engine

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ReadTokens reads the answer of POST /tokenize (vLLM, SGLang's /v1/tokenize): {"tokens":[...]}.
func ReadTokens(body []byte) ([]uint32, error) {
	var answer struct {
		Tokens []uint32 `json:"tokens"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("engine: tokens: %w", err)
	}
	if len(answer.Tokens) == 0 {
		return nil, errors.New("engine: tokens: the answer has none")
	}
	return answer.Tokens, nil
}
