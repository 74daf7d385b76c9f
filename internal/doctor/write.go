package doctor

import (
	"fmt"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/starter"
)

// Endpoint is the engine in a configuration, with what to change as comments.
func (r *Report) Endpoint() starter.Endpoint {
	e := starter.Endpoint{URL: r.URL}
	if r.Kind != string(fleet.KindOther) {
		e.Kind = r.Kind
	}
	if r.Ranks > 1 {
		e.Notes = append(e.Notes, fmt.Sprintf("ranks: %d makes each data-parallel rank an endpoint of its own", r.Ranks))
	}
	for _, a := range r.Advice {
		e.Notes = append(e.Notes, a.Text)
		if a.Flag != "" {
			e.Notes = append(e.Notes, "  start it with: "+a.Flag)
		}
	}
	return e
}
