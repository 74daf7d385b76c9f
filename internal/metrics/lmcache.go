package metrics

// Notifications are the total counts of LMCache's notifications of pushed KV cache.
type Notifications struct {
	Taken, Unknown, Malformed, Missing, Refused uint64
}

// WatchLMCache counts the notifications of LMCache. It is called at most once, before the first scrape.
func (m *Metrics) WatchLMCache(now func() Notifications) {
	m.watch(func(send sender) {
		n := now()
		send("warmpath_lmcache_notifications_total", float64(n.Taken), "taken")
		send("warmpath_lmcache_notifications_total", float64(n.Unknown), "unknown")
		send("warmpath_lmcache_notifications_total", float64(n.Malformed), "malformed")
		send("warmpath_lmcache_notifications_total", float64(n.Missing), "missing")
		send("warmpath_lmcache_notifications_total", float64(n.Refused), "refused")
	})
}
