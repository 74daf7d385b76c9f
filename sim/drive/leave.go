package drive

import (
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/chance"
)

// Times of clients that leave, see Replay.Leaves.
const (
	soonestLeaves = 20 * time.Millisecond // after they have sent a turn; evenly by the logarithm up to
	latestLeaves  = 5 * time.Second
	asksAgain     = time.Second // after they have left
)

// mayLeave schedules when a turn's client leaves, if it does, which it does once.
func (p *player) mayLeave(now int64, i int) {
	f, drawn := &p.flights[i], chance.Mix(p.seed^chance.Mix(uint64(i)^0x6c6561766573))
	if f.left || float64(drawn>>11)/(1<<53) >= p.Leaves {
		return
	}
	at := float64(chance.Mix(drawn)>>11) / (1 << 53)
	after := float64(soonestLeaves) * math.Pow(float64(latestLeaves)/float64(soonestLeaves), at)
	p.due.push(now+int64(after), clientLeaves, i)
}

// leave has a turn's client leave, unless it has its answer. A split request is not left.
func (p *player) leave(now int64, i int) {
	f := &p.flights[i]
	if f.over || f.hand != 0 {
		return
	}
	at, lease := int(f.engine), f.lease
	if f.held != 0 {
		lease = f.held
	}
	if s := (standing{f.router, lease}); p.stands(s, i) {
		delete(p.inLine, s)
	} else {
		p.engines[at].Cancel(uint64(i + 1))
		p.paid(f)
		k := slices.Index(p.busy[at], int32(i))
		p.busy[at] = slices.Delete(p.busy[at], k, k+1)
	}
	p.observe(now, i, route.Finished{Lease: lease, Outcome: fleet.ClientGone})
	if f.held == 0 {
		p.schedule(at)
	}
	row := &p.out[f.row-1]
	row.Left, row.Took = true, time.Duration(now-f.sent)
	*f = flying{router: f.router, chain: f.chain, attempt: f.attempt, left: true}
	p.due.push(now+int64(asksAgain), turnDue, i)
}

// stands reports whether a turn is in a router's queue.
func (p *player) stands(s standing, i int) bool {
	j, ok := p.inLine[s]
	return ok && int(j) == i
}
