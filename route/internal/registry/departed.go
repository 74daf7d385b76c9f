package registry

import (
	"maps"
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
)

// Departed notes the models of an endpoint that has left. They are believed to come back for a while, as where the only
// engine of a model is replaced.
func (t *Table) Departed(now time.Time, e Endpoint) {
	if t.departed == nil {
		t.departed = map[string]time.Time{}
	}
	maps.DeleteFunc(t.departed, func(_ string, at time.Time) bool { return now.Sub(at) >= bound.Unproved })
	e.EachModel(func(id, _ string) bool {
		if len(t.departed) < bound.Many {
			t.departed[id] = now
		}
		return true
	})
}

// DepartedSince is how long ago the last endpoint with a model has left, if that is not long ago.
func (r Reader) DepartedSince(now time.Time, model string) (since time.Duration, ok bool) {
	at, ok := r.t.departed[model]
	since = now.Sub(at)
	return since, ok && since < bound.Unproved
}
