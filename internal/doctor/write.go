package doctor

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/starter"
)

// Endpoint is the engine in a configuration, with its ranks or slots as endpoints of their own and what to change as
// comments.
func (r *Report) Endpoint() starter.Endpoint {
	e := starter.Endpoint{URL: r.URL}
	if r.Kind != string(fleet.KindOther) && !r.Router {
		e.Kind = r.Kind
	}
	switch {
	case r.Router:
	case r.Ranks > 1:
		e.Ranks = r.Ranks
	case r.SlotsKeep == Yes: // else a request that names its slot finds nothing there
		e.Slots = r.Slots
	}
	for _, a := range r.Advice {
		e.Notes = append(e.Notes, a.Text)
		if a.Flag != "" {
			e.Notes = append(e.Notes, "  start it with: "+a.Flag)
		}
	}
	return e
}
