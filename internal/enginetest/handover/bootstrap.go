package handover

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// oneLeg rejects a request that is not a leg of a transfer.
func (h *meetingHost) oneLeg(f *api.Fields, a *api.Ask, decode, prefill bool, transfer string) error {
	switch {
	case decode == prefill:
		return h.refuse("a request is one of the two legs")
	case transfer == "":
		return h.refuse("transfer_id is missing")
	case decode:
		return h.onlyPrompt(f, a)
	}
	return nil
}

// listen opens the bootstrap port beside the engine's own, for decoders too.
func (h *meetingHost) listen(host string, m *http.ServeMux) error {
	m.HandleFunc("POST /_sim/meet", h.post)
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(h.config.BootstrapPort)))
	if err != nil {
		return fmt.Errorf("the bootstrap port: %w", err)
	}
	h.ports.Lock()
	defer h.ports.Unlock()
	h.bootstrap = &http.Server{Handler: m, ReadHeaderTimeout: 30 * time.Second}
	h.address = ln.Addr().String()
	srv := h.bootstrap
	h.serving.Go(func() { _ = srv.Serve(ln) }) // ends when the server is closed
	return nil
}

// BootstrapPort is the port of the bootstrap server; 0 without one.
func (h *meetingHost) BootstrapPort() int {
	h.ports.Lock()
	defer h.ports.Unlock()
	_, port, err := net.SplitHostPort(h.address)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	return n
}

// Close implements connector.
func (h *meetingHost) Close() {
	h.ports.Lock()
	srv := h.bootstrap
	h.ports.Unlock()
	if srv != nil {
		_ = srv.Close()
	}
	h.serving.Wait()
}
