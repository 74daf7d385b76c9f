package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
)

// Tenants finds the tenant of a request. Conversations, predicted cache contents and, with a SaltKey, the engines'
// caches are kept apart by tenant.
type Tenants struct {
	Header string // header that names the tenant, trusted; "" for none
	Keys   Keys   // that name a tenant; a key takes precedence over the header
	// models that a tenant may use, by its name, and those of every other tenant
	Models     map[string]fleet.Names
	EachModels fleet.Names
	// reject requests without a known tenant; otherwise these belong to one unnamed tenant
	Required bool
	Forward  bool // forward keys that name tenants to endpoints without an API key of their own
	// secret from which cache salts are derived, the same on every replica; nil for no salts
	SaltKey  []byte
	MustSalt bool // refuse what no engine can be given a salt for
}

// MaxTenantBytes is the longest name of a tenant.
const MaxTenantBytes = 128

// Reasons for rejecting a request without a known tenant.
var (
	ErrNoTenant = errors.New(
		"the request has no API key that the router knows: send yours as \"Authorization: Bearer KEY\", " +
			"or the header that names your tenant",
	)
	ErrBadTenant = errors.New(
		"the header that names the tenant is longer than 128 bytes or contains invalid characters",
	)
)

// Caller is who sent a request.
type Caller struct {
	Tenant  string
	Key     *Key // the router's own key that named the tenant; nil for none
	Allowed Allowed
}

// Of finds the caller. now is the time by which keys end.
func (t *Tenants) Of(h http.Header, now time.Time) (c Caller, err error) {
	if t == nil {
		return c, nil
	}
	if c.Key = t.Keys.of(h); c.Key != nil {
		if !c.Key.Ends.IsZero() && !now.Before(c.Key.Ends) {
			return Caller{}, &EndedError{c.Key.Ends}
		}
		c.Key.used.Store(now.UnixNano())
		c.Tenant, c.Allowed.key = c.Key.Tenant, c.Key.Models
	} else if t.Header != "" {
		c.Tenant = h.Get(t.Header)
	}
	if !validTenant(c.Tenant) {
		return Caller{}, ErrBadTenant
	}
	if c.Tenant == "" && t.Required {
		return Caller{}, ErrNoTenant
	}
	own, ok := t.Models[c.Tenant]
	if !ok {
		own = t.EachModels
	}
	c.Allowed.tenant = own
	return c, nil
}

func validTenant(name string) bool {
	return len(name) <= MaxTenantBytes && strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// bearer is the token of an Authorization header, "" for another scheme (RFC 6750, section 2.1).
func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Authorise sets the endpoint's API key ("" for none), unless the client sent a key of the engine's. A key that names a
// tenant (ours) is for the router, and is not forwarded unless the configuration says so. It reports whether the engine
// gets the endpoint's key.
func (t *Tenants) Authorise(h http.Header, key string, ours bool) (keyed bool) {
	t.strip(h)
	if key == "" {
		return false
	}
	if ours {
		delete(h, "X-Api-Key")
	} else if h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
		return false
	}
	h["Authorization"] = []string{"Bearer " + key}
	return true
}

// strip removes the headers whose keys name tenants.
func (t *Tenants) strip(h http.Header) {
	if t == nil || len(t.Keys) == 0 || t.Forward {
		return
	}
	names := func(key string) bool {
		return key != "" && t.Keys[sha256.Sum256([]byte(key))] != nil
	}
	if slices.ContainsFunc(h["Authorization"], func(v string) bool { return names(bearer(v)) }) {
		delete(h, "Authorization")
	}
	if slices.ContainsFunc(h["X-Api-Key"], names) {
		delete(h, "X-Api-Key")
	}
	if offered(h) != "" {
		withdraw(h, names)
	}
}

// Salt is the edit that keeps the tenant's cache in the engine apart; ok is false if there is none. It includes the
// client's own salt, which then still separates caches within the tenant and reaches no other tenant's.
func (t *Tenants) Salt(
	tenant string,
	kind fleet.Kind,
	api prompt.API,
	path string,
	p *prompt.Prompt,
	body []byte,
) (e prompt.Edit, ok bool) {
	if !t.Salts(tenant) || !t.CanSalt(kind, api, path, p) {
		return e, false
	}
	field := saltField(kind, api, path)
	own := []byte(nil)
	if at := p.Field(field); at.Len() > 0 {
		own = body[at.Start:at.End]
	}
	return p.SetField(field, t.saltFor(tenant, own)), true
}

// CanSalt reports whether a kind of engine can be told in a body to keep a tenant's cache apart.
func (t *Tenants) CanSalt(kind fleet.Kind, api prompt.API, path string, p *prompt.Prompt) bool {
	return p.InsertAt > 0 && saltField(kind, api, path) != ""
}

// Salts reports whether engines are told to keep a tenant's cache apart.
func (t *Tenants) Salts(tenant string) bool { return t != nil && t.SaltKey != nil && tenant != "" }

// Salting are the kinds of engines that separate caches in an API, or at a path without one; none where no kind does.
func Salting(api prompt.API, path string) (kinds []fleet.Kind) {
	for _, k := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM} {
		if saltField(k, api, path) != "" {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// saltFor is the salt as a JSON string of 32 hexadecimal digits: vLLM accepts at most 128 characters, and not all (vLLM
// 0.32.0, generate/base/protocol.py). own is the client's JSON value; nil for none.
func (t *Tenants) saltFor(tenant string, own []byte) []byte {
	mac := hmac.New(sha256.New, t.SaltKey)
	mac.Write([]byte(tenant))
	if len(own) > 0 && string(own) != "null" {
		mac.Write([]byte{0}) // no name contains it
		mac.Write(own)
	}
	return []byte(`"` + hex.EncodeToString(mac.Sum(nil)[:16]) + `"`)
}

// saltField is the member by which a kind of engine separates caches in an API, or at a path without one; "" for none:
// cache_salt of vLLM 0.32.0, of SGLang 0.5.23 in chat, completions and responses, and of TensorRT-LLM in chat alone:
// its completions reject it as a member that they do not know (serve/openai_protocol.py, 0076e939). Older versions of
// SGLang know only extra_key in /generate.
func saltField(kind fleet.Kind, api prompt.API, path string) string {
	openAI := api == prompt.Chat || api == prompt.Completions
	switch {
	case kind == fleet.KindVLLM && (openAI || api == prompt.Responses || api == prompt.Messages ||
		api == prompt.Embeddings || api == prompt.Other && vllmSalts(path)),
		kind == fleet.KindSGLang && (openAI || api == prompt.Responses),
		kind == fleet.KindTRTLLM && api == prompt.Chat:
		return "cache_salt"
	case kind == fleet.KindSGLang && api == prompt.Generate:
		return "extra_key"
	}
	return ""
}

// vllmSalts lists the other paths at which vLLM takes a salt: where its requests are a PoolingBasicRequestMixin
// (entrypoints/pooling/base/protocol.py), whose older versions pass over it, and those of generate, decisions and
// batches of chats.
func vllmSalts(path string) bool {
	switch path {
	case "/pooling", "/classify", "/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank",
		"/generative_scoring", "/v1/decisions", "/v1/systemone", "/v1/chat/completions/batch", "/inference/v1/generate":
		return true
	}
	return false
}
