package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/trtserve"
)

// trtllmOptions are the connector's options. The key's file has been read once already.
func trtllmOptions(cfg *config.Config) handover.TRTLLMOptions {
	o, _ := cfg.TRTLLM.Options()
	return o
}

// newTRTServe makes the server of the additional paths of trtllm-serve disaggregated; nil if no setting needs it.
func newTRTServe(
	cfg *config.Config, b build, source func(*http.Request) netip.Addr, client *http.Client, log *slog.Logger,
) (*trtserve.Server, error) {
	t := &cfg.TRTLLM
	if !t.Paths && t.Cluster.URI == "" {
		return nil, nil
	}
	etcd := ""
	if strings.HasPrefix(t.Cluster.URI, "etcd://") {
		etcd = t.Cluster.URI
	}
	registration, err := registrationOf(&t.Cluster)
	return trtserve.New(trtserve.Config{
		Names: namesOf(cfg), Source: source, Etcd: etcd, Paths: t.Paths, Version: b.Version, PerfMetrics: t.PerfMetrics,
		AdminToken: cfg.Admin.Token, ReadBody: cfg.Timeouts.ReadBody, Cluster: t.Cluster.URI != "",
		ClusterName: t.Cluster.Name, MinContext: t.Cluster.MinContext, MinGeneration: t.Cluster.MinGeneration,
		Inactive: t.Cluster.InactiveTimeout, Registration: registration,
	}, client, log), err
}

// registrationOf is who may register as a worker.
func registrationOf(c *config.TRTCluster) (r trtserve.Registration, err error) {
	r.Own = c.Listen != ""
	if r.Token, err = c.StorageToken(); err != nil {
		return r, err
	}
	if r.Allow, err = guard.ParseNetworks(c.Allow); err != nil {
		return r, fmt.Errorf("trtllm.cluster.allow: %w", err)
	}
	if r.Hosts, err = guard.ParseHosts(c.AllowHosts); err != nil {
		return r, fmt.Errorf("trtllm.cluster.allow_hosts: %w", err)
	}
	return r, nil
}
