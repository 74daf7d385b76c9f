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

// newDisaggregation makes the rules for splitting requests and the connector; a nil connector means each kind of
// engine's own.
func newDisaggregation(cfg *config.Config) (d route.Disaggregation, connector handover.Connector, err error) {
	c, _ := cfg.Disaggregation.Effective()
	d = route.Disaggregation{When: fleet.SplitWhen(c.When), Threshold: c.Threshold, NoFallback: !c.Fallback}
	prefill, decode := cfg.PolicyNamed(c.PrefillPolicy), cfg.DecodePolicyConfig()
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

// peers checks whether each role has peers among the current endpoints, which discovery may change.
type peers struct {
	log   *slog.Logger
	amiss string // the last warning logged; "" for none
}

// check logs when a role has no peers, and when it has some again.
func (p *peers) check(all []fleet.Endpoint) {
	amiss := ""
	if err := fleet.CheckRoles(all); err != nil {
		amiss = err.Error()
	}
	switch {
	case amiss == p.amiss:
	case amiss != "":
		p.log.Warn("a role has no peers: requests are not split until it has", "why", amiss)
	default:
		p.log.Info("every role has peers again", "endpoints", len(all))
	}
	p.amiss = amiss
}

// placings are the settings of modelRules.
func placings(cfg *config.Config) (all []any) {
	for i := range cfg.Models.Settings {
		m := &cfg.Models.Settings[i]
		all = append(all, m.Match, m.Policy, m.Split)
	}
	return all
}

// modelRules are the rules by which requests for some models are placed.
func modelRules(cfg *config.Config) (all []route.ModelRules, err error) {
	for i := range cfg.Models.Settings {
		of := cfg.Placing(i)
		m := route.ModelRules{Names: of.Models.Settings[i].Match}
		if m.Policy, err = policy.New(of.Policy); err != nil {
			return nil, err
		}
		if m.Disaggregation, _, err = newDisaggregation(&of); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// readsContent reports whether a policy in force reads prompts.
func readsContent(cfg *config.Config) bool {
	for i := range cfg.Models.Settings {
		of := cfg.Placing(i)
		if policy.ReadsContent(of.Policy) {
			return true
		}
	}
	c, _ := cfg.Disaggregation.Effective()
	return policy.ReadsContent(cfg.Policy) || policy.ReadsContent(cfg.PolicyNamed(c.PrefillPolicy)) ||
		policy.ReadsContent(cfg.DecodePolicyConfig())
}
