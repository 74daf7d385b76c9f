// Package etcd discovers engines that are registered in etcd, one key each. It only reads. A key with faults is left
// out and logged once. While etcd is unavailable, the last endpoints stay.
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/etcdkeys"
	"github.com/warmpath/warmpath/route"
)

// Source watches the keys of one entry of discovery.etcd.
type Source struct {
	c    discovery.EtcdConfig
	keys etcdkeys.Config
	log  *slog.Logger

	last []fleet.Endpoint
	sent bool            // published at least once
	said map[string]bool // faults of the last keys, logged once
	away bool            // it cannot be watched
}

// New makes a source. It fails for faults of the configuration and for missing keys. Run connects to etcd.
func New(c discovery.EtcdConfig, keys discovery.Keys, log *slog.Logger) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var err error
	if c.Engine, err = c.Engine.WithKey(keys); err != nil {
		return nil, err
	}
	password, err := c.Password(keys)
	if err != nil {
		return nil, err
	}
	follow := etcdkeys.Config{
		Endpoints: c.Endpoints, Prefix: c.Prefix, User: c.User, Password: password, Most: discovery.MaxEndpoints,
	}
	if slices.ContainsFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "https://") }) {
		follow.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &Source{c: c, keys: follow, log: log, said: map[string]bool{}}, nil
}

// Source is the name of the source.
func (s *Source) Source() string { return "etcd:" + s.c.Prefix }

// Same implements discovery.Runner.
func (s *Source) Same(before discovery.Runner) bool {
	o, ok := before.(*Source)
	return ok && reflect.DeepEqual(s.c, o.c) && s.keys.Password == o.keys.Password
}

// Run watches the keys until ctx ends.
func (s *Source) Run(ctx context.Context, publish discovery.Publish) {
	etcdkeys.Follow(ctx, s.keys, func(keys map[string]string) { s.take(keys, publish) }, func(err error) {
		s.log.Warn("cannot watch etcd; keeping the last endpoints",
			"source", s.Source(), "kept", len(s.last), "error", err)
		s.away = true
	})
}

// take publishes the declared endpoints if they changed. If two keys declare the same name or address, the first one
// counts.
func (s *Source) take(keys map[string]string, publish discovery.Publish) {
	if s.away {
		s.log.Info("etcd can be watched again", "source", s.Source())
	}
	s.away = false
	said := map[string]bool{}
	say := func(key string, err error) {
		text := fmt.Sprintf("the key %s is left out: %v", key, err)
		if said[text] = true; !s.said[text] {
			s.log.Warn(text, "source", s.Source())
		}
	}
	var configs []discovery.EndpointConfig
	names, urls := map[string]string{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		c, err := s.c.Declares(strings.TrimPrefix(key, s.c.Prefix), keys[key])
		name, at := c.Place()
		if first := cmp.Or(names[name], urls[at]); err == nil && first != "" {
			err = fmt.Errorf("the key %s has the same name or address", first)
		}
		if err != nil {
			say(key, err)
			continue
		}
		names[name], urls[at] = key, key
		configs = append(configs, c)
	}
	endpoints, err := discovery.Endpoints(configs, discovery.None())
	if err != nil {
		say(s.c.Prefix, err)
		s.said = said
		return
	}
	s.said = said
	if s.sent && discovery.Equal(endpoints, s.last) {
		return
	}
	s.log.Info("endpoints changed", "source", s.Source(), "endpoints", len(endpoints))
	s.last, s.sent = endpoints, true
	publish(route.Declared{Source: s.Source(), Endpoints: slices.Clone(endpoints)})
}
