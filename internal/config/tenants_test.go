package config_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

func TestTenants(t *testing.T) {
	sum := sha256.Sum256([]byte("sk-b"))
	text := `
identity: {ids: ["header:X-Chat", "field:chat.id"], users: []}
tenants:
  header: X-Tenant-Id
  required: true
  cache_salt: true
  salt_key: 0123456789abcdef
  api_keys:
  - {tenant: a, key: sk-a}
  - {tenant: b, sha256: ` + hex.EncodeToString(sum[:]) + `}
`
	c, err := config.Parse("f", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := c.Tenants.Keys()
	if keys[sha256.Sum256([]byte("sk-a"))].Tenant != "a" || keys[sum].Tenant != "b" || len(keys) != 2 || err != nil {
		t.Errorf("keys %v, %v", keys, err)
	}
	if salt, err := c.Tenants.Salt(); err != nil || string(salt) != "0123456789abcdef" {
		t.Errorf("salt %q, %v", salt, err)
	}
	if r := c.Redacted().Tenants; r.SaltKey != "(hidden)" || r.APIKeys[0].Key != "(hidden)" || r.APIKeys[1].Key != "" {
		t.Errorf("redacted: %+v", r)
	}
	if len(c.Identity.IDs) != 2 || c.Identity.Users == nil || c.Identity.Parents != nil {
		t.Errorf("identity %+v", c.Identity)
	}
}

func TestTenantsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`tenants: {header: "a b"}`:                                        "tenants.header",
		`tenants: {required: true}`:                                       "tenants.required",
		`tenants: {header: a, cache_salt: true}`:                          "needs salt_key",
		`tenants: {cache_salt: true, salt_key: 0123456789abcdef}`:         "needs header, api_keys or keys_file",
		`tenants: {header: a, salt_required: true}`:                       "needs cache_salt",
		`tenants: {header: a, cache_salt: true, salt_key: short}`:         "must be 16 or more",
		`tenants: {header: a, salt_key: x, salt_key_file: y}`:             "not both",
		`tenants: {api_keys: [{tenant: a}]}`:                              "needs either key or sha256",
		`tenants: {api_keys: [{tenant: a, key: k, sha256: abcd}]}`:        "needs either key or sha256",
		`tenants: {api_keys: [{key: k}]}`:                                 "tenants.api_keys[0].tenant",
		`tenants: {api_keys: [{tenant: a, key: k}, {tenant: b, key: k}]}`: `the key of "a" is given to "b" too`,
		`identity: {ids: ["X-Chat"]}`:                                     "identity.ids",
		`identity: {parents: ["field:messages.id"]}`:                      "identity.parents",
	} {
		if _, err := config.Parse("f", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestSaltKeyFile(t *testing.T) {
	c := config.Default()
	c.Tenants = config.Tenants{Header: "X-Tenant-Id", CacheSalt: true, SaltKeyFile: filepath.Join(t.TempDir(), "salt")}
	if err := c.CheckFiles(discovery.Keys{}); err == nil || !strings.Contains(err.Error(), "tenants.salt_key_file") {
		t.Errorf("got %v", err)
	}
	for text, ok := range map[string]bool{"short\n": false, " 0123456789abcdef\n": true} {
		if err := os.WriteFile(c.Tenants.SaltKeyFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if salt, err := c.Tenants.Salt(); (err == nil) != ok || ok && string(salt) != "0123456789abcdef" {
			t.Errorf("%q: %q, %v", text, salt, err)
		}
	}
}

// beside is what a variable needs others to be.
func beside(name string) []string {
	if strings.HasPrefix(name, "WARMPATH_TENANTS_EACH_") {
		return []string{"WARMPATH_TENANTS_HEADER=X-Tenant-Id"}
	}
	switch name {
	case "WARMPATH_ADMIN_READ_TOKEN", "WARMPATH_ADMIN_READ_TOKEN_FILE":
		return []string{"WARMPATH_ADMIN_TOKEN=x"}
	case "WARMPATH_CLIENT_HEADER", "WARMPATH_PROXY_PROTOCOL":
		return []string{"WARMPATH_TRUSTED_PROXIES=10.0.0.1"}
	case "WARMPATH_PEERS_LISTEN", "WARMPATH_PEERS_ROUTERS":
		return []string{"WARMPATH_PEERS_LISTEN=127.0.0.1:5", "WARMPATH_PEERS_ROUTERS=127.0.0.1:6"}
	case "WARMPATH_TENANTS_SALT_REQUIRED":
		return []string{
			"WARMPATH_TENANTS_HEADER=X-Tenant-Id", "WARMPATH_TENANTS_SALT_KEY=0123456789abcdef",
			"WARMPATH_TENANTS_CACHE_SALT=true",
		}
	case "WARMPATH_TENANTS_REQUIRED", "WARMPATH_TENANTS_CACHE_SALT":
		return []string{"WARMPATH_TENANTS_HEADER=X-Tenant-Id", "WARMPATH_TENANTS_SALT_KEY=0123456789abcdef"}
	case "WARMPATH_DISAGGREGATION_ROUTING_THRESHOLD", "WARMPATH_DISAGGREGATION_LOAD_BALANCING_STRATEGY",
		"WARMPATH_DISAGGREGATION_DISAGG_CONNECTOR_TYPE":
		return []string{"WARMPATH_DISAGGREGATION_PRESET=stack.conditional"}
	case "WARMPATH_DISAGGREGATION_DECODER_INIT_PORT", "WARMPATH_DISAGGREGATION_DECODER_ALLOC_PORT":
		return []string{
			"WARMPATH_DISAGGREGATION_CONNECTOR=lmcache", "WARMPATH_DISAGGREGATION_DECODER_INIT_PORT=1",
			"WARMPATH_DISAGGREGATION_DECODER_ALLOC_PORT=2",
		}
	case "WARMPATH_DISAGGREGATION_DECODER_HOST", "WARMPATH_DISAGGREGATION_DECODER_REGISTRY",
		"WARMPATH_DISAGGREGATION_DECODER_RANKS", "WARMPATH_DISAGGREGATION_NOTIFY_LISTEN":
		return []string{
			"WARMPATH_DISAGGREGATION_CONNECTOR=lmcache", "WARMPATH_DISAGGREGATION_DECODER_INIT_PORT=1",
			"WARMPATH_DISAGGREGATION_DECODER_ALLOC_PORT=2",
		}
	case "WARMPATH_POLICY_TRTLLM_KV_CACHE_AWARE_CUSTOM_TOKENIZER":
		return []string{"WARMPATH_POLICY_TRTLLM_KV_CACHE_AWARE_TOKENIZER_DIR=d"}
	case "WARMPATH_POLICY_TRTLLM_CONVERSATION_CUSTOM_TOKENIZER":
		return []string{"WARMPATH_POLICY_TRTLLM_CONVERSATION_MODEL_PATH=d"}
	}
	return nil
}
