package kvevents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/kvstream"
)

// poll polls TensorRT-LLM for new events (POST /kv_cache_events), regularly and when an answer begins or ends there,
// since blocks are stored and evicted then. A poll empties the engine's queue: events that another reader got are
// missing here, and are lost.
func (s *stream) poll(ctx context.Context) {
	ticker := time.NewTicker(s.f.cfg.Poll)
	defer ticker.Stop()
	s.beaten = time.Now()
	s.ranks = map[int]*kvstream.Stream{0: s.kv}
	for {
		s.polled = time.Now()
		if err := s.pollOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("no events", "error", err)
			if time.Since(s.beaten) >= beat+patience/2 {
				s.say(kvstream.Silent, "cannot be asked for: "+err.Error(), nothingLost)
			}
		} else {
			s.beaten = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.asked:
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(s.polled.Add(s.f.cfg.Poll / mostPolls))):
			}
		}
	}
}

// mostPolls bounds the polls triggered by requests, as a multiple of the regular ones.
const mostPolls = 10

func (s *stream) pollOnce(ctx context.Context) error {
	// Older versions wait for up to 2 s for the first event.
	limited, cancel := context.WithTimeout(ctx, 2*time.Second+patience)
	defer cancel()
	body, err := s.f.post(limited, s.at.url+"/kv_cache_events", s.at.key, nil, nil)
	if err != nil {
		return err
	}
	events, err := kv.ReadTRTEvents(body)
	if err != nil {
		return err
	}
	s.kv.Skip(events.Skipped)
	for i := range events.Batches {
		b := &events.Batches[i]
		kv := s.ranks[max(b.Batch.Rank, 0)]
		if kv == nil {
			if len(s.ranks) >= mostRanks {
				s.kv.Skip(1)
				continue
			}
			kv = kvstream.New(s.f.cfg.Blocks)
			s.ranks[max(b.Batch.Rank, 0)] = kv
		}
		s.take(ctx, kv, b)
	}
	if s.base == kvstream.None {
		s.base = kvstream.Partial // it was probably running before
	}
	s.tellPolled()
	return nil
}

// take applies one event.
func (s *stream) take(ctx context.Context, kv *kvstream.Stream, b *kv.TRTBatch) {
	seq := kv.Next()
	if b.ID >= 0 {
		seq = uint64(b.ID)
	}
	switch kv.Step(seq, 0) {
	case kvstream.Drop:
		return
	case kvstream.Gap:
		s.gap(ctx, kv, seq)
	case kvstream.Restart:
		s.tellOps()
		s.rest(ctx)
		kv.Reset(true, 0)
		s.size = 0
		s.base = kvstream.Exact
		if seq > 0 {
			s.base = kvstream.Partial
		}
		kv.Resume(seq)
		s.say(s.base, "the engine has started anew (the event ids went back)", engineRestarted)
	case kvstream.Apply:
	}
	if seq == 0 {
		s.base = kvstream.Exact
	}
	for i := range b.Batch.Events {
		s.size = max(s.size, b.Batch.Events[i].BlockTokens)
	}
	kv.Apply(seq, &b.Batch, &s.ops)
	// one answer may have tens of thousands, and one call applies all of its operations while the fleet is locked
	if s.ops.Len() >= mostOps {
		s.tellOps()
	}
}

func (s *stream) gap(ctx context.Context, kv *kvstream.Stream, seq uint64) {
	first, lost := !kv.Started(), seq-kv.Next()
	if !first {
		s.tellOps()
		s.rest(ctx)
	}
	kv.Reset(false, 0)
	kv.Resume(seq)
	s.base = kvstream.Partial
	if !first {
		kv.Lose(lost)
		s.say(s.base,
			fmt.Sprintf("%d events are lost, perhaps to another caller; what the cache holds is learnt anew", lost),
			blocksLost)
	}
}

// tellPolled passes the operations to the fleet, and notes the counts of all ranks.
func (s *stream) tellPolled() {
	var sum kvstream.Counts
	for _, kv := range s.ranks {
		sum.Add(kv.Counts())
	}
	s.mu.Lock()
	s.sum = sum
	s.mu.Unlock()
	if s.lastState() != s.base {
		s.say(s.base, "followed", nothingLost)
	}
	s.tellOps()
}

// post asks an engine with its key, "" for none, and reads its answer. body is JSON; nil for none. take, unless nil, is
// asked for the memory of the answer as it comes.
func (f *Follower) post(ctx context.Context, url, key string, body []byte, take func(n int) bool) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "warmpath-kvevents")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(taking{resp.Body, take}, mostAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("POST %s: status %d", req.URL.Path, resp.StatusCode)
	case len(answer) > mostAnswer:
		return nil, fmt.Errorf("POST %s: the answer is longer than %d bytes", req.URL.Path, mostAnswer)
	}
	return answer, nil
}

var errNoMemory = errors.New("the router's memory for requests is used up (limits.memory)")

// taking asks for the memory of what it reads.
type taking struct {
	from io.Reader
	take func(n int) bool // nil for no need
}

// Read implements io.Reader.
func (t taking) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	if n > 0 && t.take != nil && !t.take(n) {
		return n, errNoMemory
	}
	return n, err
}
