package main

import (
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/guard"
)

// namesOf are the names under which clients may come. They have been checked already; faulty ones let in loopback names alone.
func namesOf(cfg *config.Config) *guard.Names {
	names, err := cfg.Names()
	if err != nil {
		return &guard.Names{}
	}
	return names
}

// pathsOf are the paths that are passed on beside the inference APIs. They have been checked already.
func pathsOf(cfg *config.Config) *guard.Paths {
	paths, err := guard.ParsePaths(cfg.Paths)
	if err != nil {
		return nil
	}
	return paths
}

// proxiesOf are the peers whose word about their clients counts. They have been checked already; of faulty ones nobody's does.
func proxiesOf(cfg *config.Config) *forwarded.Proxies {
	proxies, err := cfg.Proxies()
	if err != nil {
		return nil
	}
	return proxies
}
