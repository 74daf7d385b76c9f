package kvevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Tokenizer computes the engine's token ids of a chat or completion in OpenAI's form, with its chat template. Several
// goroutines use it at once.
type Tokenizer interface {
	Request(body []byte) ([]int32, error)
}

// Bounds of token lookups: beyond them requests are skipped, and their blocks are recognised by other means.
const (
	tokenAskers = 4
	tokenQueue  = 64
	mostBody    = 4 << 20
	tokensSoon  = 10 * time.Second
)

// Body is the body of a request as it was sent, in memory that counts until Release.
type Body interface {
	Bytes() []byte
	// Take counts memory that is needed for it, until Release; it is false if there is none.
	Take(n int) bool
	Release()
}

// question is a request whose tokens are looked up.
type question struct {
	lease     fleet.Lease
	url, key  string
	kind      fleet.Kind
	body      Body
	tokenPath string // path at the engine; "" for the local tokenizer
}

// Placed looks up the tokens of a request in the background: from the engine, from the tokenizer, or from its body if
// that has them (ids). keep makes a copy of the request as sent, and is called only if needed; nil is that it has more
// bytes, or that there is no memory. Placed does not block.
func (f *Follower) Placed(d *route.Decision, ids bool, keep func(most int) Body) {
	q := question{lease: d.Lease, url: d.Endpoint.URL, key: d.Endpoint.APIKey, kind: d.Kind}
	switch {
	case ids:
	case f.cfg.Tokenize && d.Kind == fleet.KindVLLM:
		q.tokenPath = "/tokenize"
	case f.cfg.Tokenize && d.Kind == fleet.KindSGLang:
		q.tokenPath = "/v1/tokenize"
	case f.with == nil:
		return // TensorRT-LLM has no such path
	}
	if !f.follows(d.Endpoint.Name) {
		return
	}
	if q.body = keep(mostBody); q.body == nil {
		f.unasked.Add(1)
		return
	}
	select {
	case f.questions <- q:
		if f.over.Load() {
			f.dropQuestions()
		}
	default:
		f.unasked.Add(1)
		q.body.Release()
	}
}

// dropQuestions releases the questions that Run has left.
func (f *Follower) dropQuestions() {
	for {
		select {
		case q := <-f.questions:
			f.unasked.Add(1)
			q.body.Release()
		default:
			return
		}
	}
}

// follows reports whether an endpoint has a stream.
func (f *Follower) follows(endpoint string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.streams {
		if t.endpoint == endpoint {
			return true
		}
	}
	return false
}

// askTokens looks up tokens of requests until ctx ends.
func (f *Follower) askTokens(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-f.questions:
			ev, err := f.tokens(ctx, &q)
			if err != nil {
				f.unasked.Add(1)
				f.log.Debug("no tokens", "url", q.url, "error", err)
				continue
			}
			f.observe(ev)
		}
	}
}

func (f *Follower) tokens(ctx context.Context, q *question) (ev route.KVTokens, err error) {
	defer q.body.Release()
	body := q.body.Bytes()
	var asked struct {
		Salt string          `json:"cache_salt"`
		IDs  json.RawMessage `json:"prompt_token_ids"`
		Text json.RawMessage `json:"prompt"`

		Adapter json.RawMessage `json:"lora_request"` // TensorRT-LLM
		Path    json.RawMessage `json:"lora_path"`    // SGLang
	}
	_ = json.Unmarshal(body, &asked) // the engine reports invalid requests
	ev.Lease = q.lease
	switch {
	case given(asked.Adapter) || given(asked.Path):
		return ev, errors.New("blocks depend on the adapter too")
	case q.tokenPath != "":
		ev.Tokens, err = f.askEngine(ctx, q)
	default:
		if ev.Tokens, err = givenIDs(asked.IDs, asked.Text); ev.Tokens == nil && err == nil {
			ev.Tokens, err = f.tokenize(ctx, body)
		}
	}
	switch {
	case err != nil || asked.Salt == "":
	case q.kind == fleet.KindVLLM:
		ev.Extra = kv.SaltExtra(asked.Salt)
	case q.kind == fleet.KindSGLang:
		ev.Salt = asked.Salt
	default: // TensorRT-LLM's events lack it
	}
	return ev, err
}

// askEngine asks the engine for the tokens of a request.
func (f *Follower) askEngine(ctx context.Context, q *question) ([]uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, tokensSoon)
	defer cancel()
	answer, err := f.post(ctx, q.url+q.tokenPath, q.key, q.body.Bytes(), q.body.Take)
	if err != nil {
		return nil, err
	}
	return engine.ReadTokens(answer)
}

// given is false for a member that is missing or null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// givenIDs are the token ids in a body: prompt_token_ids, or the prompt of a completion. None without an error means
// that there are none.
func givenIDs(members ...json.RawMessage) ([]uint32, error) {
	for _, raw := range members {
		raw = bytes.TrimSpace(raw)
		if len(raw) < 2 || raw[0] != '[' || !bytes.ContainsAny(raw[:min(len(raw), 64)], "0123456789-") {
			continue
		}
		if within := bytes.TrimSpace(raw[1:]); within[0] == '[' { // a list of one prompt
			var list []json.RawMessage
			if err := json.Unmarshal(raw, &list); err != nil {
				return nil, err
			}
			if len(list) != 1 {
				return nil, fmt.Errorf("%d prompts in one request", len(list))
			}
			raw = list[0]
		} else if within[0] == '"' {
			continue
		}
		var ids []int64
		if err := json.Unmarshal(raw, &ids); err != nil {
			return nil, fmt.Errorf("token ids: %w", err)
		}
		out := make([]uint32, len(ids))
		for i, id := range ids {
			if id < 0 || id > math.MaxUint32 {
				return nil, fmt.Errorf("token id %d is none", id)
			}
			out[i] = uint32(id)
		}
		return out, nil
	}
	return nil, nil
}

// tokenize passes a request to the tokenizer. Few run at once, since it competes with requests for CPU time.
func (f *Follower) tokenize(ctx context.Context, body []byte) ([]uint32, error) {
	if f.with == nil {
		return nil, errors.New("the body has no token ids")
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case f.reading <- struct{}{}:
	}
	defer func() { <-f.reading }()
	ids, err := f.with.Request(body)
	if err != nil {
		return nil, err
	}
	out := make([]uint32, len(ids))
	for i, id := range ids {
		out[i] = uint32(id)
	}
	return out, nil
}

// Unasked is the number of requests whose tokens could not be looked up.
func (f *Follower) Unasked() uint64 { return f.unasked.Load() }
