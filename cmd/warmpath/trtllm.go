package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/migrate"
	"github.com/warmpath/warmpath/internal/trtserve"
)

// processVariable is where trtllm-serve disaggregated finds the number of its process (disagg_utils.py).
const processVariable = "TRTLLM_DISAGG_WORKER_PROCESS_ID"

// loadTRTLLM makes the configuration of the YAML of trtllm-serve disaggregated. What that would refuse is refused, with file and line; what
// it knows and warmpath has not is returned, to be told.
func loadTRTLLM(e env, path string, overrides []config.Override) (config.Config, []migrate.Missing, error) {
	data, err := readSome(path)
	if err != nil {
		return config.Config{}, nil, err
	}
	name := filepath.ToSlash(path)
	if err := migrate.CheckTRTLLM(name, data); err != nil {
		return config.Config{}, nil, err
	}
	result, err := migrate.File("trtllm", name, data)
	if err != nil {
		return config.Config{}, nil, err
	}
	if id, ok := e.lookup(processVariable); ok {
		overrides = append([]config.Override{{Path: []string{"trtllm", "process_id"}, Text: id, From: processVariable}}, overrides...)
	}
	cfg, err := config.Parse(fmt.Sprintf("(from %s)", name), result.YAML, e.vars, overrides...)
	return cfg, result.Missing, err
}

// trtllmOptions are those of the connector. The key's file has been read once already.
func trtllmOptions(cfg *config.Config) handover.TRTLLMOptions {
	o, _ := cfg.TRTLLM.Options()
	return o
}

// newTRTServe is what trtllm-serve disaggregated serves beside its API; nil when it is not wanted.
func newTRTServe(cfg *config.Config, b build, client *http.Client, log *slog.Logger) (*trtserve.Server, error) {
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
		Names: namesOf(cfg), Etcd: etcd, Paths: t.Paths, Version: b.Version, PerfMetrics: t.PerfMetrics, AdminToken: cfg.Admin.Token, ReadBody: cfg.Timeouts.ReadBody, Cluster: t.Cluster.URI != "", ClusterName: t.Cluster.Name,
		MinContext: t.Cluster.MinContext, MinGeneration: t.Cluster.MinGeneration, Inactive: t.Cluster.InactiveTimeout, Registration: registration,
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

// serveWorkers serves the storage at which workers register on a listener of its own, if it has one, with TLS where they are told https.
func (r *router) serveWorkers(cfg *config.Config, l net.Listener) {
	if l == nil {
		return
	}
	r.workers = &http.Server{
		Handler: r.trt.Registry(), ReadHeaderTimeout: cfg.Timeouts.ReadHeader, ReadTimeout: cfg.Timeouts.ReadHeader + cfg.Timeouts.ReadBody,
		IdleTimeout: cfg.Timeouts.KeepAlive, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	serve := func() error { return r.workers.Serve(l) }
	if cfg.TLS.Cert != "" && strings.HasPrefix(cfg.TRTLLM.Cluster.URI, "https://") {
		serve = func() error { return r.workers.ServeTLS(l, cfg.TLS.Cert, cfg.TLS.Key) }
	}
	r.log.Info("workers register here", "address", l.Addr().String())
	r.serve("workers", serve)
}

// handler is who answers on the traffic listener.
func (r *router) handler() http.Handler {
	if r.trt == nil {
		return r.proxy
	}
	r.trt.Watch(r.fleet, r.proxy)
	return r.trt
}
