package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/shortage"
)

// serveAdmin serves the admin API, the metrics and the status page on l.
func (r *router) serveAdmin(l net.Listener) {
	declared := discovery.NewAdmin("admin", r.publish, r.taken)
	started := time.Now()
	handler := func(g *generation) http.Handler {
		r.tally.Compare(g.shadows.compare())
		return admin.New(admin.Config{
			Fleet: r.fleet, Version: r.build.Version, Started: started, Token: g.cfg.Admin.Token,
			ReadToken: g.cfg.Admin.ReadToken, Hosts: hostsOf(g.cfg), Endpoints: declared, Source: "admin",
			Parse: parseDeclaration, Duplicate: discovery.ErrDuplicate, NotDeclared: discovery.ErrNotDeclared,
			Reload: r.reload, Running: r.reloads.state,
			Ready:   http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.doors.now.Load().Ready(w, q) }),
			Metrics: r.meter.Handler(), Settings: func() any { return g.cfg.Settings() }, Aliases: shownAliases(g.cfg),
			ModelSettings: modelSettings(g.cfg), Tally: r.tally, Pools: r.full.Pools, Streams: r.streams, Log: r.log,
			Decisions: g.why.handler(), Shadow: g.shadows.handler(), Replicas: r.replicas.handler(),
			Keys: keysOf(g.door.Tenants), Concerns: func() []admin.Concern { return r.concerns(g) },
		})
	}
	r.reloads.adminOf(r.current(), handler)
	cfg := r.current().cfg
	r.admin = r.sideServer(cfg, http.HandlerFunc(r.reloads.serveAdmin))
	r.admin.TLSConfig = r.tlsConfig(func(g *generation) *tls.Config { return g.adminTLS })
	r.serveHTTP("admin", r.admin, shortage.Few(shortage.Listener(l, "admin", r.log)), cfg.Admin.TLS)
}

// shownAliases are the aliases' models, with their shares.
func shownAliases(cfg *config.Config) map[string][]string {
	out := make(map[string][]string, len(cfg.Models.Aliases))
	for name, models := range cfg.Models.Aliases {
		out[name] = models.Shown()
	}
	return out
}

// modelSettings are the settings for some models, in words.
func modelSettings(cfg *config.Config) (all []admin.ModelSettings) {
	for i := range cfg.Models.Settings {
		m := &cfg.Models.Settings[i]
		all = append(all, admin.ModelSettings{Models: m.Match, Text: m.Describe()})
	}
	return all
}

// parseDeclaration expands a declaration of the admin API. Keys in files or variables are not read for a caller from
// the network.
func parseDeclaration(d admin.Declaration) ([]fleet.Endpoint, error) {
	return discovery.Endpoints([]discovery.EndpointConfig{{
		URL: d.URL, Name: d.Name, Kind: d.Kind, Role: d.Role, Weight: d.Weight, Models: d.Models, Ranks: d.Ranks,
		Slots: d.Slots,
	}}, discovery.None())
}
