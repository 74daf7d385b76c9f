package proxy

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/proxy/send"
)

// explainHeader asks for the decision in the answer: 1, or the admin token.
const explainHeader = "X-Warmpath-Explain"

// insider reports whether a request may learn what is inside: endpoints, their addresses, and why they fail. Operators
// may: who asks from this machine, or has the admin token. A proxy that is not trusted says by its headers that the
// client is elsewhere. A proxy on this machine that adds no header makes strangers look local: nothing but what may be
// learnt may hang on this.
func (p *Proxy) insider(r *http.Request) bool {
	if p.cfg.Details || p.isAdminToken(r.Header.Get(explainHeader)) {
		return true
	}
	from := p.cfg.Proxies.Of(r)
	if from.Peer == "" {
		for _, name := range [...]string{
			"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
		} {
			if len(r.Header[name]) > 0 {
				return false
			}
		}
	}
	client := guard.SourceOf(from.Client)
	if !client.IsValid() { // as a trusted proxy names it, without a port
		return guard.IsLoopback(from.Client)
	}
	return client.IsLoopback()
}

// asksWhy reports whether a request asks for the decision and may learn it.
func (p *Proxy) asksWhy(r *http.Request) bool {
	asks := send.Named(r.Header).Get(explainHeader)
	return asks != "" && (asks == "1" || p.isAdminToken(asks)) && p.insider(r)
}

func (p *Proxy) isAdminToken(text string) bool {
	return p.cfg.AdminToken != "" && text != "" && guard.SameSecret(text, p.cfg.AdminToken)
}
