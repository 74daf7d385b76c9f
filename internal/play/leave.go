package play

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errLeft is why a request ended whose client left.
var errLeft = errors.New("the client left")

// firstGuess is how long an answer is taken to need while none has come.
const firstGuess = 20 * time.Millisecond

// patience is how long clients wait that leave. It goes by what answers took lately, so that clients of a slow address
// leave before the first token as often as those of a fast one.
type patience struct {
	token atomic.Int64 // ns until the latest first token
	whole atomic.Int64 // ns until the latest answer that was not streamed
}

func newPatience() *patience {
	p := new(patience)
	p.token.Store(int64(firstGuess))
	p.whole.Store(int64(firstGuess))
	return p
}

func (p *patience) learn(t *Turn) {
	switch {
	case t.Left || t.Err != nil:
	case t.Whole:
		p.whole.Store(int64(t.Took))
	case t.Pieces > 0:
		p.token.Store(int64(t.TTFT))
	}
}

// lasts returns the context of a request whose client leaves at a time from 0 to 1 (trace.Conversation.Leaves). One
// that leaves after the first token waits for it; of an answer that is not streamed nobody sees a first token.
func (p *patience) lasts(ctx context.Context, stream bool, at float64) (context.Context, context.CancelFunc) {
	switch {
	case !stream:
		return context.WithTimeoutCause(ctx, time.Duration(at*float64(p.whole.Load())), errLeft)
	case at < 0.5:
		return context.WithTimeoutCause(ctx, time.Duration(2*at*float64(p.token.Load())), errLeft)
	}
	return context.WithCancel(ctx)
}
