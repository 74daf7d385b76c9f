package config

import (
	"cmp"
	"reflect"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Tenants separates the tenants that share the router. Without header, api_keys and keys_file there is one tenant.
type Tenants struct {
	// Header names the tenant, at most 128 bytes. It is trusted: make sure that only a gateway in front sets it.
	Header string `yaml:"header"`
	// APIKeys are the API keys (Authorization: Bearer, or X-Api-Key) that name a tenant; they take precedence over the
	// header. Engines do not see them: the endpoint's api_key replaces them, if there is one.
	APIKeys []TenantKey `yaml:"api_keys"`
	// KeysFile has further keys, as hashes, under its single key api_keys; warmpath key --file adds one. It is read
	// again when it changes, and a version with faults is logged and ignored. At most 4 MiB and 10,000 keys.
	KeysFile string `yaml:"keys_file"`
	// ForwardKeys forwards API keys that name tenants to endpoints without an api_key, for engines that check them.
	ForwardKeys bool `yaml:"forward_keys"`
	// Required answers requests without a known tenant with 401. Otherwise these belong to one unnamed tenant.
	Required bool `yaml:"required"`
	// CacheSalt adds a salt derived from the tenant to requests, so that engines keep the tenants' caches apart:
	// cache_salt of vLLM, SGLang and TensorRT-LLM, extra_key in SGLang's /generate. It includes a client's own salt.
	// Other engines have none.
	CacheSalt bool `yaml:"cache_salt"`
	// SaltRequired refuses, with 400 cache_not_apart, what an engine would compute for a tenant without a salt: APIs
	// and kinds of engine that have none, forms, uploads and WebSockets. Of several engines those that have one are
	// chosen. Needs cache_salt. Left out, such requests are served, counted (warmpath_unsalted_requests_total) and
	// shown as a trouble.
	SaltRequired bool `yaml:"salt_required"`
	// SaltKey is the secret that salts are derived from, at least 16 bytes and the same on every replica. It, or
	// salt_key_file, is required for cache_salt.
	SaltKey string `yaml:"salt_key" secret:"true"`
	// SaltKeyFile has the secret instead; surrounding white space is removed.
	SaltKeyFile string `yaml:"salt_key_file"`
	// Each has the limits of every tenant not in limits; requests without a tenant count as one more.
	Each TenantLimits `yaml:"each"`
	// Limits are the limits of single tenants. Settings left out are those of each.
	Limits []TenantLimits `yaml:"limits"`
}

// TenantLimits bounds a tenant's requests: at all routers that know each other together, but for connections, which
// each counts alone. A number left out is no limit, or under limits that of each; -1 is no limit.
type TenantLimits struct {
	// Tenant is the name; each has none.
	Tenant string `yaml:"tenant"`
	// Connections is how many may be open at one time that carried a request of the tenant last; a request on a further
	// one gets 429, and the connection is closed. Those of trusted_proxies do not count.
	Connections int `yaml:"connections"`
	// Requests is how many may be open at one time; further ones get 429 with Retry-After.
	Requests int `yaml:"requests"`
	// Running is how many requests that generate engines may have at one time; further ones wait in the router's queue.
	// It keeps a flood of one tenant from slowing the others: set it to twice what a tenant usually needs.
	Running int `yaml:"running"`
	// Waiting is how many requests may wait in the router's queue; further ones get 429 with Retry-After.
	Waiting int `yaml:"waiting"`
	// Wait is how long a request may wait in the router's queue before it gets 503.
	Wait time.Duration `yaml:"wait"`
	// RequestsPerMinute is how many requests may begin in a minute, as a token bucket.
	RequestsPerMinute int64 `yaml:"requests_per_minute"`
	// TokensPerMinute is how many tokens of prompts and answers may be used in a minute.
	TokensPerMinute int64 `yaml:"tokens_per_minute"`
	// Share is the tenant's weight in the router's queue; others have 1 by default.
	Share float64 `yaml:"share"`
	// Priority is the highest that the tenant may ask for: low, normal or high. Left out, it is that of limits.
	Priority string `yaml:"priority"`
	// Models are the only models that the tenant may use, by the names that clients use, aliases included; * in one
	// stands for any text. Others are answered 404, as if they did not exist. Left out, it may use all.
	Models fleet.Names `yaml:"models"`
}

// named reports whether requests can name their tenant.
func (t Tenants) named() bool { return t.Header != "" || t.keys() }

// keys reports whether there are API keys that name a tenant.
func (t Tenants) keys() bool { return len(t.APIKeys) > 0 || t.KeysFile != "" }

// None reports that it limits nothing.
func (l TenantLimits) None() bool { return reflect.DeepEqual(l, TenantLimits{Tenant: l.Tenant}) }

// LimitsOf is the limits of each tenant with its own, and of the others.
func (t Tenants) LimitsOf() (of []TenantLimits, each TenantLimits) {
	each = t.Each
	for _, l := range t.Limits {
		l.Connections = cmp.Or(l.Connections, each.Connections)
		l.Requests, l.Running, l.Waiting = cmp.Or(l.Requests, each.Requests), cmp.Or(l.Running, each.Running),
			cmp.Or(l.Waiting, each.Waiting)
		l.Wait, l.Share, l.Priority = cmp.Or(l.Wait, each.Wait), cmp.Or(l.Share, each.Share),
			cmp.Or(l.Priority, each.Priority)
		l.RequestsPerMinute, l.TokensPerMinute = cmp.Or(l.RequestsPerMinute, each.RequestsPerMinute),
			cmp.Or(l.TokensPerMinute, each.TokensPerMinute)
		if l.Models == nil {
			l.Models = each.Models
		}
		of = append(of, l)
	}
	return of, each
}

// check reports what is out of range.
func (l TenantLimits) check(at string) (faults []error) {
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"connections", int64(l.Connections)},
		{"requests", int64(l.Requests)},
		{"running", int64(l.Running)},
		{"waiting", int64(l.Waiting)},
		{"requests_per_minute", l.RequestsPerMinute},
		{"tokens_per_minute", l.TokensPerMinute},
	} {
		if n.value < -1 {
			faults = append(faults, fault(at+"."+n.key, "is %d, must be -1 (no limit) or more", n.value))
		}
	}
	if l.Wait < 0 {
		faults = append(faults, fault(at+".wait", "is %v, must not be negative", l.Wait))
	}
	if l.Share != 0 && !(l.Share >= 0.001 && l.Share <= 1000) {
		faults = append(faults, fault(at+".share", "is %v, must be between 0.001 and 1000", l.Share))
	}
	return append(append(faults, checkPriority(at+".priority", l.Priority)...), checkNames(at+".models", l.Models)...)
}

