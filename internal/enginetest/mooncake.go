package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The hand-over of vLLM's MooncakeConnector (0.32.0), both sides. A prefiller keeps the blocks under the transfer id until they are
// fetched; a decoder asks the prefiller's bootstrap server for its engine's address, and waits for the prompt. With Options.OldKV the
// bootstrap server answers no queries, and decoders are told its host and port.

// mooncakeParams are the members that are looked at.
type mooncakeParams struct {
	RemoteDecode  bool   `json:"do_remote_decode"`
	RemotePrefill bool   `json:"do_remote_prefill"`
	Transfer      string `json:"transfer_id"`
	Engine        string `json:"remote_engine_id"`
	Bootstrap     string `json:"remote_bootstrap_addr"`
	Host          string `json:"remote_host"`
	Port          int    `json:"remote_port"`
}

// readTransfer reads kv_transfer_params of Mooncake.
func (s *Server) readTransfer(f *fields, a *ask) error {
	if s.opts.Connector != "mooncake" || !present(f.KVTransferParams) {
		return nil
	}
	var p mooncakeParams
	if err := json.Unmarshal(f.KVTransferParams, &p); err != nil {
		return s.refuse("kv_transfer_params: %v", err)
	}
	if err := s.oneLeg(f, a, p.RemoteDecode, p.RemotePrefill, p.Transfer); err != nil {
		return err
	}
	a.meet = &meetAsk{prefill: p.RemoteDecode, key: p.Transfer, rank: -1}
	switch {
	case p.RemoteDecode:
		return nil
	case s.opts.OldKV && p.Host != "" && p.Port != 0:
		a.meet.at = "http://" + net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
		return nil
	case p.Engine == "" || p.Bootstrap == "":
		return s.refuse("remote_engine_id or remote_bootstrap_addr is missing: a real engine computes the prompt itself")
	}
	a.meet.at = p.Bootstrap
	a.meet.said = p.Engine
	return nil
}

// oneLeg refuses what is no leg of a transfer.
func (s *Server) oneLeg(f *fields, a *ask, decode, prefill bool, transfer string) error {
	switch {
	case decode == prefill:
		return s.refuse("a request is one of the two legs")
	case transfer == "":
		return s.refuse("transfer_id is missing")
	case decode && (a.stream || f.StreamOptions != nil):
		return s.refuse("a prefill leg must not stream")
	case decode && (a.maxTokens != 1 || a.minTokens > 1):
		return s.refuse("a prefill leg must make one token, this one makes %d", a.maxTokens)
	}
	return nil
}

// findEngine asks the prefiller's bootstrap server for the engine that the decoder was told.
func (s *Server) findEngine(r *http.Request, k *meetAsk) error {
	if s.opts.Connector != "mooncake" || s.opts.OldKV {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.at+"/query", nil)
	if err != nil {
		return s.refuse("remote_bootstrap_addr: %v", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.countKV(&s.kv.stats.Failed)
		return errKVLoad
	}
	defer res.Body.Close()
	var entries map[string]struct {
		Engine string `json:"engine_id"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&entries); err != nil {
		return errKVLoad
	}
	for rank, e := range entries {
		if e.Engine == k.said {
			k.said = ""
			k.rank, _ = strconv.Atoi(rank)
			return nil
		}
	}
	s.countKV(&s.kv.stats.Failed)
	return errKVLoad // remote engine_id not found from bootstrap server
}

// bootstrapMux is what listens at the bootstrap port of a prefiller.
func (s *Server) bootstrapMux() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /_sim/meet", s.postMeet)
	if s.opts.Connector == "sglang" {
		m.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK") })
		return m
	}
	if s.opts.OldKV {
		return m
	}
	m.HandleFunc("GET /query", func(w http.ResponseWriter, _ *http.Request) {
		ranks := map[string]any{}
		for i := range s.opts.Ranks {
			id := s.kvEngine()
			if s.opts.Ranks > 1 {
				id += "_dp" + strconv.Itoa(i)
			}
			ranks[strconv.Itoa(i)] = map[string]any{"engine_id": id, "worker_addr": map[string]any{"0": map[string]any{"0": "tcp://" + s.address()}}}
		}
		writeJSON(w, http.StatusOK, ranks)
	})
	return m
}

// listenBootstrap opens the bootstrap port beside the engine's own; mu is held.
func (s *Server) listenBootstrap() error {
	if s.opts.Connector != "sglang" && s.opts.Connector != "mooncake" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(s.opts.BootstrapPort)))
	if err != nil {
		return fmt.Errorf("enginetest: the bootstrap port: %w", err)
	}
	s.bootstrap = &http.Server{Handler: s.bootstrapMux(), ReadHeaderTimeout: 30 * time.Second}
	s.bootstrapAt = ln.Addr().String()
	srv := s.bootstrap
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		_ = srv.Serve(ln) // ends when the server is closed
	}()
	return nil
}

// BootstrapPort is where decoders and routers reach the bootstrap server, 0 without one.
func (s *Server) BootstrapPort() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, port, err := net.SplitHostPort(s.bootstrapAt)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	return n
}
