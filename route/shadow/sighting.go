package shadow

import (
	"cmp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Sighting is a copy of a decision for shadows. It shares nothing with the router, so that it can be evaluated later
// and in another goroutine. It can be reused for another decision.
type Sighting struct {
	view    pick.View
	request fleet.Request // what policies read; without the trail, and of names only their number
	content fleet.Content // of the request; the acting policy may not have had it
	pool    string
	session string
	chosen  int
	retry   bool
	forced  bool // the router chose without a policy
	lease   fleet.Lease

	what     what
	answered bool   // for the end of a lease
	endpoint uint64 // endpoint that has left, by Candidate.Key
}

// what is the kind of a Sighting. An end has only the lease and answered, a departure only the endpoint.
type what uint8

const (
	decided what = iota
	ended
	departed
)

// Placed is where a request went.
type Placed struct {
	Lease    fleet.Lease
	Endpoint string // name
	Pool     string
	Session  string // id of the conversation
	Reason   pick.Reason
}

// Take copies a decision: the policy's view, the request and the placement. It returns false, and the sighting is
// invalid, if the view is of another decision or only a leg of the request was placed.
func (s *Sighting) Take(v *pick.View, req *fleet.Request, d Placed) bool {
	if v.Leg != fleet.LegUnsplit {
		return false
	}
	s.what, s.lease, s.forced = decided, d.Lease, d.Reason == pick.ReasonHolder || d.Reason == pick.ReasonPinned
	s.chosen = 0
	for s.chosen < len(v.Candidates) && v.Candidates[s.chosen].Name != d.Endpoint {
		s.chosen++
	}
	if s.chosen == len(v.Candidates) {
		return false
	}
	candidates := append(s.view.Candidates[:0], v.Candidates...)
	for i := range candidates {
		candidates[i].Terms = pick.Terms{}
	}
	s.view = *v
	s.view.Candidates, s.view.Rand, s.view.Source = candidates, nil, nil
	s.request = *req
	s.request.Trail, s.request.Exclude, s.request.Owned = nil, nil, nil
	s.request.Tried, s.request.TriedPrefill, s.request.Refused, s.request.Lacking = nil, nil, nil, nil
	s.request.Content, s.request.ShadowContent, s.request.Tokens, s.request.Kinds = nil, nil, nil, nil
	s.retry, s.pool, s.session = len(req.Tried) > 0 || req.Instead != 0, d.Pool, d.Session
	names := s.content.Blocks[:0]
	s.content = fleet.Content{Blocks: names}
	c := cmp.Or(req.Content, req.ShadowContent)
	if c != nil && len(c.List) == 0 {
		if cap(names) > bound.Many && len(c.Blocks) <= bound.Many {
			names = nil
		}
		s.content = *c
		s.content.Blocks, s.content.Ends = append(names, c.Blocks...), nil
		s.request.Content = &s.content
	}
	return true
}

// End makes it the end of a lease, for policies that are told.
func (s *Sighting) End(l fleet.Lease, o fleet.Outcome) {
	s.what, s.lease, s.answered = ended, l, o == fleet.OK
}

// Leave makes it the departure of an endpoint, by Candidate.Key, for the policies.
func (s *Sighting) Leave(endpoint uint64) { s.what, s.endpoint = departed, endpoint }
