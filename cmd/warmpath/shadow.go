package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/shadow"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy"
	shadowcore "github.com/warmpath/warmpath/route/shadow"
)

// shadows is the part of a router that evaluates shadow policies; inactive without any.
type shadows struct {
	*shadow.Shadow
	judging *task // nil if no shadow is evaluated, or before it begins
}

func newShadows(cfg *config.Config, log *slog.Logger) (*shadows, error) {
	if len(cfg.Shadow.Policies) == 0 {
		return &shadows{}, nil
	}
	c := shadow.Config{Budget: cfg.Shadow.Budget, Log: log}
	c.Acting, c.Sessions = cfg.Policy.WithDefaults().Name, cfg.Sessions
	for _, p := range shadowPolicies(cfg) {
		make, err := policy.New(p)
		if err != nil {
			return nil, err
		}
		c.Policies = append(c.Policies, shadowcore.Policy{Name: p.Name, New: make})
	}
	return &shadows{Shadow: shadow.New(c)}, nil
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

// on reports whether there are any.
func (s *shadows) on() bool { return s.Shadow != nil }

// needs are what they need of the router's views.
func (s *shadows) needs() pick.Needs {
	if s.on() {
		return s.Needs()
	}
	return pick.Needs{}
}

// most is the size of a pool above which decisions look at a shortlist, see route.Config: shadows need all candidates.
func (s *shadows) most() int {
	if s.on() {
		return -1
	}
	return 0
}

// listener receives the decisions.
func (s *shadows) listener() live.Listener {
	if !s.on() {
		return live.Listener{}
	}
	return s.Listener()
}

// handler answers GET /admin/shadow; nil without shadows.
func (s *shadows) handler() http.Handler {
	if !s.on() {
		return nil
	}
	return s.Shadow
}

// compare returns the policies' results for the page's history; nil without shadows.
func (s *shadows) compare() func() []admin.Beside {
	if !s.on() {
		return nil
	}
	return func() []admin.Beside {
		r := s.Report()
		world := func(policy string, w *shadowcore.World) admin.Beside {
			return admin.Beside{
				Policy: policy, Turns: w.Turns, TTFTMs: w.TTFTMs, PromptTokens: w.PromptTokens,
				CachedTokens: w.CachedTokens,
			}
		}
		out := []admin.Beside{world(r.Policy, &r.Acting)}
		for i := range r.Shadows {
			out = append(out, world(r.Shadows[i].Policy, &r.Shadows[i].Apart))
		}
		return out
	}
}

// run evaluates decisions until ctx ends, then logs the findings.
func (s *shadows) run(ctx context.Context, m *metrics.Metrics, log *slog.Logger) {
	switch {
	case s.judging != nil:
	case !s.on():
		m.WatchShadows(nil)
	default:
		m.WatchShadows(s.Shadow)
		s.judging = begin(ctx, func(ctx context.Context) {
			s.Run(ctx)
			s.Log(log)
		})
	}
}
