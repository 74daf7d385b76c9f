package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/warmpath/warmpath/internal/proxy/client"
)

// list answers requests for lists of models; it reports false for any other path.
func (p *Proxy) list(c *call) bool {
	if c.R.Method != http.MethodGet {
		return false
	}
	ctx, done := c.patient()
	defer done()
	list, ok, err := p.catalog.Answer(ctx, c.R.URL.Path, c.engineKey())
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
	client.PassOver(c.client.Writer(), c.R, c.p.cfg.ReadBody)
	h := c.client.Header()
	c.p.origins.tell(c.R.Header.Get("Origin"), h)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.served.Status = http.StatusOK
	c.sent.Store(true)
	c.client.WriteHeader(http.StatusOK)
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
