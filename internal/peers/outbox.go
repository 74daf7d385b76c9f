package peers

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/route"
)

// outbox is what this router tells others: news wait in it until they are sent together, in the order in which they
// were told. Frames to all are numbered, so that a router notices one that it has missed.
type outbox struct {
	transport Transport
	self      Self
	sealer    sealer
	limits    Limits // nil where each router counts alone
	clock     *clock
	names     *names
	wake      chan struct{} // something waits

	mu      sync.Mutex // guards what waits; taken inside the lock of live.Fleet
	waiting []pending
	spare   []pending
	arena   []uint64
	bytes   int
	dropped bool // what waited was more than may wait

	sending sync.Mutex // guards the numbers, and the order of frames
	counter uint64     // of frames
	number  uint64     // of frames to all

	frames, frameBytes atomic.Uint64 // that were sent
}

// pending is a piece of news that is to be told.
type pending struct {
	at     time.Time
	news   route.News
	placed route.Placed
	to     uint64 // a router that asked for all that is under way; 0 for all
	begins bool   // the answer to it begins, or ends:
	ends   bool
}

// tell queues news, for all or for one router. It is called inside the lock of live.Fleet and never waits.
func (o *outbox) tell(now time.Time, news []route.News, to uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range news {
		p := pending{at: now, news: news[i], to: to}
		o.bytes += 160
		if placed := news[i].Placed; placed != nil {
			p.placed = *placed
			chain := placed.Chain[:min(len(placed.Chain), mostChain)] // others refuse more
			o.bytes += 300 + 8*len(chain)
			from := len(o.arena)
			o.arena = append(o.arena, chain...)
			p.placed.Chain = o.arena[from:len(o.arena):len(o.arena)]
		}
		o.waiting = append(o.waiting, p)
	}
	if o.bytes > mostQueued { // others notice the gap, and ask for all
		clear(o.waiting)
		o.waiting, o.arena, o.bytes, o.dropped = o.waiting[:0], nil, 0, true
	}
	o.awake()
}

// mostAnswered is how many names of prompts an answer has, so that all of it may wait, here and in the transports. Of
// further prompts it has none: they are asked for when their next turn is told.
const mostAnswered = 1 << 17

// answer queues all that is under way, for a router that asked for it, and asks again where too much waits already. It
// is called inside the lock of live.Fleet.
func (o *outbox) answer(to uint64, underWay func(tell func([]route.News)), now time.Time) {
	o.mu.Lock()
	full := o.bytes > mostQueued/4
	o.mu.Unlock()
	if full {
		return
	}
	o.mark(pending{to: to, begins: true})
	left := mostAnswered
	underWay(func(news []route.News) {
		for _, n := range news {
			if p := n.Placed; p != nil {
				p.Chain = p.Chain[:min(len(p.Chain), left)]
				left -= len(p.Chain)
			}
		}
		o.tell(now, news, to)
	})
	o.mark(pending{to: to, ends: true})
}

func (o *outbox) mark(p pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, p)
	o.awake()
}

// awake has what waits sent.
func (o *outbox) awake() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// flush sends what waits, and that this router lives where a is not nil.
func (o *outbox) flush(a *alive) {
	o.mu.Lock()
	todo, arena, dropped := o.waiting, o.arena, o.dropped
	o.waiting, o.spare, o.arena, o.bytes, o.dropped = o.spare[:0], nil, nil, 0, false
	o.mu.Unlock()
	o.sending.Lock()
	defer o.sending.Unlock()
	told := false
	defer func() {
		if !told { // a panic that the caller catches: the others notice the gap
			o.mu.Lock()
			o.dropped = true
			o.mu.Unlock()
		}
	}()
	if dropped {
		o.number++
	}
	f := frame{now: time.Now()}
	for i := range todo {
		p := &todo[i]
		if p.to != f.to || len(f.body) > mostFrame/2 {
			o.send(&f)
			f.to = p.to
		}
		switch {
		case p.begins:
			f.body = binary.BigEndian.AppendUint64(appendHead(f.body, kindState, 0), o.number)
			o.addUses(&f, true)
		case p.ends:
			f.body = appendHead(f.body, kindDone, 0)
		default:
			o.add(&f, p)
		}
	}
	if f.to != 0 {
		o.send(&f)
		f.to = 0
	}
	o.addUses(&f, false)
	if a != nil {
		a.number = o.number + 1
		f.body = appendAlive(f.body, a)
	}
	o.send(&f)
	told = true
	clear(todo)
	o.mu.Lock()
	if o.spare = todo[:0]; o.arena == nil && cap(arena) <= 1<<20 {
		o.arena = arena[:0]
	}
	o.mu.Unlock()
}

// toOne sends a message to one router, at once.
func (o *outbox) toOne(to uint64, body []byte) {
	o.sending.Lock()
	defer o.sending.Unlock()
	o.send(&frame{now: time.Now(), to: to, body: body})
}

// toAll sends a message to all routers, at once.
func (o *outbox) toAll(body []byte) { o.toOne(0, body) }

// frame is one that is being made.
type frame struct {
	now  time.Time
	to   uint64
	body []byte
}

// add adds a piece of news to a frame.
func (o *outbox) add(f *frame, p *pending) {
	base, depth, rest := uint64(0), 0, []uint64(nil)
	if p.news.Kind == route.NewsPlaced {
		p.news.Placed = &p.placed
		if rest = p.placed.Chain; p.to == 0 {
			base, depth, rest = o.names.tell(rest)
		}
	}
	f.body = appendNews(f.body, f.now.Sub(p.at), &p.news, base, depth, rest)
}

// send seals a frame and hands it to the transport. The lock of sending is held.
func (o *outbox) send(f *frame) {
	if len(f.body) == 0 {
		return
	}
	number := uint64(0)
	if f.to == 0 {
		o.number++
		number = o.number
	}
	o.counter++
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, plainBytes+len(f.body)), number)
	plain = binary.BigEndian.AppendUint64(plain, uint64(o.clock.of(f.now).UnixMicro()))
	plain = binary.BigEndian.AppendUint64(plain, f.to)
	sealed := o.sealer.seal(&head{Version, o.self.Fleet, o.self.Incarnation, o.counter}, append(plain, f.body...))
	o.frames.Add(1)
	o.frameBytes.Add(uint64(len(sealed)))
	if f.to == 0 {
		o.transport.Publish(sealed)
	} else {
		o.transport.Send(f.to, sealed)
	}
	f.body = nil
}
