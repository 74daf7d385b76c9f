// Package etcd finds engines that are registered in etcd, one key each. It only reads. A key whose value has faults is left out and said
// once; while etcd is away, what it said last holds.
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/etcdkeys"
	"github.com/warmpath/warmpath/route"
)

// Source follows what one entry of discovery.etcd declares.
type Source struct {
	c    discovery.EtcdConfig
	keys etcdkeys.Config
	log  *slog.Logger

	last []fleet.Endpoint
	told bool
	said map[string]bool // faults of the last look
	away bool            // said once
}

// New makes a source. Its faults are those of the configuration and of keys; etcd is first asked by Run.
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
	follow := etcdkeys.Config{Endpoints: c.Endpoints, Prefix: c.Prefix, User: c.User, Password: password, Most: discovery.MaxEndpoints}
	if slices.ContainsFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "https://") }) {
		follow.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &Source{c: c, keys: follow, log: log, said: map[string]bool{}}, nil
}

// Source is the name under which it publishes.
func (s *Source) Source() string { return "etcd:" + s.c.Prefix }

// Run follows the keys until ctx ends.
func (s *Source) Run(ctx context.Context, publish discovery.Publish) {
	err := etcdkeys.Follow(ctx, s.keys, func(keys map[string]string) { s.take(keys, publish) }, func(err error) {
		if !s.away {
			s.log.Warn("etcd cannot be followed; what it said last holds", "source", s.Source(), "kept", len(s.last), "error", err)
		}
		s.away = true
	})
	if err != nil {
		s.log.Error("etcd cannot be followed", "source", s.Source(), "error", err)
	}
}

// take publishes what the keys declare, if that changed. Where two keys declare one name or address the first counts.
func (s *Source) take(keys map[string]string, publish discovery.Publish) {
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
		if first := cmp.Or(names[c.Name], urls[c.URL]); err == nil && first != "" {
			err = fmt.Errorf("its name or address is that of the key %s", first)
		}
		if err != nil {
			say(key, err)
			continue
		}
		names[c.Name], urls[c.URL] = key, key
		configs = append(configs, c)
	}
	endpoints, err := discovery.Endpoints(configs, discovery.None())
	if err != nil {
		say(s.c.Prefix, err)
		s.said = said
		return
	}
	s.said = said
	if s.told && discovery.Equal(endpoints, s.last) {
		return
	}
	s.log.Info("endpoints changed", "source", s.Source(), "endpoints", len(endpoints))
	s.last, s.told = endpoints, true
	publish(route.Declared{Source: s.Source(), Endpoints: slices.Clone(endpoints)})
}
