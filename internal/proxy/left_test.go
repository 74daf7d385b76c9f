package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/warmpath/warmpath/internal/proxy/patience"
	"github.com/warmpath/warmpath/internal/proxy/send"
)

// What nobody can watch ends with the context that net/http gives: HTTP/2, TLS, requests without a body.
func TestLeashOfAnUnwatchedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		c := &call{Incoming: send.Incoming{R: httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)}}
		c.tether()
		w := patience.NewWatch(c.ctx, "", "", false)
		c.watch.Store(w)
		leave()
		synctest.Wait()
		if c.ctx.Err() == nil || w.Err() == nil || c.untether() {
			t.Error("goes on after its client left")
		}
		c = &call{Incoming: send.Incoming{R: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}}
		if c.tether(); !c.untether() || c.ctx.Err() == nil {
			t.Error("was not let go of")
		}
	})
}
