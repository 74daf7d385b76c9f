package timeouts

import (
	"errors"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/instant"
	"github.com/warmpath/warmpath/internal/live"
)

// Unreachable lists the engines that are not worth waiting for.
type Unreachable struct {
	looked int64 // instant of the latest look
	// reason: ErrRefusing, ErrDown, ErrAsleep, or ErrSilent for one that seems to hang although it is healthy
	engines map[engine]error
	mute    map[part]bool       // what engines are mute for
	up      map[string][]string // endpoints that are up, by pool
}

// engine is an endpoint at an address: its name may have moved to another one since a request was sent there.
type engine struct{ endpoint, url string }

// part is the work of an engine that belongs to a service, see route.Service.
type part struct {
	engine
	service string
}

// NewUnreachable makes an empty list.
func NewUnreachable() *Unreachable {
	return &Unreachable{engines: map[engine]error{}, mute: map[part]bool{}, up: map[string][]string{}}
}

// others reports whether the attempt's pool has an endpoint that is up and may get the request. An engine that hangs
// may recover, but not sooner than another one answers. One that is mute for a model is up itself.
func (g *Unreachable) others(w *Watch, why error) bool {
	return slices.ContainsFunc(g.up[w.pool], func(name string) bool {
		return !slices.Contains(w.barred, name) && !(errors.Is(why, ErrMute) && w.At(name))
	})
}

// why is why an engine is not worth waiting for; nil if it is.
func (g *Unreachable) why(of part) error {
	if why := g.engines[of.engine]; why != nil || len(g.mute) == 0 || !g.mute[of] {
		return why
	}
	return ErrMute
}

// Update updates the list.
func (g *Unreachable) Update(at time.Time, from *live.Fleet) {
	g.looked = instant.Of(at)
	clear(g.engines)
	clear(g.mute)
	clear(g.up)
	up := map[string]bool{}
	for _, s := range from.Status() {
		name := s.Endpoint.Name
		now := engine{name, s.Endpoint.URL}
		for _, service := range s.Mute {
			g.mute[part{now, service}] = true
		}
		for _, former := range s.Lost {
			g.engines[engine{name, former}] = ErrDown
		}
		switch s.State {
		case fleet.StateUp:
			asleep := s.Report.Sleep.Waits()
			if up[name] = !asleep && !s.Draining && !s.Gone && s.Endpoint.Weight > 0; asleep {
				g.engines[now] = ErrAsleep
			}
		case fleet.StateDown:
			g.engines[now] = ErrDown
			if s.Report.Refused {
				g.engines[now] = ErrRefusing
			}
		case fleet.StateEjected:
			if s.Silent {
				g.engines[now] = ErrSilent
			}
		case fleet.StateUnknown, fleet.StateBusy:
		}
	}
	if len(g.engines) == 0 && len(g.mute) == 0 {
		return
	}
	for _, m := range from.Models() {
		for _, e := range m.Endpoints {
			if up[e] {
				g.up[m.ID] = append(g.up[m.ID], e)
			}
		}
	}
}
