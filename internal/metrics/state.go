package metrics

import "time"

// State is the status of the state file.
type State struct {
	Saved    time.Time // zero for never
	Bytes    int64
	Failures uint64
	Restored bool
}

// WatchState adds the state file's status. It is called at most once, before the first scrape.
func (m *Metrics) WatchState(now func() State) {
	m.watch(func(send sender) {
		s, saved := now(), 0.0
		if !s.Saved.IsZero() {
			saved = float64(s.Saved.UnixMilli()) / 1000
		}
		send("warmpath_state_saved_timestamp_seconds", saved)
		send("warmpath_state_bytes", float64(s.Bytes))
		send("warmpath_state_restored", oneIf(s.Restored))
		send("warmpath_state_failures_total", float64(s.Failures))
	})
}
