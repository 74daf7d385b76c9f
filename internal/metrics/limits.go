package metrics

import "github.com/prometheus/client_golang/prometheus"

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

// limitsCollector turns the accounts into series at the time of a scrape.
type limitsCollector struct {
	now                                       func() Limits
	refused, connected, open, remaining, used *prometheus.Desc
}

// WatchLimits adds the limits' usage. It is called at most once, before the first scrape.
func (m *Metrics) WatchLimits(now func() Limits) {
	desc := func(name string) *prometheus.Desc {
		f := familyOf(name)
		return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	m.registry.MustRegister(&limitsCollector{
		now, desc("warmpath_limited_total"), desc("warmpath_client_connections"), desc("warmpath_tenant_open_requests"),
		desc("warmpath_tenant_remaining"), desc("warmpath_tenant_used_total"),
	})
}

// Describe sends the families.
func (c *limitsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.refused
	ch <- c.connected
	ch <- c.open
	ch <- c.remaining
	ch <- c.used
}

// Collect reads the accounts.
func (c *limitsCollector) Collect(ch chan<- prometheus.Metric) {
	l := c.now()
	ch <- prometheus.MustNewConstMetric(c.connected, prometheus.GaugeValue, float64(l.Connected))
	for _, r := range l.Refused {
		ch <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(r.Count), r.Limit, r.Tenant)
	}
	for _, u := range l.Usage {
		ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(u.Open), u.Tenant)
		ch <- prometheus.MustNewConstMetric(c.used, prometheus.CounterValue, float64(u.UsedRequests),
			u.Tenant, "requests")
		ch <- prometheus.MustNewConstMetric(c.used, prometheus.CounterValue, float64(u.UsedTokens), u.Tenant, "tokens")
		for _, left := range []struct {
			of    string
			value *int64
		}{{"requests", u.Requests}, {"tokens", u.Tokens}} {
			if left.value != nil {
				ch <- prometheus.MustNewConstMetric(c.remaining, prometheus.GaugeValue, float64(*left.value),
					u.Tenant, left.of)
			}
		}
	}
}
