package main

import (
	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// newDisaggregation is how pools with roles are served, and by which protocol; a nil one goes by the kind of engine.
func newDisaggregation(cfg *config.Config) (d route.Disaggregation, connector engine.Connector, err error) {
	c := cfg.Disaggregation
	d = route.Disaggregation{When: route.When(c.When), Threshold: c.Threshold, NoFallback: !c.Fallback}
	prefill, decode := cfg.PolicyNamed(c.PrefillPolicy), cfg.PolicyNamed(c.DecodePolicy)
	d.PrefillName, d.DecodeName = prefill.Name, decode.Name
	if d.Prefill, err = policy.New(prefill); err != nil {
		return d, nil, err
	}
	if d.Decode, err = policy.New(decode); err != nil {
		return d, nil, err
	}
	if c.Connector != "" {
		connector, err = engine.ConnectorByName(c.Connector)
	}
	return d, connector, err
}

// readsContent reports whether some policy that is obeyed goes by what prompts consist of.
func readsContent(cfg *config.Config) bool {
	c := cfg.Disaggregation
	return policy.ReadsContent(cfg.Policy) || policy.ReadsContent(cfg.PolicyNamed(c.PrefillPolicy)) || policy.ReadsContent(cfg.PolicyNamed(c.DecodePolicy))
}
