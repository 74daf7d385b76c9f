package metrics

// Fleet is the state of the connections to other routers of the fleet.
type Fleet struct {
	Peers                                                   int     // connected
	Expected                                                int     // that there should be, this one among them
	DelayMs                                                 float64 // longest delay of a peer's latest frame
	Sent, Received, SentBytes, ReceivedBytes, Refused, Gaps uint64
	// conversations written to the store, not written; failed attempts
	Kept, KeptDropped, KeptFailed uint64
}

// WatchReplicas adds the other routers. It is called at most once, before the first scrape.
func (m *Metrics) WatchReplicas(now func() Fleet) {
	m.watch(func(send sender) {
		f := now()
		send("warmpath_replicas", float64(f.Peers))
		send("warmpath_replicas_expected", float64(f.Expected))
		send("warmpath_replicas_delay_seconds", f.DelayMs/1000)
		send("warmpath_replicas_frames_total", float64(f.Sent), "sent")
		send("warmpath_replicas_frames_total", float64(f.Received), "received")
		send("warmpath_replicas_frames_total", float64(f.Refused), "refused")
		send("warmpath_replicas_frames_total", float64(f.Gaps), "gap")
		send("warmpath_replicas_bytes_total", float64(f.SentBytes), "sent")
		send("warmpath_replicas_bytes_total", float64(f.ReceivedBytes), "received")
		send("warmpath_replicas_kept_total", float64(f.Kept), "written")
		send("warmpath_replicas_kept_total", float64(f.KeptDropped), "dropped")
		send("warmpath_replicas_kept_total", float64(f.KeptFailed), "failed")
	})
}
