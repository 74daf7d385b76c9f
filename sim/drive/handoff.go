package drive

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// fetch starts the transfers that an engine requests.
func (p *player) fetch(now int64, at int) {
	if !p.roles {
		return
	}
	var gone []int
	for _, w := range p.engines[at].Fetches() {
		i := int(w.ID - 1)
		f := &p.flights[i]
		h := &p.hands[f.hand-1]
		switch {
		case w.Tokens == 0:
			p.out[f.row-1].Handed = time.Duration(now - h.readyAt)
			gone = append(gone, ^int(f.hand-1))
		case !h.held:
			gone = append(gone, i)
		default:
			h.moving, h.began, h.tokens = true, now, w.Tokens
			p.links.begin(now, int(f.hand-1), int(h.from), at, w.Tokens)
		}
	}
	p.connect()
	for _, i := range gone { // after the loop, since these may change the engine's list
		if i < 0 {
			p.unhold(now, int32(^i))
		} else {
			p.unfetched(now, i)
		}
	}
}

// connect schedules the end of the next transfer.
func (p *player) connect() {
	if next := p.links.next(); next != p.moves {
		if p.moves = next; next >= 0 {
			p.due.push(next, linksDue, 0)
		}
	}
}

// carry ends transfers whose last byte has been sent.
func (p *player) carry(now int64) {
	if now != p.moves {
		return
	}
	p.carried = p.links.done(now, p.carried[:0])
	for _, hand := range p.carried {
		p.due.push(now+int64(p.links.Latency), handArrives, int(hand))
	}
	p.moves = -1
	p.connect()
}

// arrive tells both engines that the KV cache has arrived.
func (p *player) arrive(now int64, hand int) {
	h := &p.hands[hand]
	if !h.moving {
		return
	}
	h.moving = false
	row := &p.out[p.flights[h.turn].row-1]
	row.Moved, row.MovedTook, row.Handed = h.tokens, time.Duration(now-h.began), time.Duration(now-h.readyAt)
	p.unhold(now, int32(hand))
	p.engines[h.to].Arrived(p.at(now), uint64(h.turn+1))
	p.fetch(now, int(h.to))
	p.schedule(int(h.to))
}

// unhold frees a prompt's blocks at a prefiller.
func (p *player) unhold(now int64, hand int32) {
	h := &p.hands[hand]
	if !h.held {
		return
	}
	h.held = false
	p.holding[h.from] = without(p.holding[h.from], hand)
	p.engines[h.from].Release(p.at(now), handID+uint64(hand))
	p.fetch(now, int(h.from))
	p.schedule(int(h.from))
}

// expire ends the lease of what a prefiller holds.
func (p *player) expire(now int64, hand int32) {
	if !p.hands[hand].moving {
		p.unhold(now, hand)
	}
}

// orphan leaves a prefiller's blocks to their lease: no one tells it that they are not needed.
func (p *player) orphan(now int64, hand int32) {
	if p.hands[hand].held {
		p.due.push(now+int64(heldFor), leaseEnds, int(hand))
	}
}

// undone drops transfers to an engine that is gone.
func (p *player) undone(now int64, i int) {
	f := &p.flights[i]
	if f.hand == 0 || f.first {
		return
	}
	h := &p.hands[f.hand-1]
	if h.moving {
		h.moving = false
		p.links.stop(now, int(f.hand-1))
		p.connect()
	}
	p.orphan(now, f.hand-1)
	p.moved(now, i)
	f.hand = 0
}

// unfetched handles an answer that cannot be made because its prompt is gone with the prefiller: the decoder fails and
// is not blamed the first time.
func (p *player) unfetched(now int64, i int) {
	f := &p.flights[i]
	at := int(f.engine)
	p.engines[at].Cancel(uint64(i + 1))
	p.engines[at].Wake(p.at(now))
	p.busy[at] = without(p.busy[at], int32(i))
	p.out[f.row-1].Retries++
	outcome := fleet.EngineError
	f.again = true
	if f.suspect {
		f.tried = append(f.tried, p.Fleet.Endpoints[at].Name)
	} else {
		f.suspect, outcome = true, fleet.TransferFailed
		f.triedPrefill = append(f.triedPrefill, p.Fleet.Endpoints[p.hands[f.hand-1].from].Name)
	}
	p.again(now, i, outcome)
	p.fetch(now, at)
	p.schedule(at)
}

// failHands handles an engine's failure for the prompts that it computed or held for others.
func (p *player) failHands(now int64, at int) {
	computing, holding := slices.Clone(p.computing[at]), slices.Clone(p.holding[at])
	p.computing[at], p.holding[at] = p.computing[at][:0], p.holding[at][:0]
	for _, hand := range holding {
		p.hands[hand].held = false
	}
	for _, hand := range computing {
		i := int(p.hands[hand].turn)
		if d, ok := p.elsewhere(now, i, fleet.EngineError); ok {
			p.compute(now, i, d)
		} else {
			p.undivided(now, i, fleet.EngineError)
		}
	}
	for _, hand := range holding {
		if h := &p.hands[hand]; h.moving {
			h.moving = false
			p.links.stop(now, int(hand))
			p.connect()
			p.unfetched(now, int(h.turn))
		}
	}
}
