package registry

import (
	"strings"
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
)

// Which engine serves which path is learnt from their answers, since it differs between versions. An endpoint that
// lacks a path is asked again after a while, and at once when its process was restarted.

// absence is a path that some endpoints lack.
type absence struct {
	path  string
	until map[int]time.Time // by slot
}

// Absent notes that an endpoint does not have a path. If there is no room all are forgotten: they are asked once more.
func (t *Table) Absent(now time.Time, e Endpoint, path string) {
	for i := range t.absent {
		if t.absent[i].path == path {
			t.absent[i].until[e.r.slot] = now.Add(bound.Unproved)
			return
		}
	}
	if len(t.absent) >= bound.Few {
		t.absent = t.absent[:0]
	}
	t.absent = append(t.absent, absence{strings.Clone(path), map[int]time.Time{e.r.slot: now.Add(bound.Unproved)}})
}

// Present notes that an endpoint has answered under a path.
func (t *Table) Present(e Endpoint, path string) {
	for i := range t.absent {
		if t.absent[i].path == path {
			delete(t.absent[i].until, e.r.slot)
		}
	}
}

// Restarted forgets which paths an endpoint lacks, and how its models are loaded: another process, perhaps of another
// version, is behind it.
func (t *Table) Restarted(e Endpoint) {
	e.r.windows = nil
	for i := range t.absent {
		delete(t.absent[i].until, e.r.slot)
	}
}

// Absences are the endpoints that lack one path. The zero value is for a path that all are believed to have.
type Absences struct{ until map[int]time.Time }

// Absences finds them.
func (r Reader) Absences(path string) Absences {
	if path != "" {
		for i := range r.t.absent {
			if a := &r.t.absent[i]; a.path == path && len(a.until) > 0 {
				return Absences{a.until}
			}
		}
	}
	return Absences{}
}

// Any reports whether there may be some.
func (a Absences) Any() bool { return len(a.until) > 0 }

// Has reports whether the endpoint is believed to lack the path.
func (a Absences) Has(now time.Time, e Endpoint) bool { return now.Before(a.until[e.r.slot]) }
