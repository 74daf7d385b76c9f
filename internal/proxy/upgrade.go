package proxy

import (
	"context"
	"net/http"
	"net/http/httputil"

	"github.com/warmpath/warmpath/route"
)

// upgrade passes a protocol upgrade (WebSocket) to a chosen endpoint and then both directions of bytes, for as long as both
// ends stay. Nothing is retried: what was said cannot be said again.
func (c *call) upgrade() {
	c.req.Class = route.Aside
	c.req.Model = c.r.URL.Query().Get("model")
	c.req.HashKey = c.served.ID
	d, err := c.route()
	if err != nil {
		c.refuse(err)
		return
	}
	fin := route.Finished{Lease: d.Lease, Outcome: route.Abandoned}
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.cancel.Store(&cancel)
	defer func() {
		cancel(nil)
		c.served.Outcome = fin.Outcome
		c.p.fleet.Observe(fin)
	}()
	a := &attempt{c: c, d: &d, ctx: c.ctx}
	target := a.url()
	proxy := httputil.ReverseProxy{
		Transport: c.p.transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, r.Out.Host = target, target.Host
			r.Out.Header.Set("X-Request-Id", c.served.ID)
			if key := d.Endpoint.APIKey; key != "" && r.Out.Header.Get("Authorization") == "" {
				r.Out.Header.Set("Authorization", "Bearer "+key)
			}
		},
		ModifyResponse: func(res *http.Response) error {
			c.served.Status = res.StatusCode
			fin.Outcome = route.OK
			if res.StatusCode >= 400 {
				fin.Outcome = route.ClientError
			}
			if res.StatusCode >= 500 {
				fin.Outcome = route.EngineError
			}
			c.sent.Store(true)
			res.Header.Del("X-Request-Id")
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			fin.Outcome = route.EngineError
			if isDial(err) {
				fin.Outcome = route.ConnectFailed
				c.p.unreached(d.Endpoint.Name)
			}
			if c.ctx.Err() != nil {
				fin.Outcome = route.ClientGone
			}
			if !c.sent.Load() {
				c.refuse(errUnreachable)
			}
		},
	}
	proxy.ServeHTTP(c.w, c.r.WithContext(ctx))
}
