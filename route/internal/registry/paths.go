package registry

import (
	"strings"
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
)

// Which engine serves which path is learnt from their answers, since it differs between versions. An endpoint that
// lacks a path is asked again after a while, and at once when its process was restarted. One that has answered there
// before does not lack it: what says so is a proxy before it, which has lost it for a moment.

// passing is for how long an endpoint that has answered under a path is taken to lack it.
const passing = 5 * time.Second

// pathRecord is a path, and which endpoints are known to have it or to lack it, by slot.
type pathRecord struct {
	path  string
	has   map[int]struct{} // those that have answered under it
	had   map[int]struct{} // those that did before they were restarted, and have not lacked it since
	lacks map[int]time.Time
	until time.Time // none lacks it from then on
}

// pathOf is the record of a path, nil if there is none.
func (t *Table) pathOf(path string) *pathRecord {
	if path == "" {
		return nil
	}
	for i := range t.paths {
		if t.paths[i].path == path {
			return &t.paths[i]
		}
	}
	return nil
}

func (t *Table) addPath(path string) *pathRecord {
	t.paths = append(t.paths, pathRecord{
		path: strings.Clone(path), has: map[int]struct{}{}, had: map[int]struct{}{}, lacks: map[int]time.Time{},
	})
	return &t.paths[len(t.paths)-1]
}

// Absent notes that an endpoint does not have a path. If there is no room all are forgotten: they are asked once more.
func (t *Table) Absent(now time.Time, e Endpoint, path string) {
	p := t.pathOf(path)
	if p == nil {
		if len(t.paths) >= bound.Few {
			t.paths = t.paths[:0]
		}
		p = t.addPath(path)
	}
	most := bound.Unproved
	if _, ok := p.has[e.r.slot]; ok {
		most = passing
	}
	until := now.Add(most)
	delete(p.had, e.r.slot)
	if p.lacks[e.r.slot] = until; until.After(p.until) {
		p.until = until
	}
}

// Present notes that an endpoint has answered under a path, if there is room.
func (t *Table) Present(e Endpoint, path string) {
	p := t.pathOf(path)
	if p == nil {
		if len(t.paths) >= bound.Few {
			return
		}
		p = t.addPath(path)
	}
	p.has[e.r.slot] = struct{}{}
	delete(p.lacks, e.r.slot)
}

// Restarted forgets which paths an endpoint has and lacks, and how its models are loaded: another process, perhaps of
// another version, is behind it.
func (t *Table) Restarted(e Endpoint) {
	e.r.windows = nil
	e.r.report.Load = nil // its slots count their requests anew
	for i := range t.paths {
		p := &t.paths[i]
		if _, ok := p.has[e.r.slot]; ok {
			p.had[e.r.slot] = struct{}{}
		}
		delete(p.has, e.r.slot)
		delete(p.lacks, e.r.slot)
	}
}

// Answered reports whether an endpoint has answered under a path since its process started, and whether it has lacked
// the path since its latest answer.
func (r Reader) Answered(e Endpoint, path string) (did, lost bool) {
	p := r.Path(path)
	_, lost = p.lacks[e.r.slot]
	did = p.AnsweredBy(e)
	return did, did && lost
}

// Path says which endpoints have a path, and which lack it. The zero value is for one that all are believed to have.
type Path struct{ pathRecord }

// Path is what is known of a path.
func (r Reader) Path(path string) (p Path) {
	if known := r.t.pathOf(path); known != nil {
		p.pathRecord = *known
	}
	return p
}

// LackedByAny reports whether an endpoint may lack it.
func (p Path) LackedByAny(now time.Time) bool { return len(p.lacks) > 0 && now.Before(p.until) }

// LackedBy reports whether an endpoint is believed to lack it.
func (p Path) LackedBy(now time.Time, e Endpoint) bool { return now.Before(p.lacks[e.r.slot]) }

// AnsweredBy reports whether an endpoint has answered under it, so that it lacks the path for a moment at most.
func (p Path) AnsweredBy(e Endpoint) bool {
	_, ok := p.has[e.r.slot]
	return ok
}

// AnsweredByAny reports whether some endpoint has answered under it, in this process or before.
func (p Path) AnsweredByAny() bool { return len(p.has)+len(p.had) > 0 }

// ServedBy reports whether an endpoint is believed to have it because it has answered under it, in this process or
// before.
func (p Path) ServedBy(now time.Time, e Endpoint) bool {
	_, before := p.had[e.r.slot]
	return (before || p.AnsweredBy(e)) && !p.LackedBy(now, e)
}
