package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/shadow"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/shadow"
)

// newShadow makes the policies that are asked and not obeyed; nil when there are none.
func newShadow(cfg *config.Config, log *slog.Logger) (*shadow.Shadow, error) {
	if len(cfg.Shadow.Policies) == 0 {
		return nil, nil
	}
	c := shadow.Config{Budget: cfg.Shadow.Budget, Log: log}
	c.Acting, c.Sessions = cfg.Policy.WithDefaults().Name, cfg.Sessions
	c.Estimator = func() shadow.Estimator { return policy.NewEstimator(cfg.Policy) }
	for _, p := range shadowPolicies(cfg) {
		make, err := policy.New(p)
		if err != nil {
			return nil, err
		}
		c.Policies = append(c.Policies, shadow.Policy{Name: p.Name, New: make})
	}
	return shadow.New(c), nil
}

// shadowPolicies are their configurations: the options of the acting policy's section under another name.
func shadowPolicies(cfg *config.Config) []policy.Config {
	var out []policy.Config
	for _, name := range cfg.Shadow.Policies {
		p := cfg.Policy
		p.Name = name
		out = append(out, p)
	}
	return out
}

func (r *router) shadowListener() live.Listener {
	if r.shadow == nil {
		return live.Listener{}
	}
	return r.shadow.Listener()
}

func (r *router) shadowHandler() http.Handler {
	if r.shadow == nil {
		return nil
	}
	return r.shadow
}

// runShadow judges decisions until ctx ends, then tells the log what was found.
func (r *router) runShadow(ctx context.Context, m *metrics.Metrics) {
	if r.shadow == nil {
		return
	}
	m.WatchShadows(r.shadow)
	r.wg.Go(func() {
		r.shadow.Run(ctx)
		r.shadow.Log(r.log)
	})
}
