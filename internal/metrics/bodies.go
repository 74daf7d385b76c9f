package metrics

// Bodies is the memory of request bodies; cmd makes it from proxy.BodyMemory.
type Bodies struct {
	Held, Limit int64
	Refused     uint64
}

// WatchBodies adds the memory of request bodies. It is called at most once, before the first scrape.
func (m *Metrics) WatchBodies(now func() Bodies) {
	m.watch(func(send sender) {
		b := now()
		send("warmpath_body_held_bytes", float64(b.Held))
		send("warmpath_body_limit_bytes", float64(b.Limit))
		send("warmpath_bodies_refused_total", float64(b.Refused))
	})
}
