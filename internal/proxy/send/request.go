package send

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
)

// request builds the request for the endpoint: the bytes received, with the necessary edits.
func (a *Outgoing) request() *http.Request {
	c := a.c
	header := make(http.Header, len(c.R.Header)+5)
	copyEndToEnd(header, c.R.Header, a.trusts())
	c.From.Tell(header, c.R)
	if a.s.cfg.Tenants.Salts(c.Request.Tenant) {
		delete(header, saltHeader)
	}
	if !a.s.cfg.Resumes {
		delete(header, resumable)
	}
	header["X-Request-Id"] = []string{cmp.Or(c.EngineID, c.ID)}
	if !a.carried() {
		header["Via"] = a.s.cfg.Via.After(header["Via"])
	}
	a.s.cfg.Token.Strip(header)
	a.Keyed = a.s.cfg.Tenants.Authorise(header, a.d.Endpoint.APIKey, c.OurKey)
	a.span.Inject(header)
	a.labelBlocks(header)
	a.uncompressed(header)
	edits := a.dynamo(a.leg(header, a.apart(a.salt(a.ask(a.attended(a.capPriority(header, nil)))))))
	edits = c.set(edits, a.Address(header))
	edits = a.tellAdapter(a.tellSession(a.tellConversation(a.tellFirstTurn(edits))))

	out := new(http.Request).WithContext(a.ctx)
	out.Method, out.URL, out.Header, out.ContentLength = c.R.Method, a.URL(), header, c.R.ContentLength
	out.Proto, out.ProtoMajor, out.ProtoMinor = "HTTP/1.1", 1, 1
	out.Host = out.URL.Host
	if c.Upload != nil {
		out.Body = c.Upload
		return out
	}
	body := a.body(edits)
	a.tellPlaced(body)
	a.lend(out, body)
	return out
}

// uncompressed asks for an answer that is not compressed, which every client accepts (RFC 9110, section 12.5.3), where
// the router reads it: usage, ids, errors and end marks stand in it, and other answers are put into it.
func (a *Outgoing) uncompressed(h http.Header) {
	c := a.c
	reads := c.API != prompt.Other || c.Keeps || c.Opened.Load() || a.Message != nil
	if reads && len(h["Accept-Encoding"]) > 0 && !(a.carried() && c.Transport.AnswerUnseen()) {
		h["Accept-Encoding"] = []string{"identity"}
	}
}

// Address sets the header that selects the endpoint's rank, and returns the member of the body that does so.
func (a *Outgoing) Address(h http.Header) []handover.Member {
	if a.d.Endpoint.Part.Kind == fleet.WholeEngine {
		return nil
	}
	dialect, err := engine.ByKind(a.d.Kind)
	if err != nil {
		return nil
	}
	how := dialect.Address(a.rank())
	if how.Header != "" {
		h.Set(how.Header, how.Value)
	}
	if how.Field == "" || a.c.API == prompt.Other || a.c.Body == nil {
		return nil
	}
	return []handover.Member{{Name: how.Field, JSON: how.JSON}}
}

// URL is the endpoint's URL for the request.
func (a *Outgoing) URL() *url.URL {
	scheme, rest, _ := strings.Cut(a.d.Endpoint.URL, "://")
	host, base, slash := strings.Cut(rest, "/")
	in := a.c.R.URL
	u := &url.URL{
		Scheme: scheme, Host: host, Path: in.Path, RawPath: in.RawPath, RawQuery: visible(a.query()),
		ForceQuery: in.ForceQuery,
	}
	if a.Message != nil && a.Message.Path != "" { // the protocol asks another of the engine's paths
		u.Path, u.RawPath = a.Message.Path, ""
		in = u
	}
	if slash && base != "" {
		u.Path = "/" + base + in.Path
		if in.RawPath != "" {
			u.RawPath = "/" + base + in.RawPath
		}
	}
	return u
}

// query is the query, with the model that an alias stands for. If the body names a model, that one counts, and the
// query is left as it is.
func (a *Outgoing) query() string {
	raw := a.c.R.URL.RawQuery
	if a.c.Prompt.Model != "" || a.c.inForm.name != "" {
		return raw
	}
	if edits := a.c.inQuery.edits(a.d.Model); edits != nil {
		return string(prompt.Splice(nil, []byte(raw), edits...))
	}
	return raw
}

// visible escapes bytes that a request line may not contain: some clients send UTF-8 in a query unescaped.
func visible(query string) string {
	ok := true
	for i := range len(query) {
		ok = ok && query[i] > ' ' && query[i] < 0x7f
	}
	if ok {
		return query
	}
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c > ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// saltHeader is where vLLM is to read a salt, before the body's (pull request 57609).
const saltHeader = "X-Cache-Salt"

// salt adds the edit that keeps the tenants' caches in the engine apart.
func (a *Outgoing) salt(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	path := c.R.URL.Path
	if e, ok := a.s.cfg.Tenants.Salt(c.Request.Tenant, a.d.Kind, c.API, path, &c.Prompt, c.Text()); ok {
		return append(edits, e)
	}
	a.NoSalt()
	return edits
}

// NoSalt notes that the request is sent without a salt.
func (a *Outgoing) NoSalt() {
	if a.c.Computes && a.s.cfg.Tenants.Salts(a.c.Request.Tenant) {
		a.unsalted = true
		a.noteUnsalted()
	}
}

// Misnamed reports whether the endpoint is declared with the model, which its engine has just said that it does not
// have, and logs that once for each endpoint.
func (a *Outgoing) Misnamed() bool {
	if !slices.Contains(a.d.Endpoint.Models, a.d.Model) {
		return false
	}
	fresh := false
	a.s.asks.note(a.d.Endpoint.Name, func(n *askNote) { fresh, n.misnamed = !n.misnamed, true })
	if fresh {
		a.s.log.Warn("an engine does not have a model that its endpoint is declared with: each such request is sent "+
			"there in vain", "endpoint", a.d.Endpoint.Name, "model", a.d.Model, "do", "models at the endpoint")
	}
	return true
}

// Unsalted reports whether the request should have had a salt, and has none.
func (a *Outgoing) Unsalted() bool { return a.unsalted }

// noteUnsalted logs, once for each endpoint, that tenants share a cache though cache_salt is on.
func (a *Outgoing) noteUnsalted() {
	fresh := false
	a.s.asks.note(a.d.Endpoint.Name, func(n *askNote) { fresh, n.unsalted = !n.unsalted, true })
	if fresh {
		a.s.log.Warn("tenants.cache_salt has no effect at an endpoint: its kind of engine has no field for a salt in "+
			"this API, or is not known yet. Tenants can find out by timing what others sent there; "+
			"tenants.salt_required refuses such requests",
			"endpoint", a.d.Endpoint.Name, "kind", string(a.d.Kind), "api", a.c.API.String())
	}
}
