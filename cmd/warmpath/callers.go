package main

import (
	"slices"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/guard"
)

// namesOf are the host names that clients may use. They have been validated; invalid ones allow loopback names only.
func namesOf(cfg *config.Config) *guard.Names {
	names, err := cfg.Names()
	if err != nil {
		return &guard.Names{}
	}
	return names
}

// hostsOf are the names in the setting hosts, without "*". They have been validated.
func hostsOf(cfg *config.Config) guard.Hosts {
	hosts, err := guard.ParseHosts(slices.DeleteFunc(slices.Clone(cfg.Hosts), func(h string) bool { return h == "*" }))
	if err != nil {
		return guard.Hosts{}
	}
	return hosts
}

// pathsOf are the paths that are passed on besides the inference APIs. They have been validated.
func pathsOf(cfg *config.Config) *guard.Paths {
	paths, err := guard.ParsePaths(cfg.Paths)
	if err != nil {
		return nil
	}
	return paths
}

// proxiesOf are the trusted proxies. They have been validated; invalid ones trust no proxy.
func proxiesOf(cfg *config.Config) *forwarded.Proxies {
	proxies, err := cfg.Proxies()
	if err != nil {
		return nil
	}
	return proxies
}
