package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/extproc"
	"github.com/warmpath/warmpath/internal/shortage"
)

// picker is the router's listener for Envoy. A nil one has none.
type picker struct {
	*extproc.Server
	at       string
	draining atomic.Bool
}

// servePicker serves external processing on l, if there is to be one.
func (r *router) servePicker(cfg *config.Config, l net.Listener) {
	if l == nil {
		return
	}
	p := &picker{at: l.Addr().String()}
	ready := func() bool {
		ok, _ := r.fleet.Ready()
		return ok && !p.draining.Load()
	}
	var secure *tls.Config
	if cfg.ExtProc.TLS {
		own, err := extproc.SelfSigned()
		if err != nil {
			r.failed <- fmt.Errorf("no certificate can be made for external processing: %w", err)
			return
		}
		secure = &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*own},
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				c := r.current().trafficTLS // with the client certificates that it asks for
				if c != nil {
					c = c.Clone()
					c.NextProtos = []string{"h2"}
				}
				return c, nil
			},
		}
	}
	p.Server = extproc.New(extproc.Config{
		Door: &r.doors, Fleet: r.fleet, Ready: ready, Objectives: cfg.ExtProc.Objectives,
		Fallbacks: cfg.ExtProc.Fallbacks, Sidecar: cfg.ExtProc.SidecarPort, Conformant: cfg.ExtProc.Conformance,
		BodyBytes: int(cfg.LargestBody()), Memory: r.doors.current().Budget(), Log: r.log, TLS: secure,
	})
	r.picker = p
	l = shortage.Proxies(shortage.Listener(l, "external processing", r.log))
	r.serve("external processing", func() error { return p.Serve(l) })
}

// address is where Envoy asks, "" where there is no picker.
func (p *picker) address() string {
	if p == nil {
		return ""
	}
	return p.at
}

// drain has health checks say that requests should be asked about elsewhere.
func (p *picker) drain() {
	if p != nil {
		p.draining.Store(true)
	}
}

// close ends what is open.
func (p *picker) close() {
	if p != nil {
		p.Stop()
	}
}

// pickerAddress is where the command extproc listens unless told otherwise.
const pickerAddress = "0.0.0.0:9002"

func extprocCommand(e env) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "extproc",
		Short: "Choose endpoints for Envoy, Istio or a gateway",
		Long: `extproc is serve with one more listener, at which Envoy, Istio, Envoy Gateway or another implementation of the Gateway
API inference extension asks where to send each request (external processing over gRPC). It answers with the header
and the metadata x-gateway-destination-endpoint. Policies, limits, replicas and metrics are the same.`,
		Example: `  # Choose among the pods of an InferencePool
  warmpath extproc -c warmpath.yaml

  # Choose between two engines for an Envoy on this machine
  warmpath extproc --extproc 127.0.0.1:9002 \
    --endpoint http://127.0.0.1:9001 --endpoint http://127.0.0.1:9003`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (config.Config, error) {
				cfg, err := s.load(e)
				if err == nil && cfg.ExtProc.Listen == "" {
					cfg.ExtProc.Listen = pickerAddress
				}
				return cfg, err
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), e, &cfg, s.source(e), load)
		},
	}
	s.add(cmd)
	cmd.Flags().Lookup("extproc").DefValue = pickerAddress
	return cmd
}