func checkPriority(at, word string) []error {
	switch word {
	case "", "low", "normal", "high":
		return nil
	}
	return []error{fault(at, "is %q, must be low, normal or high", word)}
}

// checkLimits reports limits of tenants, and of all together, that are out of range.
func (c Config) checkLimits() []error {
	t := c.Tenants
	faults := append(t.Each.check("tenants.each"), checkPriority("limits.priority", c.Limits.Priority)...)
	if t.Each.Tenant != "" {
		faults = append(faults,
			fault("tenants.each.tenant", "must be left out: each is every tenant; limits are those of single ones"))
	}
	seen := map[string]bool{}
	for i, l := range t.Limits {
		at := "tenants.limits[" + strconv.Itoa(i) + "]"
		switch {
		case l.Tenant == "":
			faults = append(faults, fault(at+".tenant", "must name a tenant"))
		case seen[l.Tenant]:
			faults = append(faults, fault(at+".tenant", "%q has limits already", l.Tenant))
		}
		seen[l.Tenant] = true
		faults = append(faults, l.check(at)...)
	}
	if !t.named() && (!t.Each.None() || len(t.Limits) > 0) {
		at := "tenants.each"
		if t.Each.None() {
			at = "tenants.limits"
		}
		faults = append(faults, fault(at,
			"needs header, api_keys or keys_file, which name the tenant; the limits of all together are under limits"))
	}
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"connections", int64(c.Limits.Connections)},
		{"requests", int64(c.Limits.Requests)},
		{"waiting", int64(c.Limits.Waiting)},
		{"requests_per_minute", c.Limits.RequestsPerMinute},
		{"tokens_per_minute", c.Limits.TokensPerMinute},
		{"wait", int64(c.Limits.Wait)},
		{"client.connections", int64(c.Limits.Client.Connections)},
		{"client.requests", int64(c.Limits.Client.Requests)},
		{"client.requests_per_minute", c.Limits.Client.RequestsPerMinute},
		{"client.tokens_per_minute", c.Limits.Client.TokensPerMinute},
	} {
		if n.value < 0 {
			faults = append(faults, fault("limits."+n.key, "is negative; 0 is no limit"))
		}
	}
	return faults
}

// Salt is the secret that salts are derived from, read from its file if it is there; nil without salts.
func (t Tenants) Salt() ([]byte, error) {
	if !t.CacheSalt {
		return nil, nil
	}
	key, err := t.saltKey().read()
	return []byte(key), err
}

func (t Tenants) saltKey() secret {
	return secret{"tenants.salt_key", t.SaltKey, t.SaltKeyFile, leastSaltKey}
}

func (c Config) checkTenants() []error {
	var faults []error
	t := c.Tenants
	if !headerName(t.Header) {
		faults = append(faults, fault("tenants.header", "%q is not a header name", t.Header))
	}
	faults = append(faults, checkKeys("tenants.api_keys", t.APIKeys, false)...)
	named := t.named()
	if t.Required && !named {
		faults = append(faults, fault("tenants.required", "needs header, api_keys or keys_file, which name the tenant"))
	}
	switch {
	case t.SaltRequired && !t.CacheSalt:
		faults = append(faults, fault("tenants.salt_required", "needs cache_salt: true"))
	case t.SaltKey != "" && t.SaltKeyFile != "":
		faults = append(faults, t.saltKey().check()...)
	case !t.CacheSalt:
	case !named:
		faults = append(faults,
			fault("tenants.cache_salt", "needs header, api_keys or keys_file, which name the tenant"))
	case t.SaltKey == "" && t.SaltKeyFile == "":
		faults = append(faults,
			fault("tenants.cache_salt", "needs salt_key or salt_key_file, the same on every replica"))
	case t.SaltKey != "" && len(t.SaltKey) < leastSaltKey:
		faults = append(faults, fault("tenants.salt_key", "has %d bytes, must be %d or more",
			len(t.SaltKey), leastSaltKey))
	}
	return faults
}
