package admin

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/unixsocket"
)

// CheckListen refuses an admin address that other machines can reach when no token protects it. addr is host:port, or a
// Unix socket, which the rights of its file protect.
func CheckListen(addr, token string) error {
	if unixsocket.Is(addr) {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("admin: listen address %q is not host:port: %w", addr, err)
	}
	if token != "" || guard.IsLoopback(host) {
		return nil
	}
	return fmt.Errorf("admin: listening on %q, which is not a loopback address, needs a token: "+
		"anyone who reaches it could add and remove endpoints", addr)
}

// refuse says why a request may not go on, nil when it may.
//
// The holder of the token may do everything; browsers do not add a bearer token by themselves, so no foreign page can
// use one. Without, the listener is on loopback (CheckListen) and the danger is the operator's own browser: a foreign
// page that posts here is caught by its Origin, and one whose name was rebound to 127.0.0.1 by its Host. Scrapers may
// come through a proxy by the name of a pod or a service, to which no page of a foreign site can be rebound.
func (a *Admin) refuse(r *http.Request) *failure {
	if (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") && safe(r.Method) {
		return nil
	}
	switch a.token(r) {
	case adminToken:
		return nil
	case readToken:
		if !safe(r.Method) || strings.HasPrefix(r.URL.Path, "/debug/") {
			return fail(http.StatusForbidden, "read_only",
				"this token may read only, and make no profiles: the call needs the other one (admin.token)")
		}
		return nil
	case wrongToken:
		return fail(http.StatusUnauthorized, "bad_token",
			"the admin listener wants \"Authorization: Bearer\" with its token")
	}
	scrape := r.URL.Path == "/metrics" && safe(r.Method)
	if host := guard.Hostname(r.Host); !guard.IsLoopback(host) &&
		!(scrape && (guard.IsInner(host) || a.c.Hosts.Contain(host))) {
		return fail(http.StatusForbidden, "foreign_host",
			"without a token the admin listener answers under loopback names only, not %q; "+"/metrics also under "+
				"addresses, names without a dot, those of a cluster, and those in the setting hosts", r.Host)
	}
	if foreign(r) {
		return fail(http.StatusForbidden, "foreign_origin", "a page of another origin may not do this")
	}
	return nil
}

// foreign reports whether a page of another origin makes the call, in a browser that is here. Reading is one, too: a
// profile takes seconds of a processor, and a stream a connection. To follow a link to a page of ours is none.
func foreign(r *http.Request) bool {
	if safe(r.Method) {
		if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
			!strings.HasPrefix(r.URL.Path, "/debug/") {
			return false
		}
		asked := *r
		asked.Method = http.MethodPost // the check lets pass what changes nothing
		r = &asked
	}
	return http.NewCrossOriginProtection().Check(r) != nil
}

// What a call has for a token.
const (
	noToken    = "none" // none is asked for
	adminToken = "admin"
	readToken  = "read"
	wrongToken = "wrong"
)

// token is a word for the token that a call has.
func (a *Admin) token(r *http.Request) string {
	switch {
	case a.c.Token == "":
		return noToken
	case guard.Bearer(r, a.c.Token):
		return adminToken
	case a.c.ReadToken != "" && guard.Bearer(r, a.c.ReadToken):
		return readToken
	}
	return wrongToken
}

func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }
