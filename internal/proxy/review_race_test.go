package proxy

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestReviewLimitOfAnEarlierAttempt: a limit that ran out just as its attempt ended by itself stopped the next attempt, since
// check read the deadline of one and the cancel function of the other. It is a race: it may pass before the fix.
func TestReviewLimitOfAnEarlierAttempt(t *testing.T) {
	c := &call{p: &Proxy{cfg: Config{}.WithDefaults()}, w: httptest.NewRecorder()}
	stop := make(chan struct{})
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				c.check(time.Now(), nil)
			}
		}
	})
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		_, first := context.WithCancelCause(t.Context())
		c.cancel.Store(&first)
		c.wait(0) // runs out at once, while the attempt fails by itself
		c.deadline.Store(0)
		ctx, second := context.WithCancelCause(t.Context())
		c.cancel.Store(&second)
		c.wait(time.Hour)
		for range 100 {
			if ctx.Err() != nil {
				t.Errorf("the second attempt was ended by the first one's limit: %v", context.Cause(ctx))
				break
			}
		}
		first(nil)
		second(nil)
	}
	close(stop)
	sweeper.Wait()
}
