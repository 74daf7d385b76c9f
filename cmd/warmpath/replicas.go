package main

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
	ring "github.com/warmpath/warmpath/internal/peers"
	"github.com/warmpath/warmpath/internal/state"
)

// replicas is the router's part among others of its fleet. A nil one has none.
type replicas struct {
	group  *ring.Group
	memory memory
	policy atomic.Uint64 // digest of what routers must have alike
}

// join makes the part of a router that is to have one.
func (r *router) join(cfg *config.Config, l net.Listener) error {
	if !cfg.Peers.On() {
		return nil
	}
	secret, err := cfg.Peers.TheSecret()
	if err != nil {
		closeAll(l)
		return err
	}
	transport, err := newTransport(cfg, l, r.log)
	if err != nil {
		closeAll(l)
		return err
	}
	p := &replicas{}
	p.configured(cfg)
	p.group, err = ring.New(ring.Config{
		Fleet: cfg.Peers.Fleet, Secret: secret, Transport: transport, Policy: p.policy.Load, Memory: &p.memory, Log: r.log,
	})
	if err != nil {
		closeAll(l)
		return err
	}
	r.replicas = p
	return nil
}

// memory is what the router has learnt, in the form of its state file, for another router and of another one.
type memory struct{ fleet *live.Fleet }

// mostMemory bounds what is handed to another router: some two million conversations.
const mostMemory = 256 << 20

// Save implements peers.Memory.
func (m *memory) Save() ([]byte, error) {
	return state.Encode(time.Now(), m.fleet.Snapshot, mostMemory)
}

// Load implements peers.Memory. The other router has made it a moment ago.
func (m *memory) Load(b []byte) error {
	pieces, _, err := state.Decode(b)
	if err == nil {
		m.fleet.Restore(pieces, 0)
	}
	return err
}

// newTransport is the way to the other routers.
func newTransport(cfg *config.Config, l net.Listener, log *slog.Logger) (ring.Transport, error) {
	if url := cfg.Peers.Redis(); url != "" {
		return ring.NewRedis(url)
	}
	return ring.NewDirect(l, cfg.Peers.Routers, log), nil
}

// serve begins to take part, once there is a fleet.
func (p *replicas) serve(r *router) {
	if p == nil {
		return
	}
	p.memory.fleet = r.fleet
	p.group.Serve(r.fleet)
	r.fleet.SetNote(p.group.Note)
	r.meter.WatchReplicas(p)
	r.wg.Go(func() { p.group.Run(r.running) })
}

// configured notes what a configuration says of how requests are placed.
func (p *replicas) configured(cfg *config.Config) {
	if p == nil {
		return
	}
	b, err := json.Marshal([]any{cfg.Policy, cfg.Queue, cfg.Disaggregation, cfg.Models})
	if err == nil {
		p.policy.Store(ring.Digest(b))
	}
}

func (p *replicas) listener() live.Listener {
	if p == nil {
		return live.Listener{}
	}
	return p.group.Listener()
}

// handler answers what is known of the other routers; nil without any.
func (p *replicas) handler() http.Handler {
	if p == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.group.Status())
	})
}

// Replicas implements metrics.Replicas.
func (p *replicas) Replicas() metrics.Fleet {
	s := p.group.Status()
	f := metrics.Fleet{
		Sent: s.Sent, Received: s.Received, SentBytes: s.SentBytes, ReceivedBytes: s.ReceivedBytes, Refused: s.Bad, Gaps: s.Lost,
	}
	for _, m := range s.Peers {
		f.Peers++
		f.DelayMs = max(f.DelayMs, m.DelayMs)
	}
	return f
}
