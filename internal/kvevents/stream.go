package kvevents

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// stream reads one event stream. Its goroutine owns all fields unless stated otherwise.
type stream struct {
	f      *Follower
	at     target
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}
	redo   atomic.Bool // another stream of the endpoint lost its blocks: request everything again

	kv    *kvstream.Stream
	batch kvstream.Batch
	ops   kvstream.Ops
	size  int // tokens per block

	base   kvstream.State // the state while the stream is received
	asker  asker
	beaten time.Time // when the stream was last known to be complete

	inbox  chan [][]byte // for an engine that connects: frames, nil when its connection has ended
	asked  chan struct{} // for a polled engine, capacity 1: poll soon
	polled time.Time     // time of the last poll

	mu    sync.Mutex // guards what follows
	state kvstream.State
	sum   kvstream.Counts
}

func newStream(f *Follower, at target) *stream {
	return &stream{
		f: f, at: at, log: f.log.With("endpoint", at.endpoint, "kv_events", at.events), done: make(chan struct{}), asked: make(chan struct{}, 1),
		kv: kvstream.New(f.cfg.Blocks), asker: asker{addr: at.replay},
		inbox: make(chan [][]byte, queue),
	}
}

func (s *stream) counts() kvstream.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

func (s *stream) told() kvstream.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// run reads events until ctx ends.
func (s *stream) run(ctx context.Context) {
	switch s.at.events {
	case pollEvents:
		s.poll(ctx)
		return
	case listenEvents:
		s.listen(ctx)
		return
	}
	defer s.asker.close()
	for ctx.Err() == nil {
		if err := s.connected(ctx); err != nil && ctx.Err() == nil {
			s.say(kvstream.Silent, "the stream is broken, connecting again: "+err.Error(), false, false)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}

// connected dials and reads until the connection breaks.
func (s *stream) connected(ctx context.Context) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	// The library's own reconnecting hides a broken connection, which is the first sign of a restart, and gives up after ten
	// attempts.
	sub := zmq4.NewSub(running, zmq4.WithDialerTimeout(patience), zmq4.WithDialerMaxRetries(0), zmq4.WithLogger(quiet()))
	defer func() {
		cancel()
		dispose(sub)
	}()
	if err := sub.SetOption(zmq4.OptionSubscribe, s.at.topic); err != nil {
		return err
	}
	if err := sub.Dial(s.at.events); err != nil {
		return err
	}
	messages := make(chan zmq4.Msg, queue)
	failed := make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() { failed <- receive(running, sub, messages) })
	defer reader.Wait()
	defer cancel()

	s.beaten = time.Now()
	s.catchUp(ctx, true)
	if s.at.replay == "" && s.told() != kvstream.None && s.kv.Started() {
		s.log.Debug("connected again; whether messages are missing shows with the next one")
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case m := <-messages:
			s.message(ctx, m.Frames)
			for n := len(messages); n > 0; n-- {
				m = <-messages
				s.message(ctx, m.Frames)
			}
			s.flush()
		case <-ticker.C:
			s.catchUp(ctx, false)
		}
	}
}

// receive reads messages until the connection breaks or ctx ends.
func receive(ctx context.Context, sub zmq4.Socket, to chan<- zmq4.Msg) error {
	for {
		m, err := sub.Recv()
		if err != nil {
			return err
		}
		select {
		case to <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// decode parses the frames of a message: topic, number, payload. In a replay an empty frame comes first, and the topic may be
// missing. Malformed messages are counted and have no number.
func (s *stream) decode(frames [][]byte) (seq uint64, ok bool) {
	n := len(frames)
	if n < 2 || len(frames[n-2]) != 8 {
		s.kv.Skip(1)
		return 0, false
	}
	seq = binary.BigEndian.Uint64(frames[n-2])
	if err := kv.ReadBatch(frames[n-1], &s.batch); err != nil {
		s.log.Debug("message of no use", "sequence", seq, "error", err)
		s.batch.Reset()
		s.batch.At, s.batch.Skipped = s.kv.At(), 1
	}
	return seq, true
}

// message handles a message of the stream.
func (s *stream) message(ctx context.Context, frames [][]byte) {
	seq, ok := s.decode(frames)
	if !ok {
		return
	}
	step := s.kv.Step(seq, s.batch.At)
	if step == kvstream.Gap || step == kvstream.Restart {
		s.tell()
		kept := s.batch // catching up reads into another
		s.batch = kvstream.Batch{}
		if step == kvstream.Restart {
			s.restarted("the sequence went back")
		}
		if seq > 0 {
			s.catchUp(ctx, true)
		}
		s.batch = kept
		if step = s.kv.Step(seq, s.batch.At); step == kvstream.Gap {
			s.missed(seq)
			step = kvstream.Apply
		}
	}
	if step == kvstream.Apply {
		s.apply(seq)
	}
}

// apply applies the batch.
func (s *stream) apply(seq uint64) {
	if seq == 0 {
		s.base = kvstream.Exact // complete since the engine's start
	}
	for i := range s.batch.Events {
		s.size = max(s.size, s.batch.Events[i].BlockTokens)
	}
	s.kv.Apply(seq, &s.batch, &s.ops)
	if s.ops.Len() >= mostOps {
		s.flush()
	}
}

// flush passes the operations to the fleet, and that the stream is received.
func (s *stream) flush() {
	if s.kv.Started() && s.told() != s.base {
		detail := "followed; all is known that the cache holds"
		if s.base == kvstream.Partial {
			detail = "followed; what was stored before is not known"
		}
		s.say(s.base, detail, false, false)
	}
	s.tell()
}

// tell passes the operations to the fleet.
func (s *stream) tell() {
	s.mu.Lock()
	s.sum = s.kv.Counts()
	s.mu.Unlock()
	if s.ops.Len() == 0 {
		return
	}
	s.f.observe(route.KVApplied{Endpoint: s.at.endpoint, Ops: &s.ops, Blocks: s.kv.Held(), Size: s.size})
	s.ops.Reset()
}

// missed gives up lost messages.
func (s *stream) missed(seq uint64) {
	first := !s.kv.Started()
	lost := seq - s.kv.Next()
	s.ops.Reset()
	s.kv.Reset(false, 0)
	s.kv.Resume(seq)
	s.base = kvstream.Partial
	if first {
		return // nothing was known that could be lost
	}
	s.kv.Lose(lost)
	s.say(kvstream.Partial, fmt.Sprintf("%d messages are lost; what the cache holds is learnt anew", lost), true, false)
}

// restarted drops the state of an engine that has ended.
func (s *stream) restarted(how string) {
	s.ops.Reset()
	s.kv.Reset(true, 0)
	s.size = 0
	s.base = kvstream.Exact
	s.say(kvstream.Exact, "the engine has started anew ("+how+")", true, true)
}

// say reports a change of the stream's state to the fleet.
func (s *stream) say(state kvstream.State, detail string, lost, restart bool) {
	s.mu.Lock()
	before := s.state
	s.state = state
	s.mu.Unlock()
	if before == state && !lost && !restart {
		return
	}
	worst, several := s.f.worst(s.at.endpoint, s, lost || restart)
	if several {
		state, detail = worst, fmt.Sprintf("rank %d: %s", s.at.rank, detail)
	}
	s.f.observe(route.KVHeard{Endpoint: s.at.endpoint, State: state, Detail: detail, Lost: lost, Restart: restart})
}
