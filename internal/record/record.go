// Package record writes down the traffic of the router so that it can be replayed by warmpath simulate: sizes, times,
// outcomes, and what prompts have in common. It holds no text; whatever could lead back to text or to a person (blocks of
// prompts, conversations, tenants) is written as a hash with a secret salt.
package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// Config says what is written where.
type Config struct {
	File      string // path; "" is a fault
	FileBytes int64  // size at which the file is renamed to FILE.1 and begun anew
	Files     int    // renamed files that are kept: FILE.1 is the newest; 0 keeps none
	Salt      []byte // secret of the hashes, at least 16 bytes
	Version   string // of the router, for the header
	PerTenant bool   // the engines keep the tenants' caches apart, so that their prompts have nothing in common
}

const (
	leastSalt  = 16
	queueLines = 4096     // requests that have ended and wait to be written
	mostOpen   = 1 << 16  // requests under way that are remembered
	mostHeld   = 64 << 20 // bytes of blocks of requests under way and waiting
)

// Recorder listens to the fleet and writes a line for each request that has ended. It never waits: where the disk does not keep up,
// or too much is under way, requests are dropped and counted.
type Recorder struct {
	cfg   Config
	log   *slog.Logger
	queue chan *item

	open    map[fleet.Lease]*item // requests under way; touched inside the fleet's lock only
	engines map[string]engineLine // what is known of each endpoint's engine; touched inside the fleet's lock only

	held    atomic.Int64 // bytes of blocks
	written atomic.Uint64
	dropped atomic.Uint64
	out     writer
}

// New makes a recorder and begins its file. A file that is there already is kept as if it were full. Run must be called.
func New(c Config, now time.Time, log *slog.Logger) (*Recorder, error) {
	switch {
	case c.File == "":
		return nil, errors.New("record: no file")
	case len(c.Salt) < leastSalt:
		return nil, fmt.Errorf("record: the salt has %d bytes, must have %d or more", len(c.Salt), leastSalt)
	case c.FileBytes < 1 || c.Files < 0:
		return nil, fmt.Errorf("record: file bytes must be above 0 and files not negative, got %d and %d", c.FileBytes, c.Files)
	}
	r := &Recorder{
		cfg: c, log: log, queue: make(chan *item, queueLines),
		open: map[fleet.Lease]*item{}, engines: map[string]engineLine{},
	}
	r.out = newWriter(&r.cfg, &r.written, &r.dropped)
	if err := r.out.begin(now); err != nil {
		return nil, fmt.Errorf("record.file: %w", err)
	}
	return r, nil
}

// Written is how many requests were written.
func (r *Recorder) Written() uint64 { return r.written.Load() }

// Dropped is how many requests were not written because the file did not keep up, could not be written, or too much was under way.
func (r *Recorder) Dropped() uint64 { return r.dropped.Load() }

// Listener is what the fleet calls.
func (r *Recorder) Listener() live.Listener { return live.Listener{Entry: r.entry} }

// entry takes in what the router was told and answered. It runs inside the fleet's lock.
func (r *Recorder) entry(e *route.Entry) {
	switch {
	case e.Ended != nil:
		r.ended(e)
	case e.Request != nil:
		if e.Request.Class == fleet.Aside || e.Request.Leg == fleet.LegPrefill || e.Decision != nil && e.Decision.Leg == fleet.LegPrefill {
			return // a request in two legs is known by the one that answers
		}
		if e.Decision != nil {
			r.routed(e)
		} else if e.Err != nil && len(e.Request.Tried) == 0 && e.Request.Instead == 0 {
			if it := r.take(e); it != nil {
				it.outcome, it.end = refused, e.Now
				r.hand(it)
			}
		}
	default:
		if p, ok := e.Event.(route.Probed); ok {
			r.probed(e.Now, &p)
		}
	}
}

// routed remembers a request that was sent to an endpoint. A further attempt, whatever the one before failed of, is the same request:
// it is reserved before that one ends.
func (r *Recorder) routed(e *route.Entry) {
	q, d := e.Request, e.Decision
	if first := r.open[q.Instead]; first != nil && q.Instead != 0 {
		delete(r.open, q.Instead)
		first.attempt(e)
		r.open[d.Lease] = first
		return
	}
	if len(r.open) >= mostOpen {
		r.dropped.Add(1)
		return
	}
	it := r.take(e)
	if it == nil {
		return
	}
	it.attempt(e)
	r.open[d.Lease] = it
}

// ended hands over a request whose last attempt has ended. Attempts that another one followed are not in open any more.
func (r *Recorder) ended(e *route.Entry) {
	x := e.Ended
	it := r.open[x.Decision.Lease]
	if it == nil {
		return
	}
	delete(r.open, x.Decision.Lease)
	it.finish(e)
	r.hand(it)
}

// hand gives an item to the writer, or lets go of it when the queue is full.
func (r *Recorder) hand(it *item) {
	select {
	case r.queue <- it:
	default:
		r.drop(it)
	}
}

func (r *Recorder) drop(it *item) {
	if it.engine == nil {
		r.dropped.Add(1)
	}
	r.free(it)
}

// probed passes on what a probe found out about an engine, when it is new.
func (r *Recorder) probed(now time.Time, p *route.Probed) {
	l := r.engines[p.Endpoint]
	was := l
	l.Engine = p.Endpoint
	if k := p.Report.Kind; k != fleet.KindUnknown {
		l.Kind = string(k)
	}
	if n := p.Report.CacheTokens; n > 0 {
		l.CacheTokens = n
	}
	if n := p.Report.BlockTokens; n > 0 {
		l.BlockTokens = n
	}
	if n := p.Report.Slots; n > 0 {
		l.Slots = n
	}
	if l == was || len(r.engines) >= mostOpen {
		return
	}
	r.engines[p.Endpoint] = l
	it := newItem()
	it.engine, it.at = &l, now
	r.hand(it)
}

// Run writes until ctx ends, and then what is still to be written.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			r.drain(nil)
			r.complain(r.out.close())
			return
		case it := <-r.queue:
			r.drain(it)
		}
	}
}

// drain writes an item and what has come after it.
func (r *Recorder) drain(it *item) {
	for {
		if it == nil {
			select {
			case it = <-r.queue:
			default:
				r.complain(r.out.flush())
				return
			}
		}
		r.complain(r.out.write(it))
		r.free(it)
		it = nil
	}
}

const tellEvery = time.Minute // between two log lines about a file that cannot be written

func (r *Recorder) complain(err error) {
	if err == nil {
		return
	}
	if now := time.Now(); now.Sub(r.out.told) >= tellEvery {
		r.out.told = now
		r.log.Warn("traffic cannot be recorded", "file", r.cfg.File, "error", err, "dropped", r.Dropped())
	}
}
