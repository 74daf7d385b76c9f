package proxy

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/proxy/client"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/route"
)

// finals are the headers by which a client says that a request is its session's last: our own, and Dynamo's
// (ai-dynamo/dynamo, lib/llm/src/protocols/agents.rs, 2026), which bodies said before, see prompt.Prompt.Closes. llm-d
// and the vLLM routers have none: their sessions end when they are idle.
var finals = [...]string{"X-Session-Final", "X-Dynamo-Session-Final"} // immutable

// readFinal reads whether the session ends with this request. The words are those that Dynamo takes.
func (c *call) readFinal() error {
	for _, name := range finals {
		switch strings.ToLower(strings.TrimSpace(send.Named(c.R.Header).Get(name))) {
		case "true", "1", "on", "yes":
			c.final = true
		case "", "false", "0", "off", "no":
		default:
			return fault.Header(name, "must be true or false")
		}
	}
	return nil
}

// closeSession ends the session whose client has said that this request is its last, however the request has ended. One
// that the router refused before it was placed is not the last: its client sends it again.
func (c *call) closeSession(gone bool) {
	if !c.final || c.served.Attempts == 0 && !gone && !c.cut {
		return
	}
	id := cmp.Or(c.served.Decision.Session, c.Request.Session)
	if id == "" { // the client left before its body was read
		id = c.p.parser.HeaderID(send.Named(c.R.Header).Get)
	}
	if id != "" {
		c.p.endSession(c.Request.Tenant, id)
	}
}

// endSession forgets a session here, at other routers, and at engines that keep sessions. It reports whether it was
// known here.
func (p *Proxy) endSession(tenant, id string) (known bool) {
	if known = p.fleet.Close(tenant, id); known {
		for _, e := range p.fleet.Keepers() {
			p.sender.Close(p.closings, e, tenant, id)
		}
	}
	return known
}

// sessions is the collection of the path by which a client ends its session: DELETE /v1/sessions/{id}.
const sessions = "/v1/sessions/"

// deletes answers DELETE /v1/sessions/{id}, and reports false for any other request. Where the setting paths names that
// path, an engine answers.
func (p *Proxy) deletes(c *call) bool {
	id, ok := strings.CutPrefix(c.R.URL.Path, sessions)
	if !ok || id == "" || c.R.Method != http.MethodDelete || p.cfg.Paths.Has(http.MethodDelete, c.R.URL.Path) {
		return false
	}
	if err := c.openAccounts(); err != nil {
		c.refuse(err)
		return true
	}
	client.PassOver(c.client.Writer(), c.R, p.cfg.ReadBody)
	if !p.endSession(c.Request.Tenant, id) { // another tenant's is as unknown
		c.refuse(&route.UnknownIDError{ID: id})
		return true
	}
	c.answerJSON(map[string]any{"id": id, "object": "session", "deleted": true})
	return true
}
