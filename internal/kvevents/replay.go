package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"math"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/warmpath/warmpath/kvstream"
)

// end is the number in the message that ends an answer: -1.
const end = math.MaxUint64

// asker requests messages from a number on from an engine's replay socket, a ROUTER: an empty frame, then the number in 8
// bytes, big endian (vLLM and SGLang).
type asker struct {
	addr   string
	cancel context.CancelFunc
	socket zmq4.Socket
	in     chan zmq4.Msg
	broken chan error
}

func (a *asker) close() {
	if a.socket != nil {
		a.cancel()
		dispose(a.socket)
		a.socket = nil
	}
}

func (a *asker) open(ctx context.Context) error {
	if a.socket != nil {
		return nil
	}
	running, cancel := context.WithCancel(ctx)
	s := zmq4.NewDealer(running, zmq4.WithDialerTimeout(patience), zmq4.WithDialerMaxRetries(0), zmq4.WithTimeout(patience), zmq4.WithLogger(quiet()))
	if err := s.Dial(a.addr); err != nil {
		cancel()
		_ = s.Close()
		return err
	}
	a.socket, a.cancel = s, cancel
	a.in, a.broken = make(chan zmq4.Msg, queue), make(chan error, 1)
	in, broken := a.in, a.broken
	go func() { broken <- receive(running, s, in) }()
	return nil
}

// ask passes each message of the answer to take, which reports whether to continue.
func (a *asker) ask(ctx context.Context, from uint64, take func(frames [][]byte) bool) error {
	err := a.open(ctx)
	if err == nil {
		err = a.exchange(ctx, from, take)
	}
	if err != nil {
		a.close() // a late answer must not be taken for that to the next question
	}
	return err
}

func (a *asker) exchange(ctx context.Context, from uint64, take func(frames [][]byte) bool) error {
	if err := a.socket.SendMulti(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, from))); err != nil {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-a.broken:
			return err
		case <-timer.C:
			return errors.New("no answer of the replay socket")
		case m := <-a.in:
			n := len(m.Frames)
			if n >= 2 && len(m.Frames[n-2]) == 8 && binary.BigEndian.Uint64(m.Frames[n-2]) == end {
				return nil
			}
			if !take(m.Frames) {
				return errStop
			}
			timer.Reset(patience)
		}
	}
}

var errStop = errors.New("stopped")

// catchUp requests the messages from the last applied one on: they show whether messages are missing and whether the engine is
// the same.
func (s *stream) catchUp(ctx context.Context, now bool) {
	if s.redo.Swap(false) {
		s.kv.Reset(false, 0)
		if s.at.replay == "" && s.told() == kvstream.Exact {
			s.base = kvstream.Partial
			s.say(kvstream.Partial, "what was known was given up with another rank's, and cannot be asked for again", false, false)
		}
	}
	if s.at.replay == "" {
		return
	}
	if now || s.told() == kvstream.Silent || s.told() == kvstream.None || time.Since(s.beaten) >= beat/2 {
		for range 2 { // again if the engine has restarted
			again, err := s.question(ctx)
			if err != nil {
				s.unanswered(ctx, err)
				return
			}
			s.beaten = time.Now()
			if !again {
				break
			}
		}
	}
	s.flush()
}

// question requests once; again means that the engine has restarted, and that all messages must be requested.
func (s *stream) question(ctx context.Context) (again bool, err error) {
	from, began, count, anew := s.kv.From(), s.kv.Started(), 0, false
	err = s.asker.ask(ctx, from, func(frames [][]byte) bool {
		seq, ok := s.decode(frames)
		if !ok {
			return true
		}
		if count++; began && !s.kv.Same(seq, s.batch.At) {
			anew = true
			return false
		}
		switch step := s.kv.Step(seq, s.batch.At); step {
		case kvstream.Gap:
			s.missed(seq)
			s.apply(seq)
		case kvstream.Apply:
			s.apply(seq)
		case kvstream.Drop, kvstream.Restart:
		}
		return true
	})
	switch {
	case anew:
		s.restarted("its messages are other ones")
		return true, nil
	case err != nil:
		return false, err
	case count == 0 && began && s.kv.Next() > 0:
		s.restarted("it has not come as far again")
		return true, nil
	case count == 0:
		s.base = kvstream.Exact // nothing was stored yet
		s.kv.Resume(0)
	}
	return false, nil
}

// unanswered reports, after some time, that the engine does not answer.
func (s *stream) unanswered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.log.Debug("no replay", "error", err)
	s.tell()
	if time.Since(s.beaten) >= beat+patience/2 {
		s.say(kvstream.Silent, "the replay socket does not answer: "+err.Error(), false, false)
	}
}

// dispose closes a socket whose context has ended. The library's reader may block on a full queue of ten messages without end,
// so they are drained.
func dispose(s zmq4.Socket) {
	_ = s.Close()
	for range 64 {
		_, _ = s.Recv() // never waits: the context has ended
	}
}

// quiet discards the library's own log, which has nothing that is not reported here.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
