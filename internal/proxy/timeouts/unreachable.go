package timeouts

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/instant"
	"github.com/warmpath/warmpath/internal/live"
)

// Unreachable lists the endpoints that are not worth waiting for.
type Unreachable struct {
	looked int64 // instant of the latest look
	// reason: ErrRefusing, ErrDown, ErrAsleep, or ErrSilent for one that seems to hang although it is healthy
	endpoints map[string]error
	mute      map[[2]string]bool // endpoints that are so for one service, by the names of both
	up        map[string]int     // number of endpoints that are up, by pool
}

// NewUnreachable makes an empty list.
func NewUnreachable() *Unreachable {
	return &Unreachable{endpoints: map[string]error{}, mute: map[[2]string]bool{}, up: map[string]int{}}
}

// others reports whether the pool has an endpoint that is up for what waits at one that is gone. An engine that hangs
// may recover, but not sooner than another one answers. One that is mute for a model is up itself.
func (g *Unreachable) others(pool string, why error) bool {
	if errors.Is(why, ErrMute) {
		return g.up[pool] > 1
	}
	return g.up[pool] > 0
}

// why is why an endpoint is not worth waiting for; nil if it is.
func (g *Unreachable) why(endpoint, service string) error {
	if why := g.endpoints[endpoint]; why != nil || len(g.mute) == 0 || !g.mute[[2]string{endpoint, service}] {
		return why
	}
	return ErrMute
}

// Update updates the list.
func (g *Unreachable) Update(now time.Time, from *live.Fleet) {
	g.looked = instant.Of(now)
	clear(g.endpoints)
	clear(g.mute)
	clear(g.up)
	up := map[string]bool{}
	for _, s := range from.Status() {
		name := s.Endpoint.Name
		for _, service := range s.Mute {
			g.mute[[2]string{name, service}] = true
		}
		switch s.State {
		case fleet.StateUp:
			asleep := s.Report.Sleep == fleet.Asleep
			if up[name] = !asleep && !s.Draining && !s.Gone && s.Endpoint.Weight > 0; asleep {
				g.endpoints[name] = ErrAsleep
			}
		case fleet.StateDown:
			g.endpoints[name] = ErrDown
			if s.Report.Refused {
				g.endpoints[name] = ErrRefusing
			}
		case fleet.StateEjected:
			if s.Silent {
				g.endpoints[name] = ErrSilent
			}
		case fleet.StateUnknown, fleet.StateBusy:
		}
	}
	if len(g.endpoints) == 0 && len(g.mute) == 0 {
		return
	}
	for _, m := range from.Models() {
		for _, e := range m.Endpoints {
			if up[e] {
				g.up[m.ID]++
			}
		}
	}
}
