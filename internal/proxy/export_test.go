package proxy

import (
	"time"

	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// StopOnce keeps Run from running for a time, as when the process is stopped, from its next look on.
func (p *Proxy) StopOnce(d time.Duration) { p.flights.add(new(link), &stop{d}) }

type stop struct{ left time.Duration }

func (s *stop) check(time.Time, *timeouts.Unreachable, bool) { time.Sleep(s.left); s.left = 0 }
func (s *stop) signs(*route.StreamsAlive, time.Time)         {}
func (s *stop) skip(time.Duration)                           {}
func (s *stop) stopRetries()                                 {}
func (s *stop) abort()                                       {}

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
