package health

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// An engine, or a proxy in front of it, may limit each client by its key. Such a 429 concerns that caller alone. A full
// engine refuses all callers: the endpoint is busy for all once it refused two and accepted nothing in between.

// refusal is a 429 that one caller got.
type refusal struct {
	caller    uint64
	at, until time.Time
	accepted  bool // the endpoint has accepted a request sent later
}

// refusals belong to one endpoint, oldest first.
type refusals []refusal

// stops reports whether the endpoint is busy for the caller.
func (s refusals) stops(now time.Time, caller uint64) bool {
	if caller == 0 {
		return false
	}
	for i := range s { // not copied: each decision looks here
		if s[i].caller == caller {
			return now.Before(s[i].until)
		}
	}
	return false
}

// over reports whether the endpoint is busy for none of the callers any more.
func (s refusals) over(now time.Time) bool {
	return !slices.ContainsFunc(s, func(v refusal) bool { return now.Before(v.until) })
}

// add records a refusal. A later one does not shorten what the caller was asked for. all is until when the endpoint is
// busy for every caller, or zero.
func (s *refusals) add(now time.Time, caller uint64, until time.Time) (all time.Time) {
	kept := (*s)[:0]
	for _, v := range *s {
		if v.caller == caller {
			until = fleet.Later(until, v.until)
		}
	}
	for _, v := range *s {
		if v.caller == caller || !now.Before(v.until) {
			continue
		}
		kept = append(kept, v)
		if !v.accepted {
			all = fleet.Later(all, fleet.Earlier(v.until, until))
		}
	}
	if len(kept) == bound.Few {
		kept = slices.Delete(kept, 0, 1)
	}
	*s = append(kept, refusal{caller: caller, at: now, until: until})
	return all
}

// accept records that the endpoint accepted a request sent at a time.
func (s refusals) accept(sent time.Time) {
	for i := range s {
		if sent.After(s[i].at) {
			s[i].accepted = true
		}
	}
}

// refused records a 429 or 503 of the endpoint.
func (t *Table) refused(now time.Time, e *endpoint, v *Verdict) {
	wait := v.RetryAfter
	if wait <= 0 {
		wait = t.cfg.BusyFor
	}
	until := now.Add(min(wait, t.cfg.BusyMax))
	cause := "it asked for less traffic (429 or 503)"
	if v.Limited && v.Caller != 0 {
		until, cause = e.refusals.add(now, v.Caller, until), "it asked several clients for less traffic (429)"
	}
	if until.After(e.busyUntil) { // it may have answered requests that were under way since it asked for more
		e.busyUntil, e.cause = until, cause
	}
}
