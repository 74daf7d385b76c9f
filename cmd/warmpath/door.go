package main

import (
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/internal/proxy/transfers"
	"github.com/warmpath/warmpath/route"
)

// bounded adds the bounds on the effect of failed requests on a fleet.
func bounded(cfg *config.Config, c route.Config) route.Config {
	c.EjectShare, c.PanicShare = cfg.Health.Shares()
	c.RetryShare, c.RetryFloor = cfg.Limits.RetryBudget()
	return c
}

// tenantsOf is how the door distinguishes tenants; nil if there is only one. before are the keys that these replace.
func tenantsOf(cfg *config.Config, before *identity.Tenants) (*identity.Tenants, error) {
	t := cfg.Tenants
	if t.Header == "" && len(t.APIKeys) == 0 && t.KeysFile == "" {
		return nil, nil
	}
	listed, err := t.Keys()
	if err != nil {
		return nil, err
	}
	keys := identity.Keys{}
	for sum, k := range listed {
		keys.Add(sum, identity.Key{Tenant: k.Tenant, Name: k.Name, Models: k.Models, Ends: k.Ends.Time})
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
	return &identity.Tenants{
		Header: t.Header, Keys: keys, Models: models, EachModels: each.Models, Required: t.Required,
		Forward: t.ForwardKeys, SaltKey: salt, MustSalt: t.SaltRequired,
	}, err
}

// noneIfZero is a number of retries for the door, where 0 is the default.
func noneIfZero(retries int) int {
	if retries == 0 {
		return -1
	}
	return retries
}

// modelBounds are the door's bounds for some models.
func modelBounds(cfg *config.Config) (all []proxy.ModelBounds) {
	for i := range cfg.Models.Settings {
		m := &cfg.Models.Settings[i]
		b := proxy.Bounds{
			BodyBytes: int64(m.Body), FirstByte: m.Timeouts.FirstByte, Answer: m.Timeouts.Answer, Idle: m.Timeouts.Idle,
			Refusing: m.Timeouts.Refusing, Tunnel: m.Timeouts.Tunnel, Comments: m.Timeouts.Comments,
			AtOnce: cfg.SentAtOnce(i),
		}
		if m.Retries != nil {
			b.Retries = noneIfZero(*m.Retries)
		}
		all = append(all, proxy.ModelBounds{Models: m.Match, Bounds: b})
	}
	return all
}

// tokenOf makes the endpoint tokens of clients; nil if they are off. Its secret has been read once already.
func tokenOf(cfg *config.Config) *identity.EndpointToken {
	secret, err := cfg.EndpointToken.Secret()
	if cfg.EndpointToken.Header == "" || err != nil {
		return nil
	}
	return identity.NewEndpointToken(cfg.EndpointToken.Header, secret)
}

func proxyConfig(cfg *config.Config, tenants *identity.Tenants, limits *quota.Table,
	connector handover.Connector,
) proxy.Config {
	retries, largest := noneIfZero(cfg.Limits.Retries), cfg.Limits
	largest.Body = cfg.LargestBody()
	return proxy.Config{
		NetHTTP:   cfg.NetHTTP(),
		BodyBytes: int64(cfg.Limits.Body), HeaderBytes: int64(cfg.Limits.Header), Retries: retries,
		Pinning: cfg.Pinning, Explain: cfg.Explain.Headers,
		Transfers: cfg.Trust.TransferFields, Details: cfg.Trust.Details == config.DetailsToAll,
		AdminToken: cfg.Admin.Token, Names: namesOf(cfg), Proxies: proxiesOf(cfg), Paths: pathsOf(cfg),
		Origins: cfg.CORS.Origins, Quota: limits, Tenants: tenants, NeedsContent: readsContent(cfg),
		Shadow: len(cfg.Shadow.Policies) > 0 || cfg.Record.File != "", ByContent: cfg.ByContent, Token: tokenOf(cfg),
		NoUsage: !cfg.AskUsage, DropAttribution: cfg.DropAttribution, Characters: cfg.Disaggregation.CountsCharacters(),
		FirstTurn: cfg.SendIsFirstTurn, SessionHeader: cfg.KVEvents.SessionHeader,
		FirstByte: cfg.Timeouts.FirstByte, Answer: cfg.Timeouts.Answer, Idle: cfg.Timeouts.Idle,
		Refusing: cfg.Timeouts.Refusing, ReadBody: cfg.Timeouts.ReadBody, Upload: cfg.Timeouts.Upload,
		Tunnel: cfg.Timeouts.Tunnel, Comments: cfg.Timeouts.Comments, MemoryBytes: bodyMemory(largest, usable()),
		Models: modelBounds(cfg), Connector: connector, WrapErrors: cfg.Disaggregation.WrapsErrors(),
		NoFallback: !cfg.Disaggregation.Fallback, Bidirectional: cfg.Disaggregation.Bidirectional,
		TRTLLM: trtllmOptions(cfg), Numbers: transfers.NewNumbers(cfg.TRTLLM.NodeID, cfg.TRTLLM.ProcessID),
	}
}
