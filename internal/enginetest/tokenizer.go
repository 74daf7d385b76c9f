package enginetest

import (
	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// rendered is the prompt of a chat, four bytes per token.
func (s *Server) rendered(f *api.Fields) ([]byte, error) {
	if s.opts.Tokenizer == nil {
		return prompts.Render(nil, f.Tools, f.Messages)
	}
	return s.tokenized(f)
}

// prompted is the prompt of a completion, four bytes per token.
func (s *Server) prompted(f *api.Fields) ([]byte, error) {
	if s.opts.Tokenizer == nil {
		return prompts.PromptBytes(f.Prompt)
	}
	return s.tokenized(f)
}

func (s *Server) tokenized(f *api.Fields) ([]byte, error) {
	ids, err := s.opts.Tokenizer.Request(f.Body)
	return prompts.TokenBytes(unsigned(ids)), err
}

// appendAnswer appends an answer as its tokens are cached. With a tokenizer the text is cut to the number of tokens
// asked for; missing ones are filled with tokens without text.
func (s *Server) appendAnswer(full []byte, ans *api.Answer) []byte {
	if s.opts.Tokenizer == nil {
		return append(full, ans.Text...)
	}
	ids := unsigned(s.opts.Tokenizer.Encode(ans.Text, false))
	for len(ids) < ans.Want {
		ids = append(ids, 1<<31+uint32(len(ids)))
	}
	return append(full, prompts.TokenBytes(ids[:ans.Want])...)
}

func unsigned(ids []int32) []uint32 {
	out := make([]uint32, len(ids))
	for i, id := range ids {
		out[i] = uint32(id)
	}
	return out
}
