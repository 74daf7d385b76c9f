package main

import (
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// newDisaggregation is how pools with roles are served, and by which protocol; a nil one goes by the kind of engine.
func newDisaggregation(cfg *config.Config) (d route.Disaggregation, connector handover.Connector, err error) {
	c, stack := cfg.Disaggregation.Effective()
	d = route.Disaggregation{When: route.When(c.When), Threshold: c.Threshold, NoFallback: !c.Fallback}
	prefill, decode := cfg.PolicyNamed(c.PrefillPolicy), cfg.PolicyNamed(c.DecodePolicy)
	d.PrefillName, d.DecodeName = prefill.Name, decode.Name
	if stack {
		d.Tokens = policy.StackRequestTokens
	}
	if d.Prefill, err = policy.New(prefill); err != nil {
		return d, nil, err
	}
	if d.Decode, err = policy.New(decode); err != nil {
		return d, nil, err
	}
	if c.Connector != "" {
		connector, err = handover.ByName(c.Connector)
	}
	return d, connector, err
}

// checkRoles logs when a role has no peers among the endpoints there are, which may come from sources that change, and when it has got some.
func (r *router) checkRoles(all []fleet.Endpoint) {
	amiss := ""
	if err := fleet.CheckRoles(all); err != nil {
		amiss = err.Error()
	}
	switch {
	case amiss == r.lonely:
	case amiss != "":
		r.log.Warn("a role has no peers: nothing is split until it has", "why", amiss)
	default:
		r.log.Info("every role has peers again", "endpoints", len(all))
	}
	r.lonely = amiss
}

// readsContent reports whether some policy that is obeyed goes by what prompts consist of.
func readsContent(cfg *config.Config) bool {
	c, _ := cfg.Disaggregation.Effective()
	return policy.ReadsContent(cfg.Policy) || policy.ReadsContent(cfg.PolicyNamed(c.PrefillPolicy)) || policy.ReadsContent(cfg.PolicyNamed(c.DecodePolicy))
}
