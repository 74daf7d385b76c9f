//go:build nokubernetes

package main

import (
	"errors"
	"log/slog"

	"github.com/warmpath/warmpath/internal/discovery"
)

// kubernetes returns an error: this build cannot discover pods.
func kubernetes(discovery.KubernetesConfig, discovery.Keys, *slog.Logger) (discovery.Runner, error) {
	return nil, errors.New("this warmpath was built without Kubernetes (-tags nokubernetes); use another build, " +
		"or discovery.dns with the name of a headless Service")
}
