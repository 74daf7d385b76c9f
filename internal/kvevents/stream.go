package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/zmtp"
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
	ranks map[int]*kvstream.Stream // of an engine that is polled, kv among them; nil for another
	size  int                      // tokens per block
	share int                      // of cached: this stream's

	base   kvstream.State // the state while the stream is received
	anew   time.Time      // when what it knew was last dropped
	asker  asker
	beaten time.Time // when the stream was last known to be complete

	inbox   *inbox        // of an engine that connects: nil frames when its connection has ended
	doubled bool          // several connections that send it were logged; Follower.mu guards it
	asked   chan struct{} // for a polled engine, capacity 1: poll soon
	polled  time.Time     // time of the last poll

	cached *atomic.Int64 // see engineFacts.blocks

	mu    sync.Mutex // guards what follows
	state kvstream.State
	sum   kvstream.Counts
}

// loss is what a change of a stream's state means for the blocks that are known.
type loss uint8

const (
	nothingLost     loss = iota
	blocksLost           // they are void
	engineRestarted      // they are void, and the engine's cache is empty
)

// newStream makes a stream that run reads; f.mu is held.
func newStream(f *Follower, at target) *stream {
	return &stream{
		f: f, at: at, log: f.log.With("endpoint", at.endpoint, "kv_events", at.events), done: make(chan struct{}),
		asked: make(chan struct{}, 1), kv: kvstream.New(f.cfg.Blocks), asker: asker{addr: at.replay, room: f.room},
		inbox: newInbox(), cached: &f.factsOf(at.endpoint).blocks,
	}
}

func (s *stream) counts() kvstream.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

// lastState is the state that was told last.
func (s *stream) lastState() kvstream.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// run reads events until ctx ends. After a panic it begins anew: what the stream knew may be half changed.
func (s *stream) run(ctx context.Context) {
	defer s.asker.close()
	defer s.holds(0)
	for ctx.Err() == nil {
		ok := panics.Catch(s.log, panics.KVEvents, func() {
			switch s.at.events {
			case pollEvents:
				s.poll(ctx)
			case listenEvents:
				s.listen(ctx)
			default:
				if err := s.connected(ctx); errors.Is(err, errMoved) {
					s.afresh("the name of its host stands for another address now, and what the cache there holds is " +
						"learnt anew")
				} else if err != nil && ctx.Err() == nil {
					s.say(kvstream.Silent, "the stream is broken, connecting again: "+err.Error(), nothingLost)
				}
			}
		})
		if !ok {
			panics.Catch(s.log, panics.KVEvents, func() {
				s.afresh("a message could not be read, and what the cache holds is learnt anew: see the log")
			})
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}

// afresh drops everything that the stream knows, and says why.
func (s *stream) afresh(why string) {
	s.asker.close()
	s.batch, s.ops = kvstream.Batch{}, kvstream.Ops{}
	s.kv, s.base = kvstream.New(s.f.cfg.Blocks), kvstream.Partial
	s.say(kvstream.Silent, why, blocksLost)
}

// connected dials and reads until the connection breaks.
func (s *stream) connected(ctx context.Context) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	dialling, late := context.WithTimeout(running, patience)
	sub, err := zmtp.Dial(dialling, s.at.events, socket(zmtp.Sub, s.f.room))
	late()
	if err != nil {
		return err
	}
	defer context.AfterFunc(running, func() { _ = sub.Close() })()
	if err := sub.Subscribe(s.at.topic); err != nil {
		return err
	}
	in := newInbox()
	failed := make(chan error, 2)
	var reader sync.WaitGroup
	reader.Go(func() {
		if err := s.f.moved(running, s.at.events, sub.RemoteAddr()); err != nil {
			failed <- err
		}
	})
	reader.Go(func() {
		err := errPanic
		panics.Catch(s.log, panics.KVEvents, func() { err = receive(running, sub, in) })
		failed <- err
	})
	defer reader.Wait()
	defer func() { _ = sub.Close() }()
	defer cancel()

	s.beaten = time.Now()
	s.catchUp(ctx, true)
	if s.at.replay == "" && s.lastState() != kvstream.None && s.kv.Started() {
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
		case <-in.ready:
			for _, frames := range in.take() {
				s.message(ctx, frames)
			}
			s.flush()
		case <-ticker.C:
			s.catchUp(ctx, false)
		}
	}
}

var errPanic = errors.New("a message could not be read: see the log")

