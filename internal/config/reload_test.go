package config

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestHashedKey: a key may be written as its hash, in either form, and anything else that begins like one is a fault.
func TestHashedKey(t *testing.T) {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("secret")))
	for _, text := range []string{"key: 'sha256:" + sum + "'", "sha256: " + sum, "key: secret"} {
		c, err := Parse("f", []byte("tenants: {api_keys: [{tenant: a, "+text+"}]}"), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if keys, err := c.Tenants.Keys(); err != nil || keys[sha256.Sum256([]byte("secret"))].Tenant != "a" {
			t.Errorf("%s: %v, %v", text, keys, err)
		}
	}
	if _, err := Parse("f", []byte("tenants: {api_keys: [{tenant: a, key: 'sha256:abc'}]}"), nil); err == nil {
		t.Error("half a hash is taken for a key")
	}
}

// TestOpenListenerIsSaid: who listens for everybody and asks for no key is told.
func TestOpenListenerIsSaid(t *testing.T) {
	for text, want := range map[string]bool{
		"listen: 127.0.0.1:80": false,
		"listen: :80":          true,
		"listen: :80\ntenants: {api_keys: [{tenant: a, key: k}]}":                 true,
		"listen: :80\ntenants: {required: true, api_keys: [{tenant: a, key: k}]}": false,
	} {
		c, err := Parse("f", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(c.Warnings(), func(w string) bool {
			return strings.Contains(w, "need no key")
		}); got != want {
			t.Errorf("%s: %v", text, c.Warnings())
		}
	}
}

// TestOver: what listeners are made of stays as it runs and is named, all else is taken; the hash tells settings apart,
// but not secrets.
func TestOver(t *testing.T) {
	running, next := Default(), Default()
	next.Listen, next.Transport, next.TLS, next.Limits.Retries, next.Admin.Token = ":1", "net/http", TLS{
		Cert: "c", Key: "k",
	}, 7, "t"
	got, restart := next.Over(&running)
	if !slices.Equal(restart, []string{"listen", "transport", "tls"}) || got.NetHTTP() ||
		got.Listen != running.Listen || got.TLS != running.TLS || got.Limits.Retries != 7 {
		t.Errorf("%v, %+v", restart, got)
	}
	if got.Hash() == running.Hash() || len(got.Hash()) != 12 {
		t.Errorf("%s, running %s", got.Hash(), running.Hash())
	}
	other := got
	other.Admin.Token = "u"
	if other.Hash() != got.Hash() {
		t.Error("the hash tells something of a secret")
	}
	other.Tracing.Endpoint = "http://a:p@h"
	last := other
	last.Tracing.Endpoint = "http://a:q@h"
	if last.Hash() != other.Hash() || other.Hash() == got.Hash() {
		t.Error("the hash tells something of a password in an address, or nothing of the address")
	}
	other.Admin.Token = ""
	if other.Hash() == last.Hash() {
		t.Error("the hash does not tell whether there is a token")
	}
}

// TestChanged: the paths of settings that differ, secrets by name only.
func TestChanged(t *testing.T) {
	parse := func(text string) *Config {
		t.Helper()
		c, err := Parse("f", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	before := parse("endpoints: ['http://a:1']\nadmin: {token: before-before-before}\nlimits: {retries: 1}\n" +
		"models: {aliases: {x: [m]}}\n")
	now := parse("endpoints: ['http://a:1', 'http://b:1']\nadmin: {token: now-now-now-now-now}\n" +
		"limits: {retries: 2}\nmodels: {aliases: {y: [m]}}\n")
	if got, want := Changed(before, now, []string{"tls.pem"}),
		"admin.token, endpoints, limits.retries, models.aliases.x, models.aliases.y, tls.pem"; got != want {
		t.Errorf("changed are %q, want %q", got, want)
	}
	if got := Changed(now, now, nil); got != "nothing" {
		t.Errorf("equal ones differ in %q", got)
	}
}
