package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// askPeer asks the other engine of a hand-over, whose part in it is told by who. What it answers is written to answer, unless that is
// nil. The error is errKVLoad where it cannot be reached or does not have the blocks (any more), and a refusal where the question is
// against the protocol.
func (s *Server) askPeer(ctx context.Context, who, url string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return s.refuse("the address of the %s: %v", who, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.countKV(&s.kv.stats.Failed)
		return errKVLoad
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusConflict, http.StatusBadRequest:
		return s.refuse("the %s says %s", who, said)
	default:
		s.countKV(&s.kv.stats.Failed)
		return errKVLoad
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(said, answer)
}

// moveTime is how long the KV cache of so many tokens takes from one engine to the other.
func (s *Server) moveTime(promptTokens int) time.Duration {
	wait := s.opts.KVLatency + time.Duration(float64(promptTokens)/s.opts.KVTokensPerSecond*float64(time.Second))
	return time.Duration(float64(wait) / s.opts.Speed)
}

// loaded counts a transfer and waits as long as it takes, or until the client has left or the engine is closed.
func (s *Server) loaded(ctx context.Context, promptTokens int) {
	s.countKV(&s.kv.stats.Loaded)
	timer := time.NewTimer(s.moveTime(promptTokens))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.closing:
	}
}
