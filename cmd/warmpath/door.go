package main

import (
	"os"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/handoff"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/internal/proxy/who"
	"github.com/warmpath/warmpath/route"
)

// bounded adds the bounds on the effect of failed requests on a fleet.
func bounded(cfg *config.Config, c route.Config) route.Config {
	c.EjectShare, c.PanicShare = cfg.Health.Shares()
	c.RetryShare, c.RetryFloor = cfg.Limits.RetryBudget()
	return c
}

// tenantsOf is how the door distinguishes tenants; nil if there is only one. before are the keys that these replace.
func tenantsOf(cfg *config.Config, before *who.Tenants) (*who.Tenants, error) {
	t := cfg.Tenants
	if t.Header == "" && len(t.APIKeys) == 0 && t.KeysFile == "" {
		return nil, nil
	}
	listed, err := t.Keys()
	if err != nil {
		return nil, err
	}
	keys := who.Keys{}
	for sum, k := range listed {
		keys.Add(sum, who.Key{Tenant: k.Tenant, Name: k.Name, Models: k.Models, Ends: k.Ends.Time})
	}
	if before != nil {
		keys.Keep(before.Keys)
	}
	of, each := t.LimitsOf()
	models := map[string]fleet.Names{}
	for _, l := range of {
		models[l.Tenant] = l.Models
	}
	salt, err := t.Salt()
	return &who.Tenants{
		Header: t.Header, Keys: keys, Models: models, EachModels: each.Models, Required: t.Required, Forward: t.ForwardKeys, SaltKey: salt, MustSalt: t.SaltRequired,
	}, err
}

// tokenOf makes the endpoint tokens of clients; nil if they are off. Its secret has been read once already.
func tokenOf(cfg *config.Config) *who.EndpointToken {
	secret, err := cfg.EndpointToken.Secret()
	if cfg.EndpointToken.Header == "" || err != nil {
		return nil
	}
	return who.NewEndpointToken(cfg.EndpointToken.Header, secret)
}

func proxyConfig(cfg *config.Config, tenants *who.Tenants, limits *quota.Table, connector handover.Connector) proxy.Config {
	retries := cfg.Limits.Retries
	if retries == 0 {
		retries = -1 // no retries, as configured; the zero of proxy.Config means its default
	}
	return proxy.Config{
		NetHTTP:   cfg.NetHTTP(),
		BodyBytes: int64(cfg.Limits.Body), HeaderBytes: int64(cfg.Limits.Header), Retries: retries, Pinning: cfg.Pinning, Explain: cfg.Explain.Headers,
		Transfers: cfg.Trust.TransferFields, Details: cfg.Trust.Details == config.DetailsToAll, AdminToken: cfg.Admin.Token,
		Names: namesOf(cfg), Proxies: proxiesOf(cfg), Paths: pathsOf(cfg), Origins: cfg.CORS.Origins, Quota: limits, Tenants: tenants, NeedsContent: readsContent(cfg), Shadow: len(cfg.Shadow.Policies) > 0 || cfg.Record.File != "", ByContent: cfg.ByContent, Token: tokenOf(cfg), NoUsage: !cfg.AskUsage, Characters: cfg.Disaggregation.CountsCharacters(), FirstTurn: cfg.SendIsFirstTurn, SessionHeader: cfg.KVEvents.SessionHeader,
		FirstByte: cfg.Timeouts.FirstByte, Answer: cfg.Timeouts.Answer, Idle: cfg.Timeouts.Idle,
		Refusing: cfg.Timeouts.Refusing, ReadBody: cfg.Timeouts.ReadBody, Upload: cfg.Timeouts.Upload, Tunnel: cfg.Timeouts.Tunnel, MemoryBytes: bodyMemory(cfg.Limits, os.DirFS("/")),
		Connector: connector, WrapErrors: cfg.Disaggregation.WrapsErrors(), NoFallback: !cfg.Disaggregation.Fallback, Bidirectional: cfg.Disaggregation.Bidirectional, TRTLLM: trtllmOptions(cfg), Numbers: handoff.NewNumbers(cfg.TRTLLM.NodeID, cfg.TRTLLM.ProcessID),
	}
}
