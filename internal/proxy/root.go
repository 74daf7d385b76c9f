package proxy

import (
	"html"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/client"
)

// asksRoot reports whether a request asks what is at the listener's root: people do, and load balancers. Where all
// engines are Ollama, whose clients wait for its own words there, and where the setting paths names the root, the
// engine answers.
func (c *call) asksRoot() bool {
	r := c.R
	if r.URL.Path != "/" || r.Method != http.MethodGet && r.Method != http.MethodHead || isUpgrade(r) ||
		c.p.cfg.Paths.Has(http.MethodGet, "/") {
		return false
	}
	any := false
	for _, s := range c.p.fleet.Status() {
		if s.Gone {
			continue
		}
		if s.Kind != fleet.KindOllama {
			return true
		}
		any = true
	}
	return !any
}

// answerRoot says what listens here, as a page to those that read HTML. It needs no key, and says where the status page
// is to operators only.
func (c *call) answerRoot() {
	p := c.p
	status, link := "at the admin listener (--admin)", ""
	if p.cfg.StatusPage != "" && p.insider(c.R) {
		at := p.cfg.StatusPage
		status, link = "at "+at, `at <a href="`+html.EscapeString(at)+`">`+html.EscapeString(at)+`</a>`
	}
	c.client.Header().Set("Vary", "Accept")
	if !strings.Contains(c.R.Header.Get("Accept"), "text/html") {
		c.answerJSON(map[string]string{
			"service": "warmpath", "message": "this is warmpath, a router in front of LLM engines: " +
				"POST /v1/chat/completions here; GET /v1/models lists the models; the status page is " + status,
		})
		return
	}
	if link == "" {
		link = html.EscapeString(status)
	}
	page := `<!doctype html><html lang="en"><meta charset="utf-8"><title>warmpath</title><h1>warmpath</h1>
<p>This is warmpath, a router in front of LLM engines. Clients POST to <code>/v1/chat/completions</code> here; ` +
		`<a href="/v1/models">/v1/models</a> lists the models.</p>
<p>The status page is ` + link + `.</p></html>
`
	c.client.Header().Set("Content-Security-Policy", "default-src 'none'")
	client.PassOver(c.client.Writer(), c.R, p.cfg.ReadBody)
	c.answerOwn(http.StatusOK, "text/html; charset=utf-8", []byte(page))
}
