package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
)

// Tenants keeps those who share the router apart. Without header and api_keys there is one tenant.
type Tenants struct {
	// Header names the tenant, at most 128 bytes. It is believed: let a gateway in front set it, and nobody else.
	Header string `yaml:"header"`
	// APIKeys are the API keys (Authorization: Bearer, or X-Api-Key) that name a tenant; one of them counts before the header. Engines
	// do not see it: the endpoint's api_key takes its place, if that has one.
	APIKeys []TenantKey `yaml:"api_keys"`
	// ForwardKeys passes the API keys that name tenants on to endpoints that have no api_key, for engines that check them themselves.
	ForwardKeys bool `yaml:"forward_keys"`
	// Required answers requests that name no known tenant with 401. Without it they are all one tenant.
	Required bool `yaml:"required"`
	// CacheSalt puts a salt derived from the tenant into requests, so that engines keep the tenants' caches apart too: cache_salt of vLLM,
	// SGLang and TensorRT-LLM, extra_key in SGLang's /generate. A client's own salt goes into it. Other engines have none.
	CacheSalt bool `yaml:"cache_salt"`
	// SaltKey is the secret the salts are derived from, at least 16 bytes and the same on every replica. It, or salt_key_file, is needed for
	// cache_salt.
	SaltKey string `yaml:"salt_key" secret:"true"`
	// SaltKeyFile holds the secret instead; white space around it is cut.
	SaltKeyFile string `yaml:"salt_key_file"`
}

// TenantKey is one API key and whose it is.
type TenantKey struct {
	// Tenant is the name.
	Tenant string `yaml:"tenant"`
	// Key is the API key itself.
	Key string `yaml:"key" secret:"true"`
	// SHA256 is the key's SHA-256 in hexadecimal digits instead, so that the file holds no secret.
	SHA256 string `yaml:"sha256"`
}

// leastSaltKey is the length below which a secret can be guessed.
const leastSaltKey = 16

// sum is the SHA-256 of the key; false when it is not given rightly.
func (k TenantKey) sum() (sum [sha256.Size]byte, ok bool) {
	if k.SHA256 == "" {
		return sha256.Sum256([]byte(k.Key)), k.Key != ""
	}
	b, err := hex.DecodeString(k.SHA256)
	return [sha256.Size]byte(append(b, sum[:]...)), err == nil && len(b) == sha256.Size && k.Key == ""
}

// Sums maps the SHA-256 of each API key to its tenant.
func (t Tenants) Sums() map[[sha256.Size]byte]string {
	out := map[[sha256.Size]byte]string{}
	for _, k := range t.APIKeys {
		if sum, ok := k.sum(); ok {
			out[sum] = k.Tenant
		}
	}
	return out
}

// Salt is the secret that salts are derived from, read from its file when it is kept there; nil when there are to be none.
func (t Tenants) Salt() ([]byte, error) {
	if !t.CacheSalt {
		return nil, nil
	}
	key := t.SaltKey
	if t.SaltKeyFile != "" {
		b, err := os.ReadFile(t.SaltKeyFile)
		if err != nil {
			return nil, fault("tenants.salt_key_file", "%w", err)
		}
		if key = strings.TrimSpace(string(b)); len(key) < leastSaltKey {
			return nil, fault("tenants.salt_key_file", "%s holds %d bytes, must be %d or more", t.SaltKeyFile, len(key), leastSaltKey)
		}
	}
	return []byte(key), nil
}

func (c Config) checkTenants() []error {
	var faults []error
	t := c.Tenants
	if !headerName(t.Header) {
		faults = append(faults, fault("tenants.header", "%q is not a header name", t.Header))
	}
	whose := map[[sha256.Size]byte]string{}
	for i, k := range t.APIKeys {
		at := "tenants.api_keys[" + strconv.Itoa(i) + "]"
		if k.Tenant == "" || len(k.Tenant) > 128 || strings.ContainsFunc(k.Tenant, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			faults = append(faults, fault(at+".tenant", "must be 1 to 128 bytes, without control characters"))
		}
		sum, ok := k.sum()
		if !ok {
			faults = append(faults, fault(at, "needs either key or sha256 (64 hexadecimal digits)"))
			continue
		}
		if other, twice := whose[sum]; twice && other != k.Tenant {
			faults = append(faults, fault(at, "the key of %q is given to %q too", other, k.Tenant))
		}
		whose[sum] = k.Tenant
	}
	named := t.Header != "" || len(t.APIKeys) > 0
	if t.Required && !named {
		faults = append(faults, fault("tenants.required", "needs header or api_keys: nothing else names a tenant"))
	}
	switch {
	case t.SaltKey != "" && t.SaltKeyFile != "":
		faults = append(faults, fault("tenants.salt_key", "give salt_key or salt_key_file, not both"))
	case !t.CacheSalt:
	case !named:
		faults = append(faults, fault("tenants.cache_salt", "needs header or api_keys: nothing else names a tenant"))
	case t.SaltKey == "" && t.SaltKeyFile == "":
		faults = append(faults, fault("tenants.cache_salt", "needs salt_key or salt_key_file, the same on every replica"))
	case t.SaltKey != "" && len(t.SaltKey) < leastSaltKey:
		faults = append(faults, fault("tenants.salt_key", "has %d bytes, must be %d or more", len(t.SaltKey), leastSaltKey))
	}
	return faults
}
