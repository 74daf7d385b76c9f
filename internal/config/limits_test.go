package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestLimitsAreChecked: each fault is told with the key that has it.
func TestLimitsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		set        func(c *config.Config)
	}{
		{"a negative number", "limits.requests", func(c *config.Config) { c.Limits.Requests = -1 }},
		{"a negative number of a client", "limits.client.requests", func(c *config.Config) {
			c.Limits.Client.Requests = -1
		}},
		{"no such priority", "limits.priority", func(c *config.Config) { c.Limits.Priority = "urgent" }},
		{"nobody names a tenant", "tenants.each", func(c *config.Config) { c.Tenants.Each.Running = 5 }},
		{"each has a name", "tenants.each.tenant", func(c *config.Config) { c.Tenants.Each.Tenant = "a" }},
		{"no name", "tenants.limits[0].tenant", func(c *config.Config) {
			c.Tenants.Limits = []config.TenantLimits{{Running: 1}}
		}},
		{"twice", "tenants.limits[1].tenant", func(c *config.Config) {
			c.Tenants.Limits = []config.TenantLimits{{Tenant: "a"}, {Tenant: "a"}}
		}},
		{"below none", "tenants.limits[0].tokens_per_minute", func(c *config.Config) {
			c.Tenants.Limits = []config.TenantLimits{{Tenant: "a", TokensPerMinute: -2}}
		}},
		{"no share", "tenants.each.share", func(c *config.Config) { c.Tenants.Each.Share = -1 }},
		{"no such priority of a tenant", "tenants.each.priority", func(c *config.Config) {
			c.Tenants.Each.Priority = "1"
		}},
	} {
		c := config.Default()
		if tt.set(&c); tt.name != "nobody names a tenant" {
			c.Tenants.Header = "X-Tenant"
		}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want a fault of %s", tt.name, err, tt.want)
		}
	}
}

// TestLimitsOfTenants: what is left out is that of each, and -1 is none.
func TestLimitsOfTenants(t *testing.T) {
	of, each := config.Tenants{
		Each:   config.TenantLimits{Running: 5, TokensPerMinute: 1000, Priority: "low"},
		Limits: []config.TenantLimits{{Tenant: "a", TokensPerMinute: -1, Share: 2}},
	}.LimitsOf()
	want := config.TenantLimits{Tenant: "a", Running: 5, TokensPerMinute: -1, Share: 2, Priority: "low"}
	if each.Running != 5 || len(of) != 1 || !reflect.DeepEqual(of[0], want) {
		t.Errorf("%+v, %+v", of, each)
	}
}
