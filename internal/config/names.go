package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// nameWarnings lists names that mean nothing in this configuration: limits of tenants that no key has, and aliases of
// models that no endpoint is declared to serve where all endpoints state theirs.
func (c Config) nameWarnings() (out []string) {
	if t := c.Tenants; t.Header == "" && t.keys() {
		var tenants []string
		all, _ := t.Keys() // faults are those of CheckFiles
		for _, k := range all {
			if !slices.Contains(tenants, k.Tenant) {
				tenants = append(tenants, k.Tenant)
			}
		}
		slices.Sort(tenants)
		for i, l := range t.Limits {
			if !slices.Contains(tenants, l.Tenant) {
				out = append(out,
					fmt.Sprintf("tenants.limits[%d].tenant: no API key is %q's, so the limit means nothing%s",
						i, l.Tenant, strictyaml.DidYouMean(l.Tenant, tenants)))
			}
		}
	}
	var stated []string
	for _, e := range c.Endpoints {
		if len(e.Models) == 0 {
			return append(out, c.settingWarnings(nil)...) // probes find out
		}
		stated = append(stated, e.Models...)
	}
	if len(stated) == 0 || c.Discovery.follows() || c.TRTLLM.Cluster.URI != "" {
		return append(out, c.settingWarnings(nil)...)
	}
	out = append(out, c.settingWarnings(slices.Concat(stated, slices.Sorted(maps.Keys(c.Models.Aliases))))...)
	for _, a := range c.AliasList() {
		if !slices.ContainsFunc(a.Models, func(m string) bool { return slices.Contains(stated, m) }) {
			out = append(out, fmt.Sprintf("models.aliases.%s: no endpoint serves %s%s",
				a.Name, strings.Join(a.Models, " or "), strictyaml.DidYouMean(a.Models[0], stated)))
		}
	}
	return out
}
