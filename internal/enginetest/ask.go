package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/kv"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/text"
)

// read decodes the body into v.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) error {
	if d := s.opts.Dialect; d == fleet.KindVLLM || d == fleet.KindSGLang { // which also refuse a body without a type
		media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		if media != "" && !strings.EqualFold(media, "application/json") {
			return api.Bad("Unsupported Media Type: Only 'application/json' is allowed")
		}
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.BodyBytes))
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return &api.Error{
				Status: http.StatusRequestEntityTooLarge, Kind: "BadRequestError", Msg: "the body is too long",
			}
		}
		return api.Bad("reading the body: %v", err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return api.Bad("the body is not valid: %v", err)
	}
	if f, ok := v.(interface{ Keep(body []byte) }); ok {
		f.Keep(b)
	}
	return nil
}

// newAsk reads what all APIs have in common from the body and the headers, without the prompt.
func (s *Server) newAsk(r *http.Request, f *api.Fields) (*api.Ask, error) {
	if s.opts.Dialect == fleet.KindTRTLLM {
		if err := checkTRTLLM(r, f); err != nil {
			return nil, err
		}
	}
	if !s.knows(f.Model) && f.Model != "" {
		return nil, &api.Error{
			Status: http.StatusNotFound, Kind: "NotFoundError", Msg: fmt.Sprintf("The model `%s` does not exist.",
				f.Model),
		}
	}
	a := &api.Ask{Model: f.Model, Salt: f.ExtraKey, MinTokens: f.MinTokens, Exact: f.IgnoreEOS, Rank: -1, Slot: -1}
	if a.Model == "" {
		a.Model = s.opts.Models[0]
	}
	for _, v := range []*int{f.MaxTokens, f.MaxCompletionTokens, f.MaxOutputTokens, f.NPredict} {
		if v == nil || (*v < 0 && v == f.NPredict) {
			continue // n_predict -1 is "no limit"
		}
		if *v < 1 {
			return nil, api.Bad("max_tokens must be at least 1, got %d.", *v)
		}
		a.MaxTokens = *v
	}
	if f.N != nil && *f.N != 1 {
		return nil, api.Bad("the simulated engine gives one choice a request (n=1), got n=%d", *f.N)
	}
	if f.CacheSalt != nil {
		if *f.CacheSalt == "" || len(*f.CacheSalt) > 1024 {
			return nil, api.Bad("cache_salt must be 1 to 1024 characters long")
		}
		a.Salt += "\x00" + *f.CacheSalt
	}
	a.Stream = f.Stream != nil && *f.Stream
	if f.StreamOptions != nil {
		a.Usage, a.Each = f.StreamOptions.IncludeUsage || f.StreamOptions.Continuous, f.StreamOptions.Continuous
	}
	a.Id = s.requestID(r, f)
	if err := s.connector.Read(r, f, a); err != nil {
		return nil, err
	}
	a.Ids = f.ReturnTokenIDs && s.opts.Dialect == fleet.KindVLLM
	if s.opts.Dialect == fleet.KindVLLM {
		if a.Conversation = f.SessionID; a.Conversation == "" {
			a.Conversation = r.Header.Get("X-Session-ID")
		}
	}
	if err := s.place(r, f, a); err != nil {
		return nil, err
	}
	return a, s.connector.Placed(r, f, a)
}

// requestID is the client's id if the engine accepts it (vLLM: header before body; SGLang: rid only), else a new one.
func (s *Server) requestID(r *http.Request, f *api.Fields) string {
	switch s.opts.Dialect {
	case fleet.KindVLLM:
		if id := r.Header.Get("X-Request-Id"); id != "" {
			return id
		}
		if f.RequestID != "" {
			return f.RequestID
		}
	case fleet.KindSGLang:
		if f.RID != "" {
			return f.RID
		}
	}
	n := s.ids.Add(1)
	// engines with one seed generate different ids
	rng := rand.New(rand.NewPCG(xxh3.HashStringSeed(s.address(), s.opts.Seed), n))
	return fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64())
}

