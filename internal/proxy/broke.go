package proxy

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// broke is what is known of engines that broke off under a request before they answered. A request may end each engine
// that gets it, and engines take minutes to start. After the second one that is probable, and the request's client is
// told so; after mostBroken it is sent to no other one. Not sooner: where engines are killed one after another, a
// request may have been at two of them.
type broke struct {
	first  string // address of the first one; "" for none
	ended  bool   // that one has said that it ended
	n      int
	lethal bool // engines end under the request
}

// mostBroken is how many engines may end under a request.
const mostBroken = 3

// lookAgain bounds the wait for the port of an engine that broke off.
const lookAgain = 300 * time.Millisecond

// breaks notes that the engine broke off under the request, or says itself that it has ended, and reports whether
// engines end under the request.
func (a *attempt) breaks(says bool) (lethal bool) {
	c := a.c
	b := &c.broke
	if a.d.Leg != fleet.LegUnsplit || c.sent.Load() {
		return false
	}
	if b.n++; b.n == 1 {
		b.first, b.ended = a.d.Endpoint.URL, says
		return false
	}
	b.lethal = b.ended || c.p.refuses(c.ctx, b.first)
	return b.lethal
}

// most reports whether the request has ended as many engines as it may.
func (b *broke) most() bool { return b.lethal && b.n >= mostBroken }

// refuses reports whether the port of an engine refuses connections now.
func (p *Proxy) refuses(ctx context.Context, url string) bool {
	ctx, stop := context.WithTimeout(ctx, lookAgain)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return false
	}
	res, err := p.transport.RoundTrip(r)
	if err == nil {
		_ = res.Body.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
