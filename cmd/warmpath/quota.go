package main

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/route"
)

// quotaConfig gathers the limits of all together and of tenants.
func quotaConfig(cfg *config.Config) quota.Config {
	l, t := &cfg.Limits, cfg.Tenants
	all, _ := fleet.ParsePriority(l.Priority) // it has passed Validate
	c := quota.Config{
		All: quota.Limits{
			Connections: l.Connections, Requests: l.Requests, RequestsPerMinute: l.RequestsPerMinute,
			TokensPerMinute: l.TokensPerMinute, Wait: l.Wait, QueueClass: fleet.QueueClass{Priority: all},
		},
		Tenant: !t.Each.None() || len(t.Limits) > 0,
		Client: quota.Limits{
			Connections: l.Client.Connections, Requests: l.Client.Requests,
			RequestsPerMinute: l.Client.RequestsPerMinute, TokensPerMinute: l.Client.TokensPerMinute,
		},
	}
	limits := func(of config.TenantLimits) quota.Limits {
		priority, _ := fleet.ParsePriority(of.Priority)
		if of.Priority == "" {
			priority = all
		}
		wait := l.Wait
		if of.Wait > 0 {
			wait = of.Wait
		}
		return quota.Limits{
			Connections: max(of.Connections, 0), Requests: max(of.Requests, 0),
			RequestsPerMinute: max(of.RequestsPerMinute, 0), TokensPerMinute: max(of.TokensPerMinute, 0), Wait: wait,
			QueueClass: fleet.QueueClass{
				Share: of.Share, Priority: priority, MaxWaiting: max(of.Waiting, 0),
				MaxRunning: max(of.Running, 0),
			},
		}
	}
	of, each := t.LimitsOf()
	c.Each, c.Of = limits(each), map[string]quota.Limits{}
	for _, l := range of {
		c.Of[l.Tenant] = limits(l)
	}
	return c
}

// queueOf is the router's queue.
func queueOf(cfg *config.Config) route.QueueConfig {
	q, _ := cfg.RouteQueue()
	q.Most = cfg.Limits.Waiting
	return q
}

// admits reports whether turns may be held before they are placed.
func admits(cfg *config.Config) bool {
	on, _ := cfg.Admits()
	return on
}

// limitFigures returns the accounts for the metrics.
func limitFigures(t *quota.Table) func() metrics.Limits {
	return func() (l metrics.Limits) {
		l.Connected = t.Connected()
		for r, n := range t.Refused() {
			l.Refused = append(l.Refused, metrics.Refused{Limit: r.Limit, Tenant: r.Tenant, Count: n})
		}
		for _, u := range t.Usages(time.Now()) {
			l.Usage = append(l.Usage, metrics.TenantUsage(u))
		}
		return l
	}
}