// place reads the rank or slot requested.
func (s *Server) place(r *http.Request, f *api.Fields, a *api.Ask) error {
	if s.dialect.lanes {
		if f.IDSlot != nil && *f.IDSlot >= 0 {
			if *f.IDSlot >= s.opts.Engine.Slots {
				return api.Bad("id_slot %d is out of range, the server has %d slots", *f.IDSlot, s.opts.Engine.Slots)
			}
			a.Slot = *f.IDSlot
		}
		return nil
	}
	if !s.dialect.rankHeader {
		return nil
	}
	asked := false
	if h := r.Header.Get("X-Data-Parallel-Rank"); h != "" {
		n, err := strconv.Atoi(h)
		if err != nil {
			return api.Bad("X-data-parallel-rank must be a whole number, got %q", h)
		}
		a.Rank, asked = n, true
	}
	if s.opts.Dialect == fleet.KindSGLang {
		for _, v := range []*int{f.DataParallelRank, f.RoutedDPRank} {
			if v != nil {
				a.Rank, asked = *v, true
			}
		}
	}
	if asked && (a.Rank < 0 || a.Rank >= s.opts.Ranks) {
		return api.Bad("data parallel rank %d is out of range [0, %d)", a.Rank, s.opts.Ranks)
	}
	return nil
}

// job makes the engine's job of an ask, and the text of its answer.
func (s *Server) job(a *api.Ask) (engine.Job, *api.Answer, error) {
	n := prompts.Tokens(len(a.Prompt))
	if n == 0 {
		return engine.Job{}, nil, api.Bad("the prompt is empty")
	}
	room := s.opts.ContextTokens - n
	if room < a.MaxTokens && !s.truncates() || room < 1 && !a.None || room < 0 {
		return engine.Job{}, nil, s.tooLong(n, a.MaxTokens)
	}
	seed := xxh3.HashSeed(a.Prompt, s.opts.Seed)
	ans := &api.Answer{Ask: a, PromptTokens: n, Finish: "stop"}
	if !a.None {
		ans.Want = s.answerTokens(a, seed, room)
		if ans.Want == a.MaxTokens {
			ans.Finish = "length"
		}
	}
	ans.Text = text.Of(seed, ans.Want)
	s.connector.Adjust(ans, seed, room)
	if s.opts.Silent && !a.None {
		ans.Want, ans.Text, ans.Finish = 1, "", "stop"
	}
	job := engine.Job{PromptTokens: n, OutputTokens: ans.Want}
	root := xxh3.HashString(a.Salt)
	if s.isAdapter(a.Model) {
		root = xxh3.HashStringSeed(a.Model, root)
	}
	full := make([]byte, 0, len(a.Prompt)+len(ans.Text))
	full = s.appendAnswer(append(full, a.Prompt...), ans)
	if s.dialect.lanes {
		root = s.chooseSlot(a, root, full)
		job.Lane = uint32(a.Slot) + 1
	}
	job.Chain = prompts.Chain(root, full, s.opts.Engine.BlockTokens)
	if s.pump.Publishers() != nil {
		ans.Kv = &kv.Job{Chain: job.Chain, Tokens: prompts.TokenIDs(full), Session: a.Conversation}
		_, ans.Kv.Salt, _ = strings.Cut(a.Salt, "\x00")
		if s.isAdapter(a.Model) {
			ans.Kv.Adapter = a.Model
		}
	}
	return job, ans, nil
}

// truncates says whether an answer is cut at the end of the context (llama.cpp, Ollama); the others reject a max_tokens
// that does not fit.
func (s *Server) truncates() bool { return s.dialect.lanes || s.opts.Dialect == fleet.KindOllama }

// answerTokens is the length of the answer, at most room.
func (s *Server) answerTokens(a *api.Ask, seed uint64, room int) int {
	if a.Exact && a.MaxTokens > 0 {
		return min(a.MaxTokens, room)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c656e677468))
	n := max(1, int(float64(s.opts.AnswerTokens)*(0.3+0.7*min(rng.ExpFloat64(), 8))))
	n = max(n, a.MinTokens)
	if a.MaxTokens > 0 {
		n = min(n, a.MaxTokens)
	}
	return min(n, room)
}

// tooLong is the engine's own error for a prompt beyond its context.
func (s *Server) tooLong(prompt, answer int) error {
	e := api.Bad("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the "+
		"messages, %d in the completion).", s.opts.ContextTokens, prompt+answer, prompt, answer)
	if s.dialect.lanes {
		e.Kind = "exceed_context_size_error"
	}
	e.PromptTokens = prompt
	return e
}
