package main

import (
	"log/slog"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/policy/stack"
	"github.com/warmpath/warmpath/route"
)

// newDisaggregation makes the rules for splitting requests and the connector; a nil connector means that of each kind of engine.
func newDisaggregation(cfg *config.Config) (d route.Disaggregation, connector handover.Connector, err error) {
	c, _ := cfg.Disaggregation.Effective()
	d = route.Disaggregation{When: route.When(c.When), Threshold: c.Threshold, NoFallback: !c.Fallback}
	prefill, decode := cfg.PolicyNamed(c.PrefillPolicy), cfg.DecodePolicyConfig()
	d.PrefillName, d.DecodeName = prefill.Name, decode.Name
	if cfg.Disaggregation.CountsCharacters() {
		d.Tokens = stack.RequestTokens
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

// peers watches whether each role has peers among the endpoints there are, which may come from sources that change.
type peers struct {
	log   *slog.Logger
	amiss string // what was logged last; "" for nothing
}

// check logs when a role has no peers, and when it has got some.
func (p *peers) check(all []fleet.Endpoint) {
	amiss := ""
	if err := fleet.CheckRoles(all); err != nil {
		amiss = err.Error()
	}
	switch {
	case amiss == p.amiss:
	case amiss != "":
		p.log.Warn("a role has no peers: nothing is split until it has", "why", amiss)
	default:
		p.log.Info("every role has peers again", "endpoints", len(all))
	}
	p.amiss = amiss
}

// readsContent reports whether a policy that decides reads prompts.
func readsContent(cfg *config.Config) bool {
	c, _ := cfg.Disaggregation.Effective()
	return policy.ReadsContent(cfg.Policy) || policy.ReadsContent(cfg.PolicyNamed(c.PrefillPolicy)) || policy.ReadsContent(cfg.DecodePolicyConfig())
}
