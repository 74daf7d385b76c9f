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
	"github.com/warmpath/warmpath/internal/enginetest/kv"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/text"
)

// fields are the body fields that the simulated engines look at, of all their APIs; others are ignored, as the real
// ones do.
type fields struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Prompt   json.RawMessage `json:"prompt"`
	Input    json.RawMessage `json:"input"`
	System   json.RawMessage `json:"system"`

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

	body []byte // all of it
}

// keep keeps the whole body.
func (f *fields) keep(body []byte) { f.body = body }

// ask is one request to generate, ready to become a job.
type ask struct {
	model        string
	prompt       []byte
	salt         string
	id           string // of the request, without the API's prefix
	conversation string // label of its blocks (vLLM)
	maxTokens    int    // 0: as long as it naturally is
	minTokens    int
	exact        bool // ignore_eos: exactly maxTokens
	none         bool // no answer at all (embeddings)
	stream       bool
	usage        bool // the stream ends with usage
	each         bool // usage on every chunk
	rank         int  // -1: the engine chooses
	slot         int  // -1: the engine chooses (llama.cpp)
	leg          any  // of the connector: what the request says of a hand-over; nil for nothing
	ids          bool // the answer has the token ids of its prompt (return_token_ids)
}

// badRequest is an error that is the client's fault.
type badRequest struct {
	status int
	kind   string // the "type" of the error
	msg    string

	promptTokens int // of a prompt that is too long, else 0
}

func (e *badRequest) Error() string { return e.msg }

func bad(format string, args ...any) *badRequest {
	return &badRequest{status: http.StatusBadRequest, kind: "BadRequestError", msg: fmt.Sprintf(format, args...)}
}

// read decodes the body into v.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.BodyBytes))
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return &badRequest{status: http.StatusRequestEntityTooLarge, kind: "BadRequestError", msg: "the body is too long"}
		}
		return bad("reading the body: %v", err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return bad("the body is not valid: %v", err)
	}
	if f, ok := v.(interface{ keep(body []byte) }); ok {
		f.keep(b)
	}
	return nil
}

// newAsk takes what all APIs have in common from the body and the headers. The prompt is still missing.
func (s *Server) newAsk(r *http.Request, f *fields) (*ask, error) {
	if !s.knows(f.Model) && f.Model != "" {
		return nil, &badRequest{status: http.StatusNotFound, kind: "NotFoundError", msg: fmt.Sprintf("The model `%s` does not exist.", f.Model)}
	}
	a := &ask{model: f.Model, salt: f.ExtraKey, minTokens: f.MinTokens, exact: f.IgnoreEOS, rank: -1, slot: -1}
	if a.model == "" {
		a.model = s.opts.Models[0]
	}
	for _, v := range []*int{f.MaxTokens, f.MaxCompletionTokens, f.MaxOutputTokens, f.NPredict} {
		if v == nil || (*v < 0 && v == f.NPredict) {
			continue // n_predict -1 is "no limit"
		}
		if *v < 1 {
			return nil, bad("max_tokens must be at least 1, got %d.", *v)
		}
		a.maxTokens = *v
	}
	if f.N != nil && *f.N != 1 {
		return nil, bad("the simulated engine gives one choice a request (n=1), got n=%d", *f.N)
	}
	if f.CacheSalt != nil {
		if *f.CacheSalt == "" || len(*f.CacheSalt) > 1024 {
			return nil, bad("cache_salt must be 1 to 1024 characters long")
		}
		a.salt += "\x00" + *f.CacheSalt
	}
	a.stream = f.Stream != nil && *f.Stream
	if f.StreamOptions != nil {
		a.usage, a.each = f.StreamOptions.IncludeUsage || f.StreamOptions.Continuous, f.StreamOptions.Continuous
	}
	a.id = s.requestID(r, f)
	if err := s.connector.Read(r, f, a); err != nil {
		return nil, err
	}
	a.ids = f.ReturnTokenIDs && s.opts.Dialect == fleet.KindVLLM
	if s.opts.Dialect == fleet.KindVLLM {
		if a.conversation = f.SessionID; a.conversation == "" {
			a.conversation = r.Header.Get("X-Session-ID")
		}
	}
	if err := s.place(r, f, a); err != nil {
		return nil, err
	}
	return a, s.connector.Placed(r, f, a)
}

