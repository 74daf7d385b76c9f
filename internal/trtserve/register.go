package trtserve

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/guard"
)

// Registration says who may use the storage at which workers register, and which addresses they may register. What it does not allow is
// refused: a worker is sent prompts and keys.
type Registration struct {
	Own   bool           // the storage has a listener of its own, so that who reaches it may use it
	Token string         // bearer token that callers need; "" for none
	Allow guard.Networks // networks of the callers; without Own Token or Allow is required, or all callers are rejected
	Hosts guard.Hosts    // hosts that may be registered beside the address that the call comes from
}

// refused is why a caller may not use the storage; "" when it may.
func (g *Registration) refused(r *http.Request, from netip.Addr) string {
	switch {
	case g.Token != "" && !guard.Bearer(r, g.Token):
		return "it does not carry trtllm.cluster.token"
	case len(g.Allow) > 0 && !g.Allow.Contain(from):
		return "its address is not in trtllm.cluster.allow"
	case !g.Own && g.Token == "" && len(g.Allow) == 0:
		return "set trtllm.cluster.allow to the workers' networks, or give trtllm.cluster.listen or trtllm.cluster.token"
	}
	return ""
}

// covers reports whether a caller at an address may register a worker at a host: at its own address, at names of this machine when it is on
// it, and where the configuration says so.
func (g *Registration) covers(host string, from netip.Addr) bool {
	if from.IsLoopback() && guard.IsLoopback(host) {
		return true
	}
	if at, err := netip.ParseAddr(host); err == nil && from.IsValid() && at.Unmap() == from {
		return true
	}
	return g.Hosts.Contain(host)
}

// gate lets those callers through to the storage that may use it.
type gate struct {
	s    *Server
	next http.Handler
	told atomic.Int64 // when a refusal was last logged, in seconds
}

// tellAgain is how often, in seconds, a refusal is logged at most: refused workers call every few seconds, and others as often as they like.
const tellAgain = 10

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if why := g.s.cfg.Registration.refused(r, g.s.cfg.Source(r)); why != "" {
		g.refuse(w, r, why)
		return
	}
	g.next.ServeHTTP(w, r)
}

// refuse answers as newer orchestrators answer a call without their key.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, why string) {
	now := time.Now().Unix()
	if last := g.told.Load(); now-last >= tellAgain && g.told.CompareAndSwap(last, now) {
		g.s.log.Warn("a call to the storage of workers was refused", "from", r.RemoteAddr, "path", r.URL.Path, "why", why)
	}
	writeJSON(w, http.StatusForbidden, map[string]any{"result": false, "detail": why})
}

// misplaced is why a value may not be stored under a key of the cluster's workers; "" when it may. Values that are no worker's are nobody's
// address.
func (s *Server) misplaced(r *http.Request, key, value string) string {
	var v worker
	if !strings.HasPrefix(key, s.prefix()) || json.Unmarshal([]byte(value), &v) != nil || s.cfg.Registration.covers(v.Host, s.cfg.Source(r)) {
		return ""
	}
	return "the worker's host is neither the address that registers it nor in trtllm.cluster.allow_hosts"
}

// Registry serves the storage alone, for a listener of its own.
func (s *Server) Registry() http.Handler { return s.registry }
