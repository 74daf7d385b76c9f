// Package record records the traffic of the router for replay by warmpath simulate: sizes, times, outcomes and shared
// prefixes. A recording has no text. Prompt blocks, conversations and tenants are written as hashes with a secret salt.
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
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/route"
)

// Config is the configuration of a Recorder.
type Config struct {
	File      string // path; must not be empty
	FileBytes int64  // size at which the file is renamed to FILE.1 and a new one begins
	Files     int    // renamed files that are kept: FILE.1 is the newest; 0 keeps none
	Salt      []byte // secret of the hashes, at least 16 bytes
	Version   string // of the router, for the header
	PerTenant bool   // the engines separate the tenants' caches, so that their prompts share nothing
}

const (
	leastSalt  = 16
	queueLines = 4096     // ended requests that wait to be written
	mostOpen   = 1 << 16  // requests in flight
	mostHeld   = 64 << 20 // bytes of the blocks of requests in flight and waiting
)

// Recorder listens to the fleet and writes a line for each request that has ended. It never blocks: if the disk is too
// slow or too many requests are in flight, it drops requests and counts them.
type Recorder struct {
	cfg   Config
	log   *slog.Logger
	queue chan *item

	open    map[fleet.Lease]*item // requests in flight; guarded by the fleet's lock
	engines map[string]engineLine // by endpoint; guarded by the fleet's lock

	held    atomic.Int64 // bytes of blocks
	written atomic.Uint64
	dropped atomic.Uint64
	out     writer
}

// New makes a recorder and begins its file. An existing file is rotated. One that another process has claimed is begun
// when that has ended, and until then requests are dropped. The caller must call Run.
func New(c Config, now time.Time, log *slog.Logger) (*Recorder, error) {
	switch {
	case c.File == "":
		return nil, errors.New("record: no file")
	case len(c.Salt) < leastSalt:
		return nil, fmt.Errorf("record: the salt has %d bytes, must have %d or more", len(c.Salt), leastSalt)
	case c.FileBytes < 1 || c.Files < 0:
		return nil, fmt.Errorf("record: file bytes must be above 0 and files not negative, got %d and %d",
			c.FileBytes, c.Files)
	}
	r := &Recorder{
		cfg: c, log: log, queue: make(chan *item, queueLines),
		open: map[fleet.Lease]*item{}, engines: map[string]engineLine{},
	}
	r.out = newWriter(&r.cfg, &r.written, &r.dropped)
	switch err := r.out.begin(now); {
	case errors.Is(err, wholefile.ErrClaimed): // perhaps by the router in whose place this one begins
		r.warn(err)
	case err != nil:
		return nil, fmt.Errorf("record.file: %w", err)
	}
	return r, nil
}

// Written is the number of requests written.
func (r *Recorder) Written() uint64 { return r.written.Load() }

// Dropped is the number of requests not written: the disk was too slow or failed, or too many requests were in flight.
func (r *Recorder) Dropped() uint64 { return r.dropped.Load() }

// Trouble is why the file cannot be written now; nil where it can.
func (r *Recorder) Trouble() error { return r.out.trouble.Err() }

// Listener returns the callbacks for the fleet.
func (r *Recorder) Listener() live.Listener { return live.Listener{Entry: r.entry} }

// entry handles one event of the router. It runs inside the fleet's lock.
func (r *Recorder) entry(e *route.Entry) {
	switch {
	case e.Ended != nil:
		r.ended(e)
	case e.Request != nil:
		if e.Request.Class == fleet.Auxiliary || e.Request.Leg == fleet.LegPrefill || e.Decision != nil &&
			e.Decision.Leg == fleet.LegPrefill {
			return // a split request is recorded by its decode leg
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

// routed adds a request that was sent to an endpoint. A retry belongs to the same request; it is reserved before the
// failed attempt ends.
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

// ended passes a request whose last attempt has ended to the writer. Attempts that were retried are no longer in open.
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

// hand passes an item to the writer, or drops it if the queue is full.
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

// probed writes what a probe found out about an engine, if it changed.
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

// Run writes until ctx ends, and then the rest of the queue.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			r.drain(nil)
			r.warn(r.out.close())
			if r.out.release != nil {
				r.out.release()
			}
			return
		case it := <-r.queue:
			r.drain(it)
		}
	}
}

// drain writes an item and all that are queued.
func (r *Recorder) drain(it *item) {
	for {
		if it == nil {
			select {
			case it = <-r.queue:
			default:
				r.warn(r.out.flush())
				return
			}
		}
		r.warn(r.out.write(it))
		r.free(it)
		it = nil
	}
}

func (r *Recorder) warn(err error) {
	if err != nil && r.out.trouble.Failed(err) {
		r.log.Warn("traffic cannot be recorded", "file", r.cfg.File, "error", err, "dropped", r.Dropped())
	}
}
