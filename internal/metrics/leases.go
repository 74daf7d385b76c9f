package metrics

// WatchLeases adds the leases of programs that send requests themselves. It is called at most once, before the first
// scrape.
func (m *Metrics) WatchLeases(open func() int, expired func() uint64) {
	m.watch(func(send sender) {
		send("warmpath_lease_calls", float64(open()))
		send("warmpath_lease_expired_total", float64(expired()))
	})
}