// socket is how a socket is opened, with the bounds on what engines may send.
func socket(kind zmtp.Kind, room *zmtp.Room) zmtp.Config {
	return zmtp.Config{Kind: kind, Message: mostMessage, Room: room}
}

// receive reads messages until the connection breaks or ctx ends.
func receive(ctx context.Context, sub *zmtp.Conn, to *inbox) error {
	for {
		frames, err := sub.Receive()
		if err != nil {
			return err
		}
		if !to.give(ctx, nil, frames) {
			return ctx.Err()
		}
	}
}

// decode parses the frames of a message: topic, number, payload. In a replay an empty frame comes first, and the topic
// may be missing. Malformed messages are counted and have no number.
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
			s.restarted(ctx, "the sequence went back")
		}
		if seq > 0 {
			s.catchUp(ctx, true)
		}
		s.batch = kept
		if step = s.kv.Step(seq, s.batch.At); step == kvstream.Gap {
			s.missed(ctx, seq)
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
	if s.kv.Started() && s.lastState() != s.base {
		detail := "followed; all is known that the cache holds"
		if s.base == kvstream.Partial {
			detail = "followed; what was stored before is not known"
		}
		s.say(s.base, detail, nothingLost)
	}
	s.tell()
}

// tell passes the operations to the fleet, and notes the counts of the stream.
func (s *stream) tell() {
	s.mu.Lock()
	s.sum = s.kv.Counts()
	s.mu.Unlock()
	s.tellOps()
}

// tellOps passes the operations to the fleet, and how many blocks the endpoint's engine holds with all of its ranks.
func (s *stream) tellOps() {
	if s.ops.Len() == 0 {
		return
	}
	blocks := s.kv.Len()
	if s.ranks != nil {
		blocks = 0
		for _, kv := range s.ranks {
			blocks += kv.Len()
		}
	}
	s.f.observe(route.KVApplied{
		Endpoint: s.at.endpoint, Ops: &s.ops, Blocks: s.holds(blocks), Size: s.size, Asked: s.polled,
	})
	s.ops.Reset()
}

// holds notes how many blocks the stream knows to be cached, and returns how many all streams of its endpoint know.
func (s *stream) holds(blocks int) (all int) {
	all = int(s.cached.Add(int64(blocks - s.share)))
	s.share = blocks
	return all
}

// rest waits where a stream begins anew sooner after the last time than another connection would be tried: one whose
// numbers make no sense would otherwise fill the log, and have the fleet drop its blocks with each message. Its
// messages wait meanwhile, at last at the engine.
func (s *stream) rest(ctx context.Context) {
	if wait := time.Until(s.anew.Add(reconnect)); wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	s.anew = time.Now()
}

// missed gives up lost messages.
func (s *stream) missed(ctx context.Context, seq uint64) {
	first := !s.kv.Started()
	if !first {
		s.rest(ctx)
	}
	lost := seq - s.kv.Next()
	s.ops.Reset()
	s.kv.Reset(false, 0)
	s.kv.Resume(seq)
	s.base = kvstream.Partial
	if first {
		return // nothing was known that could be lost
	}
	s.kv.Lose(lost)
	s.say(kvstream.Partial, fmt.Sprintf("%d messages are lost; what the cache holds is learnt anew", lost), blocksLost)
}

// restarted drops the state of an engine that has ended.
func (s *stream) restarted(ctx context.Context, how string) {
	s.rest(ctx)
	s.ops.Reset()
	s.kv.Reset(true, 0)
	s.size = 0
	s.base = kvstream.Exact
	s.say(kvstream.Exact, "the engine has started anew ("+how+")", engineRestarted)
}

// say reports a change of the stream's state to the fleet, as the state of its endpoint.
func (s *stream) say(state kvstream.State, detail string, lost loss) {
	s.f.saying.Lock()
	defer s.f.saying.Unlock()
	s.mu.Lock()
	before := s.state
	s.state = state
	s.mu.Unlock()
	if before == state && lost == nothingLost {
		return
	}
	if worst, several := s.f.worst(s.at.endpoint, s, lost != nothingLost); several {
		state, detail = worst, fmt.Sprintf("rank %d: %s", s.at.rank, detail)
	}
	s.f.observe(route.KVStreamState{
		Endpoint: s.at.endpoint, State: state, Detail: detail, Lost: lost != nothingLost,
		Restart: lost == engineRestarted,
	})
}
