package fleet

import "time"

// Load is the router's own account of one endpoint's outstanding work.
type Load struct {
	Requests      int   // outstanding requests
	Auxiliary     int   // of Requests, those of class Auxiliary, which take no place at the engine
	PrefillTokens int64 // uncached prompt tokens of requests before their first byte
	DecodeTokens  int64 // expected answer tokens of outstanding requests
	Queued        int   // of Requests, those queued at the router, see route.QueueConfig
	ContextTokens int64 // prompt and answer tokens resident for outstanding requests
	EngineWaiting int   // requests in the engine's own queue by its latest report; 0 when not reported

	// at a prefiller: computed requests whose KV transfer has not ended, not among Requests; at a decoder: those of
	// Requests whose KV has not arrived
	TransferRequests int
	TransferTokens   int64 // prompt tokens of TransferRequests
}

// Add adds further outstanding work.
func (l *Load) Add(more Load) {
	l.Requests += more.Requests
	l.Auxiliary += more.Auxiliary
	l.PrefillTokens += more.PrefillTokens
	l.DecodeTokens += more.DecodeTokens
	l.Queued += more.Queued
	l.ContextTokens += more.ContextTokens
	l.EngineWaiting += more.EngineWaiting
	l.TransferRequests += more.TransferRequests
	l.TransferTokens += more.TransferTokens
}

// Working is the number of requests that take a place at the engine, or will.
func (l Load) Working() int { return l.Requests - l.Auxiliary }

// Work is the tokens still to compute.
func (l Load) Work() int64 { return l.PrefillTokens + l.DecodeTokens }

// TenantUse is what one tenant uses of its limits at one router, as routers tell each other.
type TenantUse struct {
	Tenant   uint64  // hash of its name
	Requests float64 // of the latest minute's worth that have not been filled up again
	Tokens   float64 // the same, of prompts and answers
	Open     int     // requests that are under way
}

// Ms is a duration in milliseconds, to the microsecond: the unit of all times that the core reckons with.
func Ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Duration converts ms, to the nanosecond.
func Duration(ms float64) time.Duration { return time.Duration(ms * 1e6) }

// Earlier is the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
