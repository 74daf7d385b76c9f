package metrics

// Limits has the counts of limits; cmd makes it from the door's accounts.
type Limits struct {
	Refused   []Refused
	Connected int // client connections
	Usage     []TenantUsage
}

// Refused is how often a limit rejected a request.
type Refused struct {
	Limit, Tenant string // "" for the limit of all together
	Count         uint64
}

// TenantUsage is the usage of a tenant, or of all together.
type TenantUsage struct {
	Tenant           string
	Open             int
	Requests, Tokens *int64 // left of a minute; nil without a limit

	UsedRequests, UsedTokens int64 // of requests that have ended
}

// WatchLimits adds the limits' usage. It is called at most once, before the first scrape.
func (m *Metrics) WatchLimits(now func() Limits) {
	m.watch(func(send sender) {
		l := now()
		send("warmpath_client_connections", float64(l.Connected))
		for _, r := range l.Refused {
			send("warmpath_limited_total", float64(r.Count), r.Limit, r.Tenant)
		}
		for _, u := range l.Usage {
			send("warmpath_tenant_open_requests", float64(u.Open), u.Tenant)
			send("warmpath_tenant_used_total", float64(u.UsedRequests), u.Tenant, "requests")
			send("warmpath_tenant_used_total", float64(u.UsedTokens), u.Tenant, "tokens")
			if u.Requests != nil {
				send("warmpath_tenant_remaining", float64(*u.Requests), u.Tenant, "requests")
			}
			if u.Tokens != nil {
				send("warmpath_tenant_remaining", float64(*u.Tokens), u.Tenant, "tokens")
			}
		}
	})
}
