package trtserve

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// etcdKeys are the keys of workers that register in etcd (disagg_cluster with a cluster_uri of etcd://), as the router sees them.
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

// change takes in an event of a watch.
func (e *etcdKeys) change(ev *clientv3.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ev.Type == clientv3.EventTypeDelete {
		delete(e.keys, string(ev.Kv.Key))
		return
	}
	if e.keys == nil {
		e.keys = map[string]string{}
	}
	if len(e.keys) < mostKeys {
		e.keys[string(ev.Kv.Key)] = string(ev.Kv.Value)
	}
}

const (
	etcdWait  = 5 * time.Second // for an answer
	etcdAgain = time.Second     // after a failure
)

var errWatchEnded = errors.New("the watch ended")

// followEtcd publishes the workers in etcd whenever they changed, until ctx ends. While etcd cannot be reached those it named last stay: health
// checks judge them.
func (s *Server) followEtcd(ctx context.Context, publish func(route.Declared)) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{strings.TrimPrefix(s.cfg.Etcd, "etcd://")}, DialTimeout: etcdWait, Logger: zap.NewNop(), Context: ctx,
	})
	if err != nil {
		s.log.Error("workers cannot be followed in etcd", "etcd", s.cfg.Etcd, "error", err)
		return
	}
	defer client.Close()
	var last []fleet.Endpoint
	for {
		err := s.watchEtcd(ctx, client, func() { last = s.publishChanged(last, s.etcd.all(), publish) })
		if ctx.Err() != nil {
			return
		}
		s.log.Warn("etcd failed, and is asked again", "etcd", s.cfg.Etcd, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(etcdAgain):
		}
	}
}

// watchEtcd reads the workers and follows their changes until that fails.
func (s *Server) watchEtcd(ctx context.Context, client *clientv3.Client, changed func()) error {
	asked, cancel := context.WithTimeout(ctx, etcdWait)
	got, err := client.Get(asked, s.prefix(), clientv3.WithPrefix(), clientv3.WithLimit(mostKeys))
	cancel()
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for _, kv := range got.Kvs {
		keys[string(kv.Key)] = string(kv.Value)
	}
	s.etcd.set(keys)
	changed()
	watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	for w := range client.Watch(watching, s.prefix(), clientv3.WithPrefix(), clientv3.WithRev(got.Header.Revision+1)) {
		if err := w.Err(); err != nil {
			return err
		}
		for _, ev := range w.Events {
			s.etcd.change(ev)
		}
		changed()
	}
	return errWatchEnded
}
