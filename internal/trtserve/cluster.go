package trtserve

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/route"
)

// worker is the value that a worker stores under its key (disagg_auto_scaling.py).
type worker struct {
	ID   string `json:"worker_id"`
	Host string `json:"host"`
	Port int    `json:"port"`
	Role int    `json:"role"`
}

// The roles of workers. Other roles (image encoders, embeddings) are ignored.
const (
	roleContext    = 0
	roleGeneration = 1
)

// prefix is the prefix of all keys of the cluster's workers.
func (s *Server) prefix() string { return "/trtllm-disagg/" + s.cfg.ClusterName + "/workers/" }

// list decodes workers in the order of their keys. It leaves out values that are not workers, and hosts that a URL
// would not take as a host.
func list(keys map[string]string) []worker {
	var out []worker
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		var v worker
		if json.Unmarshal([]byte(keys[k]), &v) == nil && isHost(v.Host) && v.Port > 0 && v.Port < 1<<16 {
			out = append(out, v)
		}
	}
	return out
}

func isHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || guard.IsName(s)
}

// registered returns the keys and values of the cluster's workers.
func (s *Server) registered() map[string]string {
	if s.cfg.Etcd != "" {
		return s.etcd.all()
	}
	return s.storage.withPrefix(s.prefix())
}

// workers returns the workers of both roles, for /cluster_info.
func (s *Server) workers() map[string][]worker {
	out := map[string][]worker{"context_servers": {}, "generation_servers": {}}
	for _, v := range list(s.registered()) {
		switch v.Role {
		case roleContext:
			out["context_servers"] = append(out["context_servers"], v)
		case roleGeneration:
			out["generation_servers"] = append(out["generation_servers"], v)
		}
	}
	return out
}

// endpointsOf turns workers into endpoints. An address that is registered twice (a worker that was killed and restarted
// before its key expired) is one endpoint. If its roles differ, it has both.
func endpointsOf(workers []worker) []fleet.Endpoint {
	var out []fleet.Endpoint
	at := map[string]int{}
	for _, v := range workers {
		role := map[int]fleet.Role{roleContext: fleet.RolePrefill, roleGeneration: fleet.RoleDecode}[v.Role]
		if role == fleet.RoleBoth {
			continue
		}
		name := net.JoinHostPort(v.Host, strconv.Itoa(v.Port))
		if i, twice := at[name]; twice {
			if out[i].Role != role {
				out[i].Role = fleet.RoleBoth
			}
			continue
		}
		at[name] = len(out)
		out = append(out, fleet.Endpoint{
			Name: name, URL: "http://" + name, Weight: 1, Kind: fleet.KindTRTLLM, Role: role, IDForm: fleet.IDAuto,
		})
	}
	slices.SortFunc(out, func(a, b fleet.Endpoint) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return out
}

// follow publishes the workers after each change, until ctx ends. Keys are checked for expiry every second, as in the
// original.
func (s *Server) follow(ctx context.Context, publish func(route.Declared)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last []fleet.Endpoint
	for {
		s.storage.mu.Lock()
		s.storage.sweep(s.storage.now())
		s.storage.mu.Unlock()
		last = s.publishChanged(last, s.registered(), publish)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.storage.changed:
		}
	}
}

// publishChanged publishes the workers if they differ from the last ones, and returns them.
func (s *Server) publishChanged(
	last []fleet.Endpoint, keys map[string]string, publish func(route.Declared),
) []fleet.Endpoint {
	now := endpointsOf(list(keys))
	if slices.EqualFunc(now, last, same) {
		return last
	}
	s.log.Info("workers registered or left", "workers", len(now))
	publish(route.Declared{Source: "trtllm", Endpoints: slices.Clone(now)})
	return now
}

func same(a, b fleet.Endpoint) bool { return a.Name == b.Name && a.Role == b.Role }
