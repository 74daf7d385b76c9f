package metrics

import "time"

// WatchCertificates adds when the certificates that the router shows end, by setting. It is called at most once, before
// the first scrape.
func (m *Metrics) WatchCertificates(ends func() map[string]time.Time) {
	m.watch(func(send sender) {
		for setting, end := range ends() {
			send("warmpath_certificate_end_timestamp_seconds", float64(end.Unix()), setting)
		}
	})
}
