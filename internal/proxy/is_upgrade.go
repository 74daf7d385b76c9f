package proxy

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/send"
)

// isUpgrade reports whether the client wants to change the protocol with the engine. An offer of HTTP/2 is for the
// router, which does not accept it: such a request is served normally (RFC 9110, section 7.8).
func isUpgrade(r *http.Request) bool {
	to := send.Named(r.Header).Get("Upgrade")
	if to == "" || strings.EqualFold(to, "h2c") || r.Method != http.MethodGet || !identity.Printable(to) {
		return false
	}
	for _, v := range r.Header.Values("Connection") {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}
