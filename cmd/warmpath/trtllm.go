package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/internal/config"
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
func trtllmOptions(cfg *config.Config) engine.TRTLLMOptions {
	o, _ := cfg.TRTLLM.Options()
	return o
}

// newTRTServe is what trtllm-serve disaggregated serves beside its API; nil when it is not wanted.
func newTRTServe(cfg *config.Config, b build, client *http.Client, log *slog.Logger) *trtserve.Server {
	t := &cfg.TRTLLM
	if !t.Paths && t.Cluster.URI == "" {
		return nil
	}
	etcd := ""
	if strings.HasPrefix(t.Cluster.URI, "etcd://") {
		etcd = t.Cluster.URI
	}
	return trtserve.New(trtserve.Config{
		Etcd: etcd, Paths: t.Paths, Version: b.Version, PerfMetrics: t.PerfMetrics, Cluster: t.Cluster.URI != "", ClusterName: t.Cluster.Name,
		MinContext: t.Cluster.MinContext, MinGeneration: t.Cluster.MinGeneration, Inactive: t.Cluster.InactiveTimeout,
	}, client, log)
}

// handler is who answers on the traffic listener.
func (r *router) handler() http.Handler {
	if r.trt == nil {
		return r.proxy
	}
	r.trt.Watch(r.fleet, r.proxy)
	return r.trt
}
