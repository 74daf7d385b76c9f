package kvevents

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// publisher is the state of a publication. Follower.mu guards it, except decided.
type publisher struct {
	decided     chan struct{} // closed when its endpoint was first looked up
	settled     bool          // decided is closed
	pending     bool          // its endpoint's name is being looked up
	tied        target        // zero without an endpoint
	to          *stream       // nil without an endpoint
	said        bool          // the missing endpoint was logged
	foreign     bool          // it claims to be an endpoint that has another address
	connections int           // that are open and have sent it
	last        time.Time     // when a connection that sends it began or ended
}

// publisher is the state of a publication that a connection sends for the first time; nil if there is no room.
func (f *Follower) publisher(pub publication) *publisher {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.publishers[pub]
	if p == nil {
		if f.strays(pub.from) >= mostStray && !f.makeRoom() {
			return nil
		}
		if len(f.publishers) >= mostTopics && !f.makeRoom() {
			if !f.crowded {
				f.log.Warn("KV events: too many topics, further ones are not heard", "most", mostTopics)
			}
			f.crowded = true
			return nil
		}
		p = &publisher{decided: make(chan struct{})}
		f.publishers[pub] = p
		wake(f.poke)
	}
	p.connections++
	p.last = time.Now()
	f.sayDoubled(p.to)
	return p
}

// strays is the number of known topics and ranks from an address that have no endpoint; mu is held.
func (f *Follower) strays(from netip.Addr) (n int) {
	for pub, p := range f.publishers {
		if pub.from == from && p.to == nil {
			n++
		}
	}
	return n
}

// callers is the number of open connections that have sent something of a stream; mu is held.
func (f *Follower) callers(s *stream) (n int) {
	for _, p := range f.publishers {
		if p.to == s {
			n += p.connections
		}
	}
	return n
}

// sayDoubled logs once that several connections send what is one stream's; mu is held.
func (f *Follower) sayDoubled(s *stream) {
	if s == nil || s.doubled || f.callers(s) < 2 {
		return
	}
	s.doubled = true
	f.log.Warn("KV events: several connections send one topic; each engine and rank needs its own, "+
		"unless it has just started anew", "topic", s.at.topic, "rank", s.at.rank)
}

// makeRoom drops unused topics without an endpoint; mu is held.
func (f *Follower) makeRoom() (room bool) {
	for pub, p := range f.publishers {
		if p.settled && p.to == nil && p.connections == 0 && time.Since(p.last) > idle {
			delete(f.publishers, pub)
			room, f.crowded = true, false
		}
	}
	return room
}

// hungUp is called when a connection that sent these publications has ended.
func (f *Follower) hungUp(ctx context.Context, said map[publication]*publisher) {
	for _, p := range said {
		f.mu.Lock()
		p.connections--
		p.last = time.Now()
		s := p.to
		last := s != nil && f.callers(s) == 0
		f.mu.Unlock()
		if last {
			s.give(ctx, nil)
		}
	}
}

func (f *Follower) streamOf(p *publisher) *stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p.to
}

// tie finds the endpoints of the publications, and adds their sources to want; mu is held.
func (f *Follower) tie(want map[target]bool) {
	if len(f.listeners) == 0 {
		return
	}
	names := map[string]bool{} // to be looked up
	defer func() { f.keepHosts(names) }()
	d := newDirectory(f.endpoints, func(name string) []string { return f.factsOf(name).models },
		func(name string) int { return f.factsOf(name).firstRank },
		func(e *fleet.Endpoint, at netip.Addr) from { return f.judge(e, at, names) })
	dialled := map[string]bool{} // or polled
	for t := range want {
		dialled[t.endpoint] = true
	}
	for pub, p := range f.publishers {
		e, err := d.owner(pub)
		if err == nil && dialled[e.Name] {
			err = fmt.Errorf("endpoint %s publishes where it can be dialled, too", e.Name)
		}
		p.pending, p.foreign = errors.Is(err, errPending), errors.Is(err, errForeign)
		if err != nil {
			p.tied = target{}
			if !p.said && !p.pending {
				f.log.Warn("KV events: a topic belongs to no endpoint, its messages are ignored",
					"topic", pub.topic, "rank", pub.rank, "address", pub.from, "reason", err)
			}
			p.said = p.said || !p.pending
			continue
		}
		p.tied = target{
			endpoint: e.Name, url: e.URL, key: e.APIKey, events: listenEvents, topic: pub.topic, rank: pub.rank,
			replay: AddPort(e.KVReplay, pub.rank),
		}
		p.said = false
		want[p.tied] = true
	}
}

// connect assigns the publishers to their streams; mu is held.
func (f *Follower) connect() {
	for _, p := range f.publishers {
		p.to = f.streams[p.tied]
		if !p.settled && !p.pending {
			p.settled = true
			close(p.decided)
		}
	}
	for _, s := range f.streams {
		f.sayDoubled(s)
	}
}

// awaited are the endpoints that should connect and have not, reported once; mu is held.
func (f *Follower) awaited() (out []string) {
	has := map[string]bool{}
	for t := range f.streams {
		has[t.endpoint] = true
	}
	for i := range f.endpoints {
		e := &f.endpoints[i]
		if facts := f.factsOf(e.Name); e.KVEvents == listenEvents && e.Part.Kind != fleet.Slot && !has[e.Name] &&
			!facts.awaited {
			facts.awaited = true
			out = append(out, e.Name)
		}
	}
	return out
}

// sayAwaited reports endpoints without any message so far.
func (f *Follower) sayAwaited(names []string) {
	for _, name := range names {
		f.observe(route.KVStreamState{
			Endpoint: name, State: kvstream.Silent,
			Detail: "the engine has not dialled in yet",
		})
	}
}

// Publishers are the counts of engines that connect: topics and ranks with a known endpoint and without, among these
// the ones that name an endpoint of another address; dropped messages of those without, and refused connections.
type Publishers struct {
	Listening        bool
	Tied, Untied     int
	Foreign          int
	Dropped, Refused uint64
}

// Publishers returns the counts.
func (f *Follower) Publishers() Publishers {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Publishers{Listening: len(f.listeners) > 0, Dropped: f.untied.Load(), Refused: f.refused.Load()}
	for _, p := range f.publishers {
		if p.to != nil {
			out.Tied++
		} else {
			out.Untied++
		}
		if p.foreign {
			out.Foreign++
		}
	}
	return out
}

// give passes the frames of a message to a stream, nil when its connection has ended. It returns false if the stream is
// over.
func (s *stream) give(ctx context.Context, frames [][]byte) bool {
	return s.inbox.give(ctx, s.done, frames)
}

// listen handles the messages of an engine that connected, until ctx ends.
func (s *stream) listen(ctx context.Context) {
	s.beaten = time.Now()
	s.catchUp(ctx, true)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.inbox.ready:
			here := false
			for _, frames := range s.inbox.take() {
				here = s.taken(ctx, frames)
			}
			if here {
				s.flush()
			}
		case <-ticker.C:
			s.catchUp(ctx, false)
		}
	}
}

// taken handles a message, or the end of the connection: it reports whether there is a connection.
func (s *stream) taken(ctx context.Context, frames [][]byte) (here bool) {
	if frames != nil {
		s.message(ctx, frames)
		return true
	}
	s.tell()
	s.say(kvstream.Silent, "the engine's connection has ended", nothingLost)
	return false
}
