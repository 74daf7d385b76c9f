package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// A service is a part of an endpoint's work: turns of one model, or requests for one path. The endpoint may stop
// answering for one and go on with the others: a gateway one of whose engines hangs, an adapter that blocks its own
// requests, a server that answers chats and no embeddings. Its health is good then, and it is mute for that service.
type service struct {
	name       string
	lastByteAt time.Time // when a byte of an answer last came
	// of requests for a path: how many answers came, and the longest time that one took
	answers int
	longest time.Duration
	mutes   int       // times in a row that it was found mute
	until   time.Time // when it is tried again, if mutes is not 0
	trial   time.Time // when the request was sent that tries it; zero for none
}

// service is the row of a service, nil for one of which nothing has come.
func (e *endpoint) service(name string) *service {
	for i := range e.services { // not copied: each request looks here
		if e.services[i].name == name {
			return &e.services[i]
		}
	}
	return nil
}

// ServiceAlive records a byte of an answer of a service, which is no longer mute.
func (t *Table) ServiceAlive(slot int, name string, at time.Time) {
	e := t.endpoints.Get(slot)
	s := e.service(name)
	if s == nil {
		if len(e.services) == bound.Few {
			oldest := 0
			for i := range e.services {
				if e.services[i].lastByteAt.Before(e.services[oldest].lastByteAt) {
					oldest = i
				}
			}
			t.unmute(&e.services[oldest])
			e.services = slices.Delete(e.services, oldest, oldest+1)
		}
		e.services = append(e.services, service{name: name})
		s = &e.services[len(e.services)-1]
	}
	if at.After(s.lastByteAt) {
		s.lastByteAt = at
		t.unmute(s)
	}
}

// Took notes how long an answer for a path took.
func (t *Table) Took(slot int, path string, took time.Duration) {
	if s := t.endpoints.Get(slot).service(path); s != nil {
		s.answers++
		s.longest = max(s.longest, took)
	}
}

// Begun records that the endpoint has accepted a request that was sent at a time, and begun its answer.
func (t *Table) Begun(slot int, sent time.Time) {
	e := t.endpoints.Get(slot)
	e.refusals.accept(sent)
	e.begun = fleet.Later(e.begun, sent)
}

// Mute keeps requests for a service away from an endpoint, one of which has waited for so long.
func (t *Table) Mute(now time.Time, slot int, name string, waited time.Duration) {
	e := t.endpoints.Get(slot)
	s := e.service(name)
	if s == nil || now.Before(s.until) {
		return
	}
	if s.mutes == 0 {
		t.mutes++
	}
	d := t.ejection(s.mutes, waited)
	s.mutes++
	s.until, s.trial = now.Add(d), time.Time{}
	e.news = append(e.news, fmt.Sprintf("no data for %s in %v, although its health is good: its requests go elsewhere "+
		"for %v", name, waited.Round(time.Second), d.Round(time.Second)))
}

// AdmitService records that a request for a service is placed, which tries it if it was mute.
func (t *Table) AdmitService(now time.Time, slot int, name string) {
	if t.mutes == 0 {
		return
	}
	if s := t.endpoints.Get(slot).service(name); s != nil && s.mutes > 0 && !now.Before(s.until) {
		s.trial = now
	}
}

// UnmuteUntried forgets that services were mute that nothing has tried for EjectMax since they could be tried: their
// model or their endpoint may be gone, and while any is mute decisions look at each endpoint.
func (t *Table) UnmuteUntried(now time.Time) {
	for slot := 0; t.mutes > 0 && slot < t.endpoints.Len(); slot++ {
		e := t.endpoints.Get(slot)
		for i := range e.services {
			if s := &e.services[i]; s.mutes > 0 && now.Sub(fleet.Later(s.until, s.trial)) >= t.cfg.EjectMax {
				t.unmute(s)
			}
		}
	}
}

func (t *Table) unmute(s *service) {
	if s.mutes > 0 {
		t.mutes--
		s.mutes, s.until, s.trial = 0, time.Time{}, time.Time{}
	}
}

// forgetServices forgets an endpoint's services: another process answers now.
func (t *Table) forgetServices(e *endpoint) {
	for i := range e.services {
		t.unmute(&e.services[i])
	}
	e.services, e.begun = e.services[:0], time.Time{}
}

// Mutes reports whether any endpoint is mute for a service.
func (r Reader) Mutes() bool { return r.t.mutes > 0 }

// IsMute reports whether requests for a service are to be kept from an endpoint: it is mute for it, or another request
// tries it now, alone for EjectMax at most.
func (r Reader) IsMute(now time.Time, slot int, name string) bool {
	s := r.t.endpoints.Get(slot).service(name)
	return s != nil && s.mutes > 0 && (now.Before(s.until) || !s.trial.IsZero() && now.Sub(s.trial) < r.t.cfg.EjectMax)
}

// MuteFor are the services for which an endpoint is mute.
func (r Reader) MuteFor(now time.Time, slot int) (names []string) {
	if r.t.mutes == 0 {
		return nil
	}
	for _, s := range r.t.endpoints.Get(slot).services {
		if s.mutes > 0 && now.Before(s.until) {
			names = append(names, s.name)
		}
	}
	return names
}

// HasServices reports whether an endpoint has answered for several services, or for a path: it may be mute for one.
func (r Reader) HasServices(slot int) bool {
	e := r.t.endpoints.Get(slot)
	return len(e.services) > 1 || len(e.services) == 1 && e.services[0].answers > 0
}

// late reports whether a request for a path, sent at a time, waits for longer than any answer explains (fit.Bound times
// the longest of at least fit.Enough), nothing has come for the path for a while, and later work was begun or nothing
// has come from the endpoint either.
func (e *endpoint) late(now time.Time, path string, sent time.Time, silent time.Duration) bool {
	s := e.service(path)
	if s == nil || s.answers < fit.Enough || now.Sub(s.lastByteAt) < silent ||
		now.Sub(sent) < silent+fit.Bound*s.longest {
		return false
	}
	return e.begun.Sub(sent) >= silent || now.Sub(e.lastByteAt) >= silent &&
		!slices.ContainsFunc(e.services, func(s service) bool { return now.Sub(s.lastByteAt) < silent })
}

// overtaken reports whether a turn of a model, sent at a time, has been left behind: nothing of its model has come for
// a while, the answer of another one, sent that much later, has begun, and its last byte was not so long ago that the
// request may wait for the model to be loaded. Engines begin in the order in which requests come, so it does not wait
// for others.
func (e *endpoint) overtaken(now time.Time, model string, sent time.Time, silent time.Duration) bool {
	s := e.service(model)
	return s != nil && now.Sub(s.lastByteAt) >= silent && sent.Sub(s.lastByteAt) < mostLoading &&
		e.begun.Sub(sent) >= silent
}
