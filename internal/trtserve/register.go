package trtserve

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/instant"
)

// Registration says who may use the storage at which workers register, and which addresses they may register. All else
// is refused, since workers are sent prompts and API keys.
type Registration struct {
	Own   bool           // the storage has its own listener: every caller that reaches it may use it
	Token string         // bearer token that callers need; "" for none
	Allow guard.Networks // networks of the callers; without Own Token or Allow is required, or all callers are rejected
	Hosts guard.Hosts    // hosts that may be registered besides the caller's own address
}

// refused returns why a caller may not use the storage, "" if it may.
func (g *Registration) refused(r *http.Request, from netip.Addr) string {
	switch {
	case g.Token != "" && !guard.Bearer(r, g.Token):
		return "it does not carry trtllm.cluster.token"
	case len(g.Allow) > 0 && !g.Allow.Contain(from):
		return "its address is not in trtllm.cluster.allow"
	case !g.Own && g.Token == "" && len(g.Allow) == 0:
		return "set trtllm.cluster.allow to the workers' networks, or give trtllm.cluster.listen or " +
			"trtllm.cluster.token"
	}
	return ""
}

// covers reports whether a caller may register a worker at a host: its own address, a loopback name if the caller is on
// this machine, or a host that the configuration allows.
func (g *Registration) covers(host string, from netip.Addr) bool {
	if from.IsLoopback() && guard.IsLoopback(host) {
		return true
	}
	if at, err := netip.ParseAddr(host); err == nil && from.IsValid() && at.Unmap() == from {
		return true
	}
	return g.Hosts.Contain(host)
}

// gate passes callers that may use the storage on to it.
type gate struct {
	s      *Server
	next   http.Handler
	logged atomic.Int64 // instant of the last refusal that was logged
}

// logEvery is the least time between two logged refusals: workers that are refused call every few seconds,
// attackers more often.
const logEvery = 10 * time.Second

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if why := g.s.cfg.Registration.refused(r, g.s.cfg.Source(r)); why != "" {
		g.refuse(w, r, why)
		return
	}
	g.next.ServeHTTP(w, r)
}

// refuse answers as newer orchestrators do without their key.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, why string) {
	now := instant.Now()
	if last := g.logged.Load(); now-last >= int64(logEvery) && g.logged.CompareAndSwap(last, now) {
		g.s.log.Warn("refused a call to the workers' storage", "from", r.RemoteAddr, "path", r.URL.Path, "why", why)
	}
	writeJSON(w, http.StatusForbidden, map[string]any{"result": false, "detail": why})
}

// misplaced returns why a value may not be stored under a key of the cluster's workers, "" if it may. Values that are
// not workers have no address to check.
func (s *Server) misplaced(r *http.Request, key, value string) string {
	var v worker
	if !strings.HasPrefix(key, s.prefix()) || json.Unmarshal([]byte(value), &v) != nil ||
		s.cfg.Registration.covers(v.Host, s.cfg.Source(r)) {
		return ""
	}
	return "the worker's host is neither the address that registers it nor in trtllm.cluster.allow_hosts"
}

// Registry returns a handler of the storage alone, for its own listener.
func (s *Server) Registry() http.Handler { return s.registry }
