package proxy

// AbortInSteps does what Abort does, the oldest request first, and calls wait after each of them: Abort is as slow as
// this on a busy machine.
func (p *Proxy) AbortInSteps(wait func()) {
	var open []inFlight
	p.flights.each(func(f inFlight) {
		f.stopRetries()
		open = append(open, f)
	})
	for _, one := range open {
		p.flights.each(func(f inFlight) {
			if f == one { // else it has ended meanwhile
				f.abort()
			}
		})
		wait()
	}
	p.abort()
}
