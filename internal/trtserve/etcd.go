package trtserve

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/etcdkeys"
	"github.com/warmpath/warmpath/route"
)

// etcdKeys are the keys of workers that register in etcd (disagg_cluster with a cluster_uri of etcd://), as last read.
type etcdKeys struct {
	mu   sync.Mutex
	keys map[string]string // guarded by mu
}

func (e *etcdKeys) all() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.keys)
}

func (e *etcdKeys) set(keys map[string]string) {
	e.mu.Lock()
	e.keys = keys
	e.mu.Unlock()
}

// followEtcd publishes the workers in etcd after each change, until ctx ends. While etcd cannot be reached, the last
// workers stay and health checks decide about them.
func (s *Server) followEtcd(ctx context.Context, publish func(route.Declared)) {
	c := etcdkeys.Config{
		Endpoints: []string{strings.TrimPrefix(s.cfg.Etcd, "etcd://")}, Prefix: s.prefix(), Most: mostKeys,
	}
	var last []fleet.Endpoint
	etcdkeys.Follow(ctx, c, func(keys map[string]string) {
		s.etcd.set(keys)
		last = s.publishChanged(last, keys, publish)
	}, func(err error) { s.log.Warn("etcd failed; retrying", "etcd", s.cfg.Etcd, "error", err) })
}
