package handover

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	"github.com/warmpath/warmpath/internal/httpclient"
)

// The protocol of vLLM's MooncakeConnector (0.32.0), both sides. A prefiller holds the blocks under the transfer id
// until they are fetched; a decoder asks the prefiller's bootstrap server for its engine's address, and waits for the
// prompt. With Options.OldKV the bootstrap server has no queries, and decoders are given its host and port.

type mooncake struct{ *meetingHost }

// mooncakeParams are the members used.
type mooncakeParams struct {
	RemoteDecode  bool   `json:"do_remote_decode"`
	RemotePrefill bool   `json:"do_remote_prefill"`
	Transfer      string `json:"transfer_id"`
	Engine        string `json:"remote_engine_id"`
	Bootstrap     string `json:"remote_bootstrap_addr"`
	Host          string `json:"remote_host"`
	Port          int    `json:"remote_port"`
}

// Read implements connector: it reads kv_transfer_params of Mooncake.
func (h *mooncake) Read(_ *http.Request, f *api.Fields, a *api.Ask) error {
	if !prompts.Present(f.KVTransferParams) {
		return nil
	}
	var p mooncakeParams
	if err := json.Unmarshal(f.KVTransferParams, &p); err != nil {
		return h.refuse("kv_transfer_params: %v", err)
	}
	if err := h.oneLeg(f, a, p.RemoteDecode, p.RemotePrefill, p.Transfer); err != nil {
		return err
	}
	k := &meetLeg{prefill: p.RemoteDecode, key: p.Transfer, rank: -1}
	a.Leg = k
	switch {
	case p.RemoteDecode:
		return nil
	case h.config.Old && p.Host != "" && p.Port != 0:
		k.at = "http://" + net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
		return nil
	case p.Engine == "" || p.Bootstrap == "":
		return h.refuse(
			"remote_engine_id or remote_bootstrap_addr is missing: a real engine computes the prompt itself")
	}
	k.at = p.Bootstrap
	k.said = p.Engine
	return nil
}

// findEngine asks the prefiller's bootstrap server for the engine given to the decoder.
func (h *mooncake) findEngine(r *http.Request, k *meetLeg) error {
	if h.config.Old {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.at+"/query", nil)
	if err != nil {
		return h.refuse("remote_bootstrap_addr: %v", err)
	}
	res, err := httpclient.New(nil).Do(req)
	if err != nil {
		h.count(&h.stats.Failed)
		return ErrLoad
	}
	defer res.Body.Close()
	var entries map[string]struct {
		Engine string `json:"engine_id"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&entries); err != nil {
		return ErrLoad
	}
	for rank, e := range entries {
		if e.Engine == k.said {
			k.said = ""
			k.rank, _ = strconv.Atoi(rank)
			return nil
		}
	}
	h.count(&h.stats.Failed)
	return ErrLoad // remote engine_id not found from bootstrap server
}

// Load implements connector.
func (h *mooncake) Load(r *http.Request, ans *api.Answer, chain []uint64) error {
	return h.fetch(r, ans, chain, h.findEngine)
}

// Listen implements connector: it opens the bootstrap port.
func (h *mooncake) Listen(host string) error {
	m := http.NewServeMux()
	if !h.config.Old {
		m.HandleFunc("GET /query", h.query)
	}
	return h.listen(host, m)
}

// query is the bootstrap server's reply.
func (h *mooncake) query(w http.ResponseWriter, _ *http.Request) {
	ranks := map[string]any{}
	for i := range h.engine.Ranks {
		id := h.engineID()
		if h.engine.Ranks > 1 {
			id += "_dp" + strconv.Itoa(i)
		}
		ranks[strconv.Itoa(i)] = map[string]any{
			"engine_id": id, "worker_addr": map[string]any{"0": map[string]any{"0": "tcp://" + h.engine.Address()}},
		}
	}
	api.WriteJSON(w, http.StatusOK, ranks)
}
