package enginetest

// Tokenizer is a real tokenizer, for engines whose tokens are to be those of a model: Request gives those of a chat or completion, Encode those of a
// text.
type Tokenizer interface {
	Request(body []byte) ([]int32, error)
	Encode(text string, special bool) []int32
}

// rendered is the prompt of a chat, four bytes a token.
func (s *Server) rendered(f *fields) ([]byte, error) {
	if s.opts.Tokenizer == nil {
		return render(nil, f.Tools, f.Messages)
	}
	return s.tokenized(f)
}

// prompted is the prompt of a completion, four bytes a token.
func (s *Server) prompted(f *fields) ([]byte, error) {
	if s.opts.Tokenizer == nil {
		return promptBytes(f.Prompt)
	}
	return s.tokenized(f)
}

func (s *Server) tokenized(f *fields) ([]byte, error) {
	ids, err := s.opts.Tokenizer.Request(f.body)
	return tokenBytes(unsigned(ids)), err
}

// appendAnswer appends an answer as its tokens are kept in the cache. With a tokenizer the text is cut into as many tokens as were asked for:
// what is missing is filled with tokens that no text has, as if they were not shown.
func (s *Server) appendAnswer(full []byte, ans *answer) []byte {
	if s.opts.Tokenizer == nil {
		return append(full, ans.text...)
	}
	ids := unsigned(s.opts.Tokenizer.Encode(ans.text, false))
	for len(ids) < ans.want {
		ids = append(ids, 1<<31+uint32(len(ids)))
	}
	return append(full, tokenBytes(ids[:ans.want])...)
}

func unsigned(ids []int32) []uint32 {
	out := make([]uint32, len(ids))
	for i, id := range ids {
		out[i] = uint32(id)
	}
	return out
}
