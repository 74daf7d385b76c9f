package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"time"

	"github.com/warmpath/warmpath/internal/zmtp"
	"github.com/warmpath/warmpath/kvstream"
)

// end is the number in the message that ends an answer: -1.
const end = math.MaxUint64

// asker requests messages from a number on from an engine's replay socket, a ROUTER: an empty frame, then the number in
// 8 bytes, big endian (vLLM and SGLang).
type asker struct {
	addr   string
	room   *zmtp.Room
	socket *zmtp.Conn // nil while there is none
}

func (a *asker) close() {
	if a.socket != nil {
		_ = a.socket.Close()
		a.socket = nil
	}
}

func (a *asker) open(ctx context.Context) error {
	if a.socket != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := zmtp.Dial(ctx, a.addr, socket(zmtp.Dealer, a.room))
	if err == nil {
		a.socket = s
	}
	return err
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
	socket := a.socket // a.close may forget it before the function runs
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	if err := a.socket.Send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
		return err
	}
	for {
		frames, err := a.socket.ReceiveWithin(patience)
		n := len(frames)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errors.New("no answer of the replay socket")
		case err != nil:
			return err
		case n >= 2 && len(frames[n-2]) == 8 && binary.BigEndian.Uint64(frames[n-2]) == end:
			return nil
		case !take(frames):
			return errStop
		}
	}
}

var errStop = errors.New("stopped")

// catchUp requests the messages from the last applied one on: they show whether messages are missing and whether the
// engine is the same.
func (s *stream) catchUp(ctx context.Context, now bool) {
	if s.redo.Swap(false) {
		s.kv.Reset(false, 0)
		if s.at.replay == "" && s.lastState() == kvstream.Exact {
			s.base = kvstream.Partial
			s.say(kvstream.Partial, "what was known was given up with another rank's, and cannot be asked for again",
				nothingLost)
		}
	}
	if s.at.replay == "" {
		return
	}
	last := s.lastState()
	if now || last == kvstream.Silent || last == kvstream.None || time.Since(s.beaten) >= beat/2 {
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
			s.missed(ctx, seq)
			s.apply(seq)
		case kvstream.Apply:
			s.apply(seq)
		case kvstream.Drop, kvstream.Restart:
		}
		return true
	})
	switch {
	case anew:
		s.restarted(ctx, "its messages are other ones")
		return true, nil
	case err != nil:
		return false, err
	case count == 0 && began && s.kv.Next() > 0:
		s.restarted(ctx, "it has not come as far again")
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
		s.say(kvstream.Silent, "the replay socket does not answer: "+err.Error(), nothingLost)
	}
}
