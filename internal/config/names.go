package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// nameWarnings lists names that mean nothing in this configuration: limits of tenants that no key has, aliases of
// aliases, and aliases of models that no endpoint is declared to serve where all endpoints state theirs.
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
	out = append(out, c.aliasesOfAliases()...)
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

// aliasesOfAliases warns of an alias that stands for another alias: what it stands for is a model of engines, and is
// not looked up again. An alias that has its own name among its models is a model too.
func (c Config) aliasesOfAliases() (out []string) {
	models := map[string]bool{}
	for _, e := range c.Endpoints {
		for _, m := range e.Models {
			models[m] = true
		}
	}
	aliases := c.AliasList()
	of := map[string][]string{}
	for _, a := range aliases {
		if of[a.Name] = a.Models; slices.Contains(a.Models, a.Name) {
			models[a.Name] = true
		}
	}
	for _, a := range aliases {
		for _, m := range a.Models {
			if len(of[m]) > 0 && !models[m] {
				out = append(out,
					fmt.Sprintf("models.aliases.%s: %s is an alias too, and is not looked up again: write %s",
						a.Name, m, strings.Join(of[m], ", ")))
			}
		}
	}
	return out
}
