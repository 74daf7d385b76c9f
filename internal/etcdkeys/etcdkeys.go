// Package etcdkeys follows the keys under a prefix of etcd. It owns the connection and the copy of the keys, promises
// that each copy is whole, and says nothing of what the keys mean.
package etcdkeys

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/warmpath/warmpath/internal/httpclient"
)

// Config says where the keys are.
type Config struct {
	Endpoints []string // host:port, with http:// or https:// before it or not
	Prefix    string
	User      string
	Password  string
	TLS       *tls.Config // nil for none
	Most      int         // keys that are read; further ones are left out
}

const (
	wait  = 5 * time.Second  // for an answer
	again = time.Second      // after a failure
	probe = 10 * time.Second // of a connection on which nothing comes: a watch would not notice that it leads nowhere
)

var errWatchEnded = errors.New("the watch ended")

// Follow calls changed with a copy of all keys and their values, at first and whenever they changed, until ctx ends.
// When etcd cannot be reached it calls failed, once, and then nothing until it has read the keys again.
func Follow(ctx context.Context, c Config, changed func(map[string]string), failed func(error)) {
	away := false
	read := func(keys map[string]string) {
		away = false
		changed(keys)
	}
	lost := func(err error) {
		if !away {
			failed(err)
		}
		away = true
	}
	for {
		err := connect(ctx, c, read, lost)
		if ctx.Err() != nil {
			return
		}
		lost(err)
		if !pause(ctx) {
			return
		}
	}
}

// connect follows the keys over one client until ctx ends. The error says why there is none: one with a user's name
// asks etcd for a token first. gRPC would ask through the environment's proxy, also without TLS.
func connect(ctx context.Context, c Config, changed func(map[string]string), failed func(error)) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, DialTimeout: wait, DialKeepAliveTime: probe, DialKeepAliveTimeout: wait,
		Logger: zap.NewNop(), Context: ctx, Username: c.User, Password: c.Password, TLS: c.TLS,
		DialOptions: []grpc.DialOption{grpc.WithMaxHeaderListSize(httpclient.HeadBytes), grpc.WithNoProxy()},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		err := watch(ctx, client, c, changed)
		if ctx.Err() != nil {
			return nil
		}
		failed(err)
		if !pause(ctx) {
			return nil
		}
	}
}

// pause waits before the next attempt. It reports false when ctx ends.
func pause(ctx context.Context) bool {
	t := time.NewTimer(again)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// watch reads the keys and follows their changes until that fails.
func watch(ctx context.Context, client *clientv3.Client, c Config, changed func(map[string]string)) error {
	asked, cancel := context.WithTimeout(ctx, wait)
	got, err := client.Get(asked, c.Prefix, clientv3.WithPrefix(), clientv3.WithLimit(int64(c.Most)))
	cancel()
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for _, kv := range got.Kvs {
		keys[string(kv.Key)] = string(kv.Value)
	}
	changed(maps.Clone(keys))
	watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	for w := range client.Watch(watching, c.Prefix, clientv3.WithPrefix(), clientv3.WithRev(got.Header.Revision+1)) {
		if err := w.Err(); err != nil {
			return err
		}
		for _, ev := range w.Events {
			key := string(ev.Kv.Key)
			if ev.Type == clientv3.EventTypeDelete {
				delete(keys, key)
			} else if _, there := keys[key]; there || len(keys) < c.Most {
				keys[key] = string(ev.Kv.Value)
			}
		}
		changed(maps.Clone(keys))
	}
	return errWatchEnded
}
