package route

import (
	"reflect"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Survey finds out what a snapshot of endpoints changes, in steps between which requests can be decided. The snapshots
// of a source are surveyed and declared one after another.
type Survey struct {
	Fresh  []fleet.Endpoint // not known as they are declared now
	Left   []string         // omitted
	Gently bool             // the fleet runs, so those that join it ramp up

	begun      bool
	names      map[string]bool // of the snapshot
	compared   bool            // all of it
	next       int
	generation uint64 // of the registry when the omitted ones were first looked for
}

// NewSurvey begins a survey of a snapshot.
func NewSurvey(d *Declared) *Survey {
	s := &Survey{names: make(map[string]bool, len(d.Endpoints))}
	for i := range d.Endpoints {
		s.names[d.Endpoints[i].Name] = true
	}
	return s
}

// Survey takes one step and reports whether there are more. If endpoints have come or gone since the last step, it
// looks for the omitted ones anew.
func (r *Router) Survey(now time.Time, d *Declared, s *Survey) (more bool) {
	if !s.begun {
		s.begun, s.Gently = true, r.running(now)
	}
	if !s.compared {
		end := min(s.next+bound.Step, len(d.Endpoints))
		for ; s.next < end; s.next++ {
			spec := &d.Endpoints[s.next]
			old := r.endpoints.Named(spec.Name)
			if !old.Exists() || old.Gone() || old.Source() != d.Source || !reflect.DeepEqual(old.Spec(), *spec) {
				s.Fresh = append(s.Fresh, *spec)
			}
		}
		if s.next == len(d.Endpoints) {
			s.compared, s.next, s.generation = true, 0, r.endpoints.Generation()
		}
		return true
	}
	if g := r.endpoints.Generation(); s.generation != g {
		s.Left, s.next, s.generation = s.Left[:0], 0, g
	}
	end := min(s.next+bound.Step, r.endpoints.Len())
	for ; s.next < end; s.next++ {
		if ep := r.endpoints.Nth(s.next); ep.Current() && ep.Source() == d.Source && !ep.Gone() && !s.names[ep.Name()] {
			s.Left = append(s.Left, ep.Name())
		}
	}
	return s.next < r.endpoints.Len()
}
