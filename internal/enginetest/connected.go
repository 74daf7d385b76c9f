package enginetest

import (
	enginehandover "github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/enginetest/handover"
)

// newConnector makes the connector that the options ask for.
func (s *Server) newConnector() (handover.Connector, error) {
	o := s.opts
	return handover.New(handover.Config{
		Connector: o.Connector, Lease: o.KVLease, Latency: o.KVLatency, TokensPerSecond: o.KVTokensPerSecond,
		Back: o.KVBack, Recompute: o.KVRecompute, Old: o.OldKV, TP: o.TP, Port: o.KVPort, Notify: o.KVNotify,
		Role: o.Role, BootstrapPort: o.BootstrapPort, Key: o.DisaggKey,
	}, handover.Engine{
		BlockTokens: o.Engine.BlockTokens, Ranks: o.Ranks, Seed: o.Seed, Speed: o.Speed, Address: s.address,
		Restarts: s.tally.restarts.Load, Receive: s.pump.Receive, AnswerTokens: s.answerTokens, Closing: s.closing,
	})
}

// address is host:port of the port opened by Listen; "" without one.
func (s *Server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// KVStats are counters of transfers.
type KVStats = handover.Stats

// KV returns the counters of transfers.
func (s *Server) KV() KVStats {
	st := s.connector.Stats()
	st.Open = s.connector.Open()
	return st
}

// LoseKV makes the next transfer fail as if the engine had been killed after its reply: the blocks are gone when they
// are fetched.
func (s *Server) LoseKV() { s.connector.Lose() }

// MuteKV switches an LMCache prefiller's notifications to the router off or on.
func (s *Server) MuteKV(off bool) {
	if c, ok := s.connector.(interface{ Mute(off bool) }); ok {
		c.Mute(off)
	}
}

// ListenKV opens the receiving ports of an LMCache decoder: KVPort and following ones, one of each kind per rank, or
// free ones. Close closes them.
func (s *Server) ListenKV(host string) (enginehandover.Receiver, error) {
	if c, ok := s.connector.(receiver); ok {
		return c.ListenKV(host)
	}
	return enginehandover.Receiver{Host: host}, nil
}

// KVAddress is the address of the MoRI-IO connector, "" before Listen.
func (s *Server) KVAddress() string {
	if c, ok := s.connector.(interface{ KVAddress() string }); ok {
		return c.KVAddress()
	}
	return ""
}

// BootstrapPort is the port of the bootstrap server; 0 without one.
func (s *Server) BootstrapPort() int {
	if c, ok := s.connector.(interface{ BootstrapPort() int }); ok {
		return c.BootstrapPort()
	}
	return 0
}

// receiver is a connector with pushed KV cache.
type receiver interface {
	ListenKV(host string) (enginehandover.Receiver, error)
}
