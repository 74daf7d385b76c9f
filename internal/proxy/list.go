package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/proxy/client"
	"github.com/warmpath/warmpath/internal/proxy/paths"
)

// methods answers a client that asks for the methods of a path, no browser's preflight, which is for the engine (RFC
// 9110, section 9.3.7). It reports false for any other request, and where the setting paths leaves OPTIONS to the
// engine.
func (p *Proxy) methods(c *call) bool {
	path := c.R.URL.Path
	if c.R.Method != http.MethodOptions || preflight(c.R) || p.cfg.Paths.Has(http.MethodOptions, path) {
		return false
	}
	client.PassOver(c.client.Writer(), c.R, p.cfg.ReadBody)
	h := c.client.Header()
	p.origins.tell(readerOf(c.R, c.p.cfg.Origins), h)
	h.Set("Allow", strings.Join(paths.Methods(path, p.cfg.Paths), ", "))
	c.served.Status = http.StatusNoContent
	c.sent.Store(true)
	c.client.WriteHeader(http.StatusNoContent)
	return true
}

// list answers requests for lists of models; it reports false for any other path.
func (p *Proxy) list(c *call) bool {
	if c.R.Method != http.MethodGet && c.R.Method != http.MethodHead {
		return false
	}
	ctx, done := c.patient()
	defer done()
	list, ok, err := p.catalog.Answer(ctx, c.R.URL.Path, c.p.via.After(c.R.Header["Via"]), c.engineKey(), c.mayUse())
	switch {
	case err != nil:
		c.refuse(err)
	case ok:
		c.answerJSON(list)
	}
	return ok
}

func (c *call) answerJSON(v any) {
	body, err := json.Marshal(v)
	if err != nil {
		c.refuse(err)
		return
	}
	c.p.origins.tell(readerOf(c.R, c.p.cfg.Origins), c.client.Header())
	client.PassOver(c.client.Writer(), c.R, c.p.cfg.ReadBody)
	c.answerOwn(http.StatusOK, "application/json", body)
}

// answerOwn sends a whole answer of the router's own, beside what its header already has.
func (c *call) answerOwn(status int, media string, body []byte) {
	h := c.client.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.served.Status = status
	c.sent.Store(true)
	c.client.WriteHeader(status)
	_, _ = c.client.Send(body, false)
	c.served.BytesOut += int64(len(body))
}

// engineKey has the client's keys, if they are for engines; nil if its key names its tenant.
func (c *call) engineKey() http.Header {
	if c.OurKey {
		return nil
	}
	return c.R.Header
}
