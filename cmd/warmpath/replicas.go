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
	"github.com/warmpath/warmpath/route"
)

// replicas is the router's connection to the fleet's other routers; nil without any.
type replicas struct {
	group  *ring.Group
	memory memory
	policy atomic.Uint64 // digest of the settings that routers must share
	close  func()        // of the store; nil without one
}

// join makes the connection to the other routers if configured. The caller closes l where it fails.
func (r *router) join(cfg *config.Config, l net.Listener) error {
	if !cfg.Peers.On() {
		return nil
	}
	secret, err := cfg.Peers.TheSecret()
	if err != nil {
		return err
	}
	transport, err := newTransport(cfg, l, r.log)
	if err != nil {
		return err
	}
	p := &replicas{}
	p.configured(cfg)
	c := ring.Config{
		Fleet: cfg.Peers.Fleet, Secret: secret, Transport: transport, Policy: p.policy.Load, Memory: &p.memory,
		Limits: r.limits, Log: r.log,
	}
	if redis, ok := transport.(*ring.Redis); ok && cfg.Peers.Redis.Keep {
		kept := cfg.Sessions.WithDefaults()
		c.Store, c.KeepFor, c.KeepMost, p.close = redis, kept.IdleTTL, kept.Max, redis.Close
	}
	p.group, err = ring.New(c)
	if err != nil {
		return err
	}
	r.replicas = p
	return nil
}

// memory exchanges learnt state with other routers, in the format of the state file.
type memory struct{ fleet *live.Fleet }

// mostMemory bounds the state sent to another router in bytes: about two million conversations.
const mostMemory = 256 << 20

// mostKnowledge bounds the value in the store with endpoints and their predicted cache contents, in bytes.
const mostKnowledge = 16 << 20

// Save implements peers.Memory.
func (m *memory) Save(conversations bool) ([]byte, error) {
	if conversations {
		return state.Encode(time.Now(), m.fleet.Snapshot, mostMemory)
	}
	return state.Encode(time.Now(), m.knowledge, mostMemory)
}

// knowledge is a snapshot without conversations; names of blocks beyond the bound are left out.
func (m *memory) knowledge(yield func(*route.Piece) bool) {
	blocks := 0
	m.fleet.Snapshot(func(p *route.Piece) bool {
		for _, c := range p.Chains {
			blocks += len(c.Rest)
		}
		if p.Conversations != nil {
			return false // these are the last
		}
		if len(p.Chains) > 0 && 8*blocks > mostKnowledge {
			return true
		}
		return yield(p)
	})
}

// Load implements peers.Memory.
func (m *memory) Load(b []byte, later time.Duration) error {
	pieces, _, err := state.Decode(b)
	if err == nil {
		m.fleet.Restore(pieces, later)
	}
	return err
}

// newTransport makes the transport to the other routers.
func newTransport(cfg *config.Config, l net.Listener, log *slog.Logger) (ring.Transport, error) {
	if url := cfg.Peers.RedisURL(); url != "" {
		with := ring.RedisOptions{Log: log}
		var err error
		c := cfg.Peers.Redis
		with.SentinelUser, with.SentinelPassword = c.SentinelUser, c.SentinelPassword
		if with.Password, err = c.ThePassword(); err != nil {
			return nil, err
		}
		if c.PasswordFile != "" {
			with.Renew = c.ThePassword
		}
		with.TLS = c.TheTLS
		return ring.NewRedis(url, with)
	}
	return ring.NewDirect(l, cfg.Peers.Routers, log), nil
}

// serve starts the exchange, once there is a fleet.
func (p *replicas) serve(r *router) {
	if p == nil {
		return
	}
	p.memory.fleet = r.fleet
	p.group.Serve(r.fleet)
	r.fleet.SetNote(p.group.Note)
	r.meter.WatchReplicas(p.figures)
	r.wg.Go(func() {
		p.group.Run(r.running)
		if p.close != nil {
			p.close()
		}
	})
}

// learns reports whether other routers are still telling what they know.
func (p *replicas) learns() bool {
	if p == nil {
		return false
	}
	ready, _ := p.group.Note()
	return !ready
}

// configured notes the settings that affect how requests are placed.
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

// handler answers with the state of the other routers; nil without any.
func (p *replicas) handler() http.Handler {
	if p == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.group.Status())
	})
}

// figures are what the metrics show.
func (p *replicas) figures() metrics.Fleet {
	s := p.group.Status()
	f := metrics.Fleet{
		Sent: s.Sent, Received: s.Received, SentBytes: s.SentBytes, ReceivedBytes: s.ReceivedBytes, Refused: s.Bad,
		Gaps: s.Lost,
	}
	if k := s.Kept; k != nil {
		f.Kept, f.KeptDropped, f.KeptFailed = k.Written, k.Dropped, k.Failed
	}
	f.Expected = s.Routers
	for _, m := range s.Peers {
		f.Peers++
		f.DelayMs = max(f.DelayMs, m.DelayMs)
	}
	return f
}
