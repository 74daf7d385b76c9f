package drive

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/route"
)

// The periods of ticks for a router with queued requests and peers, and for one with held requests.
const (
	tickEvery = 25 * time.Millisecond
	callEvery = time.Second // as the live router looks for silent endpoints
)

// hearsay is news in transit.
type hearsay struct {
	from   int32
	at     int64
	news   route.News
	placed route.Placed
}

// shares says whether routers exchange news.
func (p *player) shares() bool { return p.Share && len(p.routers) > 1 }

// spread sends a router's news to the others. All news take equally long, so they arrive in order.
func (p *player) spread(now int64, from int32, news []route.News) {
	for i := range news {
		h := hearsay{from: from, at: now, news: news[i]}
		if placed := news[i].Placed; placed != nil {
			h.placed = *placed
			h.placed.Chain = slices.Clone(placed.Chain)
		}
		p.news = append(p.news, h)
		p.due.push(now+int64(p.Staleness), newsDue, 0)
	}
	every := tickEvery
	switch {
	case p.ticking[from]:
		return
	case p.shares() && p.routers[from].Queued() > 0:
	case p.routers[from].Held() > 0:
		every = callEvery
	default:
		return
	}
	p.ticking[from] = true
	p.due.push(now+int64(every), tickDue, int(from))
}

// tick sends a router a tick.
func (p *player) tick(now int64, router int) {
	p.ticking[router] = false
	p.told(now, int32(router), route.Tick{})
}

// hear delivers the oldest news to all routers but the sender.
func (p *player) hear(now int64) {
	h := p.news[0]
	p.news = p.news[1:]
	if h.news.Placed != nil {
		h.news.Placed = &h.placed
	}
	for r := range p.routers {
		if r != int(h.from) {
			p.told(now, int32(r), route.PeerNews{Peer: uint64(h.from) + 1, At: p.at(h.at), News: &h.news})
		}
	}
}

// told gives a router an event that is not reported to Announced.
func (p *player) told(now int64, router int32, ev route.Event) {
	e := p.routers[router].Observe(p.at(now), ev)
	p.call(router, e.Dispatched)
	p.spread(now, router, e.News)
	if e.More {
		p.told(now, router, route.Tick{})
	}
}

// ended delivers remaining news after the last turn, so that no router has open leases; it returns true.
func (p *player) ended() bool {
	for len(p.news) > 0 {
		p.hear(p.end + int64(p.Staleness))
	}
	return true
}
