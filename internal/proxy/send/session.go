package send

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// SGLang with --enable-session-radix-cache keeps the KV cache of a session that requests name in session_id before that
// of others, until POST /close_session. The session begins with its first request (sglang, pull request 29436);
// session_params belongs to sessions of another kind, which must be opened and go on with their own prompt. The
// engine's input refuses both together ("session_id and session_params cannot both be set", io_struct.py), though chat
// of 0.5.23 answered a request with both with 200. Chat, completions, responses and /generate have session_id.
const sessionID = "session_id"

// tellSession adds the edit that names the session to an engine that keeps caches by it, unless the client named one.
// Where tenants are told apart, what the client has there is told apart too, a name or not.
func (a *Outgoing) tellSession(edits []prompt.Edit) []prompt.Edit {
	c, t := a.c, a.s.cfg.Tenants
	if !a.d.TellSession || a.d.Kind != fleet.KindSGLang || c.Body == nil || c.Prompt.InsertAt == 0 {
		return edits
	}
	switch c.API {
	case prompt.Chat, prompt.Completions, prompt.Responses, prompt.Generate:
	default:
		return edits
	}
	id := a.d.Session
	switch own := c.member(sessionID); {
	case rawjson.IsNull(own):
	case t == nil:
		return edits
	case own[0] == '"':
		id = jsonscan.Decode(c.Body.Bytes, c.Prompt.Field(sessionID))
	default:
		id = string(own)
	}
	if id == "" || !rawjson.IsNull(c.member("session_params")) {
		return edits
	}
	return append(edits, c.Prompt.SetField(sessionID, jsonscan.AppendString(nil, t.Apart(c.Request.Tenant, id))))
}

// attended has SGLang end a request of /generate that its client has left, as it does unless background is set (0.5.23,
// tokenizer_manager.py). What that would answer nobody can fetch.
func (a *Outgoing) attended(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if c.API != prompt.Generate || c.Body == nil || c.Prompt.InsertAt == 0 || rawjson.IsNull(c.member("background")) {
		return edits
	}
	return append(edits, c.Prompt.SetField("background", []byte("false")))
}

const (
	mostClosing  = 1024            // sessions whose end is still to be told
	closesWithin = 5 * time.Second // one at one engine
)

// Closings are the ends of sessions that engines are still to be told. Those for which there is no room are dropped:
// the engine keeps their cache until it needs the room.
type Closings struct {
	queue   chan closing
	dropped atomic.Uint64
}

type closing struct {
	at fleet.Endpoint
	id string
}

// NewClosings is an empty queue.
func NewClosings() *Closings { return &Closings{queue: make(chan closing, mostClosing)} }

// Close has an engine told that a tenant's session has ended. It does not wait.
func (s *Sender) Close(q *Closings, at fleet.Endpoint, tenant, id string) {
	select {
	case q.queue <- closing{at, s.cfg.Tenants.Apart(tenant, id)}:
	default:
		if n := q.dropped.Add(1); n&(n-1) == 0 {
			s.log.Warn("engines are slow to take the ends of sessions: some are not told", "in all", n)
		}
	}
}

// TellClosed tells engines the ends of sessions until ctx ends.
func (s *Sender) TellClosed(ctx context.Context, q *Closings) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-q.queue:
			if err := s.tellClosed(ctx, &c); err != nil && ctx.Err() == nil {
				s.log.Info("an engine was not told that a session has ended", "endpoint", c.at.Name, "error", err)
			}
		}
	}
}

func (s *Sender) tellClosed(ctx context.Context, c *closing) error {
	ctx, cancel := context.WithTimeout(ctx, closesWithin)
	defer cancel()
	body := string(jsonscan.AppendString([]byte(`{"session_id":`), c.id)) + "}"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.at.URL, "/")+"/close_session",
		strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.at.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+c.at.APIKey)
	}
	res, err := s.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, RefusalBytes))
	return err
}
