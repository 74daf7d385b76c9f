package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// TestRequestEndsWithItsContext: a request ends with the context that net/http gives, and is let go of at its end.
func TestRequestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		c := &call{Incoming: send.Incoming{R: httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)}}
		c.watchClient()
		w := timeouts.NewWatch(c.ctx, new(route.Decision), "", false, nil)
		c.watch.Store(w)
		leave()
		synctest.Wait()
		if c.ctx.Err() == nil || w.Err() == nil || c.unwatchClient() {
			t.Error("goes on after its client left")
		}
		c = &call{Incoming: send.Incoming{R: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}}
		if c.watchClient(); !c.unwatchClient() || c.ctx.Err() == nil {
			t.Error("was not let go of")
		}
	})
}

// standing is a request that tells when another one was aborted before it was forbidden to go on.
type standing struct {
	forbidden bool
	others    []*standing
	t         *testing.T
}

func (s *standing) check(time.Time, *timeouts.Unreachable, bool) {}
func (s *standing) signs(*route.StreamsAlive, time.Time)         {}
func (s *standing) skip(time.Duration)                           {}
func (s *standing) stopRetries()                                 { s.forbidden = true }

func (s *standing) abort() {
	for i, o := range s.others {
		if !o.forbidden {
			s.t.Errorf("request %d may still be sent", i)
		}
	}
}

// TestAbortForbidsBeforeItEnds: the end of a request calls up who stands in line behind it, which must not be sent any
// more.
func TestAbortForbidsBeforeItEnds(t *testing.T) {
	p := &Proxy{abort: func() {}}
	p.flights.init()
	all := []*standing{{t: t}, {t: t}, {t: t}}
	links := make([]link, len(all))
	for i, s := range all {
		s.others = all
		p.flights.add(&links[i], s)
	}
	p.Abort()
}
