package kvevents

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// poll polls TensorRT-LLM for new events (POST /kv_cache_events), regularly and when an answer begins or ends there,
// since blocks are stored and evicted then. A poll empties the engine's queue: events that another reader got are
// missing here, and are lost.
func (s *stream) poll(ctx context.Context) {
	ticker := time.NewTicker(s.f.cfg.Poll)
	defer ticker.Stop()
	s.beaten = time.Now()
	ranks := map[int]*kvstream.Stream{0: s.kv}
	for {
		s.polled = time.Now()
		if err := s.pollOnce(ctx, ranks); err != nil && ctx.Err() == nil {
			s.log.Debug("no events", "error", err)
			if time.Since(s.beaten) >= beat+patience/2 {
				s.say(kvstream.Silent, "cannot be asked for: "+err.Error(), false, false)
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

func (s *stream) pollOnce(ctx context.Context, ranks map[int]*kvstream.Stream) error {
	body, err := s.fetch(ctx)
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
		kv := ranks[max(b.Batch.Rank, 0)]
		if kv == nil {
			if len(ranks) >= mostRanks {
				s.kv.Skip(1)
				continue
			}
			kv = kvstream.New(s.f.cfg.Blocks)
			ranks[max(b.Batch.Rank, 0)] = kv
		}
		s.take(ctx, kv, b)
	}
	if s.base == kvstream.None {
		s.base = kvstream.Partial // it was probably running before
	}
	s.tellPolled(ranks)
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
		s.tellPolled(nil)
		s.rest(ctx)
		kv.Reset(true, 0)
		s.size = 0
		s.base = kvstream.Exact
		if seq > 0 {
			s.base = kvstream.Partial
		}
		kv.Resume(seq)
		s.say(s.base, "the engine has started anew (the event ids went back)", true, true)
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
		s.tellOps(kv.Len())
	}
}

func (s *stream) gap(ctx context.Context, kv *kvstream.Stream, seq uint64) {
	first, lost := !kv.Started(), seq-kv.Next()
	if !first {
		s.tellPolled(nil)
		s.rest(ctx)
	}
	kv.Reset(false, 0)
	kv.Resume(seq)
	s.base = kvstream.Partial
	if !first {
		kv.Lose(lost)
		s.say(s.base,
			fmt.Sprintf("%d events are lost, perhaps to another caller; what the cache holds is learnt anew", lost),
			true, false)
	}
}

// tellPolled passes the operations to the fleet.
func (s *stream) tellPolled(ranks map[int]*kvstream.Stream) {
	blocks := 0
	var sum kvstream.Counts
	for _, kv := range ranks {
		blocks += kv.Len()
		sum.Add(kv.Counts())
	}
	if ranks != nil {
		s.mu.Lock()
		s.sum = sum
		s.mu.Unlock()
		if s.told() != s.base {
			s.say(s.base, "followed", false, false)
		}
	}
	s.tellOps(blocks)
}

// tellOps passes the collected operations to the fleet, and the number of blocks that the engine holds.
func (s *stream) tellOps(blocks int) {
	if s.ops.Len() == 0 {
		return
	}
	s.f.observe(route.KVApplied{Endpoint: s.at.endpoint, Ops: &s.ops, Blocks: blocks, Size: s.size, Asked: s.polled})
	s.ops.Reset()
}

func (s *stream) fetch(ctx context.Context) ([]byte, error) {
	// Older versions wait for up to 2 s for the first event.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second+patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.at.url+"/kv_cache_events", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "warmpath-kvevents")
	if s.at.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.at.key)
	}
	resp, err := s.f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("POST /kv_cache_events: status %d", resp.StatusCode)
	case len(body) > mostAnswer:
		return nil, fmt.Errorf("POST /kv_cache_events: the answer is longer than %d bytes", mostAnswer)
	}
	return body, nil
}
