package metrics

import "github.com/warmpath/warmpath/internal/panics"

// watchPanics adds the process's caught panics.
func (m *Metrics) watchPanics() {
	m.watch(func(send sender) {
		for who, n := range panics.Counts() {
			send("warmpath_panics_total", float64(n), string(who))
		}
	})
}
