//go:build !nokubernetes

package main

import (
	"log/slog"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/discovery/kube"
)

// kubernetes discovers pods.
func kubernetes(c discovery.KubernetesConfig, keys discovery.Keys, log *slog.Logger) (discovery.Runner, error) {
	return kube.New(c, keys, log)
}