// requestID is the client's own where the engine takes it (vLLM: header before body; SGLang: rid only), else new.
func (s *Server) requestID(r *http.Request, f *fields) string {
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
	rng := rand.New(rand.NewPCG(xxh3.HashStringSeed(s.address(), s.opts.Seed), n)) // engines with one seed make up different ids
	return fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64())
}

// place reads the rank or slot that the request asks for.
func (s *Server) place(r *http.Request, f *fields, a *ask) error {
	if s.dialect.lanes {
		if f.IDSlot != nil && *f.IDSlot >= 0 {
			if *f.IDSlot >= s.opts.Engine.Slots {
				return bad("id_slot %d is out of range, the server has %d slots", *f.IDSlot, s.opts.Engine.Slots)
			}
			a.slot = *f.IDSlot
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
			return bad("X-data-parallel-rank must be a whole number, got %q", h)
		}
		a.rank, asked = n, true
	}
	if s.opts.Dialect == fleet.KindSGLang {
		for _, v := range []*int{f.DataParallelRank, f.RoutedDPRank} {
			if v != nil {
				a.rank, asked = *v, true
			}
		}
	}
	if asked && (a.rank < 0 || a.rank >= s.opts.Ranks) {
		return bad("data parallel rank %d is out of range [0, %d)", a.rank, s.opts.Ranks)
	}
	return nil
}

// job makes the engine's job of an ask, and the text of its answer.
func (s *Server) job(a *ask) (engine.Job, *answer, error) {
	n := tokens(len(a.prompt))
	if n == 0 {
		return engine.Job{}, nil, bad("the prompt is empty")
	}
	room := s.opts.ContextTokens - n
	if room < a.maxTokens && !s.truncates() || room < 1 && !a.none || room < 0 {
		return engine.Job{}, nil, s.tooLong(n, a.maxTokens)
	}
	seed := xxh3.HashSeed(a.prompt, s.opts.Seed)
	ans := &answer{ask: a, promptTokens: n, finish: "stop"}
	if !a.none {
		ans.want = s.answerTokens(a, seed, room)
		if ans.want == a.maxTokens {
			ans.finish = "length"
		}
	}
	ans.text = text.Of(seed, ans.want)
	s.connector.Adjust(ans, seed, room)
	if s.opts.Silent && !a.none {
		ans.want, ans.text, ans.finish = 1, "", "stop"
	}
	job := engine.Job{PromptTokens: n, OutputTokens: ans.want}
	root := xxh3.HashString(a.salt)
	if s.isAdapter(a.model) {
		root = xxh3.HashStringSeed(a.model, root)
	}
	full := make([]byte, 0, len(a.prompt)+len(ans.text))
	full = s.appendAnswer(append(full, a.prompt...), ans)
	if s.dialect.lanes {
		root = s.chooseSlot(a, root, full)
		job.Lane = uint32(a.slot) + 1
	}
	job.Chain = chain(root, full, s.opts.Engine.BlockTokens)
	if s.pump.kv != nil {
		ans.kv = &kv.Job{Chain: job.Chain, Tokens: tokenIDs(full), Session: a.conversation}
		_, ans.kv.Salt, _ = strings.Cut(a.salt, "\x00")
		if s.isAdapter(a.model) {
			ans.kv.Adapter = a.model
		}
	}
	return job, ans, nil
}

// truncates says whether an answer simply ends at the end of the context (llama.cpp, Ollama), where the others refuse
// a max_tokens that does not fit.
func (s *Server) truncates() bool { return s.dialect.lanes || s.opts.Dialect == fleet.KindOllama }

// answerTokens is how long the answer becomes, at most room.
func (s *Server) answerTokens(a *ask, seed uint64, room int) int {
	if a.exact && a.maxTokens > 0 {
		return min(a.maxTokens, room)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c656e677468))
	n := max(1, int(float64(s.opts.AnswerTokens)*(0.3+0.7*min(rng.ExpFloat64(), 8))))
	n = max(n, a.minTokens)
	if a.maxTokens > 0 {
		n = min(n, a.maxTokens)
	}
	return min(n, room)
}

// tooLong is the engine's own answer to a prompt beyond its context.
func (s *Server) tooLong(prompt, answer int) error {
	e := bad("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion).",
		s.opts.ContextTokens, prompt+answer, prompt, answer)
	if s.dialect.lanes {
		e.kind = "exceed_context_size_error"
	}
	e.promptTokens = prompt
	return e
}
