package kvevents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/route"
)

// The bounds of asking for tokens: what does not fit is left out, and those requests' blocks are told by other means.
const (
	tokenAskers = 4
	tokenQueue  = 64
	mostBody    = 4 << 20
	tokensSoon  = 10 * time.Second
)

// question is a request whose tokens are asked for.
type question struct {
	lease     route.Lease
	url, key  string
	kind      route.Kind
	body      []byte
	tokenPath string
}

// Placed has the tokens of a request asked for, beside it: body is the request as the engine got it. It does not wait, and keeps a copy.
func (f *Follower) Placed(d *route.Decision, body []byte) {
	if !f.cfg.Tokenize || len(body) == 0 || len(body) > mostBody {
		return
	}
	q := question{lease: d.Lease, url: d.Endpoint.URL, key: d.Endpoint.APIKey, kind: d.Kind}
	switch d.Kind {
	case route.KindVLLM:
		q.tokenPath = "/tokenize"
	case route.KindSGLang:
		q.tokenPath = "/v1/tokenize"
	default:
		return // TensorRT-LLM has no such path
	}
	if !f.follows(d.Endpoint.Name) {
		return
	}
	q.body = bytes.Clone(body)
	select {
	case f.questions <- q:
	default:
		f.unasked.Add(1)
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

// askTokens asks for the tokens of requests until ctx ends.
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
	var asked struct {
		Salt string `json:"cache_salt"`
	}
	_ = json.Unmarshal(q.body, &asked) // what is no request the engine will say
	ctx, cancel := context.WithTimeout(ctx, tokensSoon)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url+q.tokenPath, bytes.NewReader(q.body))
	if err != nil {
		return ev, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "warmpath-kvevents")
	if q.key != "" {
		req.Header.Set("Authorization", "Bearer "+q.key)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return ev, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return ev, err
	}
	if resp.StatusCode != http.StatusOK {
		return ev, fmt.Errorf("POST %s: status %d", q.tokenPath, resp.StatusCode)
	}
	ev = route.KVTokens{Lease: q.lease}
	if ev.Tokens, err = engine.ReadTokens(answer); err != nil {
		return ev, err
	}
	switch {
	case asked.Salt == "":
	case q.kind == route.KindVLLM:
		ev.Extra = engine.KVSaltExtra(asked.Salt)
	default:
		ev.Salt = asked.Salt
	}
	return ev, nil
}

// Unasked is how many requests' tokens could not be asked for, or were not told.
func (f *Follower) Unasked() uint64 { return f.unasked.Load() }
