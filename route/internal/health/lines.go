package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// A line is one kind of an endpoint's work: turns of one model, or requests for one path. The endpoint may stop
// answering one line and go on with the others: a gateway one of whose engines hangs, an adapter that blocks its own
// requests, a server that answers chats and no embeddings. Its health is good then, and it is mute for that line.
type line struct {
	name  string
	heard time.Time // when a byte of an answer last came
	// of requests for a path: how many answers came, and the longest time that one took
	answers int
	longest time.Duration
	mutes   int       // times in a row that it was found mute
	until   time.Time // when it is tried again, if mutes is not 0
	trial   time.Time // when the request was sent that tries it; zero for none
}

// trialMost is how long one request alone tries a line that was mute.
const trialMost = 30 * time.Second

// line is the row of a line, nil for one of which nothing has come.
func (e *endpoint) line(name string) *line {
	for i := range e.lines {
		if e.lines[i].name == name {
			return &e.lines[i]
		}
	}
	return nil
}

// Heard records a byte of an answer of a line, which is no longer mute.
func (t *Table) Heard(slot int, name string, at time.Time) {
	e := t.endpoints.Get(slot)
	l := e.line(name)
	if l == nil {
		if len(e.lines) == bound.Few {
			oldest := 0
			for i := range e.lines {
				if e.lines[i].heard.Before(e.lines[oldest].heard) {
					oldest = i
				}
			}
			t.unmute(&e.lines[oldest])
			e.lines = slices.Delete(e.lines, oldest, oldest+1)
		}
		e.lines = append(e.lines, line{name: name})
		l = &e.lines[len(e.lines)-1]
	}
	if at.After(l.heard) {
		l.heard = at
		t.unmute(l)
	}
}

// Took notes how long an answer for a path took.
func (t *Table) Took(slot int, path string, took time.Duration) {
	if l := t.endpoints.Get(slot).line(path); l != nil {
		l.answers++
		l.longest = max(l.longest, took)
	}
}

// Begun records that the endpoint began the answer of a turn that was sent at a time.
func (t *Table) Begun(slot int, sent time.Time) {
	if e := t.endpoints.Get(slot); sent.After(e.begun) {
		e.begun = sent
	}
}

// Mute keeps requests of a line away from an endpoint, one of which has waited for so long.
func (t *Table) Mute(now time.Time, slot int, name string, waited time.Duration) {
	e := t.endpoints.Get(slot)
	l := e.line(name)
	if l == nil || now.Before(l.until) {
		return
	}
	if l.mutes == 0 {
		t.mutes++
	}
	d := max(t.cfg.EjectFor<<min(l.mutes, 20), waited)
	if d > t.cfg.EjectMax || d <= 0 {
		d = t.cfg.EjectMax
	}
	l.mutes++
	l.until, l.trial = now.Add(d), time.Time{}
	e.news = append(e.news, fmt.Sprintf("no data for %s in %v, although its health is good: its requests go elsewhere "+
		"for %v", name, waited.Round(time.Second), d.Round(time.Second)))
}

// AdmitLine records that a request of a line is placed, which tries the line if it was mute.
func (t *Table) AdmitLine(now time.Time, slot int, name string) {
	if t.mutes == 0 {
		return
	}
	if l := t.endpoints.Get(slot).line(name); l != nil && l.mutes > 0 && !now.Before(l.until) {
		l.trial = now
	}
}

// Relent forgets that lines were mute that nothing has tried for EjectMax since they could be tried: their model or
// their endpoint may be gone, and while any line is mute decisions look at each endpoint.
func (t *Table) Relent(now time.Time) {
	for slot := 0; t.mutes > 0 && slot < t.endpoints.Len(); slot++ {
		e := t.endpoints.Get(slot)
		for i := range e.lines {
			if l := &e.lines[i]; l.mutes > 0 && now.Sub(later(l.until, l.trial)) >= t.cfg.EjectMax {
				t.unmute(l)
			}
		}
	}
}

// unmute ends a line's muteness.
func (t *Table) unmute(l *line) {
	if l.mutes > 0 {
		t.mutes--
		l.mutes, l.until, l.trial = 0, time.Time{}, time.Time{}
	}
}

// forgetLines forgets an endpoint's lines: another process answers now.
func (t *Table) forgetLines(e *endpoint) {
	for i := range e.lines {
		t.unmute(&e.lines[i])
	}
	e.lines, e.begun = e.lines[:0], time.Time{}
}

// Mutes reports whether any endpoint is mute for a line.
func (r Reader) Mutes() bool { return r.t.mutes > 0 }

// IsMute reports whether requests of a line are to be kept from an endpoint: it is mute for it, or another request
// tries it now.
func (r Reader) IsMute(now time.Time, slot int, name string) bool {
	if r.t.mutes == 0 {
		return false
	}
	l := r.t.endpoints.Get(slot).line(name)
	return l != nil && l.mutes > 0 && (now.Before(l.until) || !l.trial.IsZero() && now.Sub(l.trial) < trialMost)
}

// MuteLines are the lines for which an endpoint is mute.
func (r Reader) MuteLines(now time.Time, slot int) (names []string) {
	if r.t.mutes == 0 {
		return nil
	}
	for _, l := range r.t.endpoints.Get(slot).lines {
		if l.mutes > 0 && now.Before(l.until) {
			names = append(names, l.name)
		}
	}
	return names
}

// Several reports whether an endpoint has answered for several lines, or for a path: it may be mute for one.
func (r Reader) Several(slot int) bool {
	e := r.t.endpoints.Get(slot)
	return len(e.lines) > 1 || len(e.lines) == 1 && e.lines[0].answers > 0
}

// Late reports whether a request for a path, sent at a time, waits for longer than any answer explains (fit.Bound times
// the longest of at least fit.Enough), nothing has come for the path for a while, and later work was begun or nothing
// has come from the endpoint either.
func (r Reader) Late(now time.Time, slot int, path string, sent time.Time, silent time.Duration) bool {
	e := r.t.endpoints.Get(slot)
	l := e.line(path)
	if l == nil || l.answers < fit.Enough || now.Sub(l.heard) < silent ||
		now.Sub(sent) < silent+fit.Bound*l.longest {
		return false
	}
	return e.begun.Sub(sent) >= silent || now.Sub(e.lastByteAt) >= silent &&
		!slices.ContainsFunc(e.lines, func(l line) bool { return now.Sub(l.heard) < silent })
}

// Overtaken reports whether a turn of a model, sent at a time, has been left behind: nothing of its model has come for
// a while, the answer of another one, sent that much later, has begun, and its last byte was not so long ago that the
// request may wait for the model to be loaded. Engines begin in the order in which requests come, so it does not wait
// for others.
func (r Reader) Overtaken(now time.Time, slot int, model string, sent time.Time, silent time.Duration) bool {
	e := r.t.endpoints.Get(slot)
	l := e.line(model)
	return l != nil && now.Sub(l.heard) >= silent && sent.Sub(l.heard) < mostLoading &&
		e.begun.Sub(sent) >= silent
}
