package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/warmpath/warmpath/internal/proxy/send"
)

const (
	allowOrigin = "Access-Control-Allow-Origin"
	mostOrigins = 1024 // that are remembered
)

// origins remembers which web pages engines let read their answers, so that a page can read the lists and errors that
// the router answers in their place. "*" stands for any page.
type origins struct {
	mu      sync.Mutex
	allowed map[string]struct{}
}

// learn reads an engine's answer to a page.
func (o *origins) learn(origin string, answer http.Header) {
	if origin == "" {
		return
	}
	allows := answer.Get(allowOrigin)
	if allows == "" && answer.Get("Vary") == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case allows == "":
		delete(o.allowed, origin)
	case allows == "*" || allows == origin:
		if o.allowed == nil || len(o.allowed) >= mostOrigins {
			o.allowed = map[string]struct{}{}
		}
		o.allowed[allows] = struct{}{}
	}
}

// tell lets the page read an answer of the router's own.
func (o *origins) tell(origin string, h http.Header) {
	if origin == "" {
		return
	}
	o.mu.Lock()
	_, one := o.allowed[origin]
	_, any := o.allowed["*"]
	o.mu.Unlock()
	switch {
	case one:
		h.Set(allowOrigin, origin)
		h.Add("Vary", "Origin")
	case any:
		h.Set(allowOrigin, "*")
	}
}

// readerOf is the origin of the page that may read the answer to a request, if only some may; "" for none.
func readerOf(r *http.Request, only []string) string {
	origin := send.Named(r.Header).Get("Origin")
	if len(only) > 0 && !slices.Contains(only, origin) {
		return ""
	}
	return origin
}

// stripCORS removes from an engine's answer what lets pages read it, unless the reader may, if only some may.
func stripCORS(answer http.Header, reader string, only []string) {
	if len(only) == 0 {
		return
	}
	if answer.Add("Vary", "Origin"); reader != "" {
		return
	}
	for name := range answer {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(answer, name)
		}
	}
}

// preflight reports whether a browser asks whether a page may send a request (Fetch standard, CORS-preflight request).
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != ""
}

// bare is a preflight without what no browser sends with it: a body, a model or another wish. It has no key, so that it
// may ask an engine what a page may do, and nothing else.
func bare(r *http.Request) *http.Request {
	out := r.WithContext(r.Context())
	out.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath}
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
	out.Header = http.Header{}
	for name, values := range r.Header {
		switch name {
		case "Origin", "Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Forwarded", "Via", "X-Real-Ip":
		default:
			if !strings.HasPrefix(name, "Access-Control-Request-") && !strings.HasPrefix(name, "Sec-Fetch-") &&
				!strings.HasPrefix(name, "X-Forwarded-") {
				continue
			}
		}
		out.Header[name] = values
	}
	return out
}

const (
	longestName = 253 // of a host in DNS
	mostNames   = 64  // that are logged, so that nobody fills the log
)

// names remembers which names have been logged.
type names struct {
	mu     sync.Mutex
	logged map[string]struct{}
}

// first reports whether a name is to be logged.
func (n *names) first(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.logged[name]; known || len(n.logged) >= mostNames {
		return false
	}
	if n.logged == nil {
		n.logged = map[string]struct{}{}
	}
	n.logged[name] = struct{}{}
	return true
}
