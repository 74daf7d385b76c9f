package policy

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/route"
)

// TestExactPoliciesDoNotQueue: the rules of other routers send each request at once, as the originals do, also inside
// session. All others have the router's queue.
func TestExactPoliciesDoNotQueue(t *testing.T) {
	for _, name := range Names() {
		other := slices.Contains(RivalNames(), name)
		of := []Config{{Name: name}}
		if name != nameSession {
			of = append(of, Config{Name: nameSession, Session: SessionConfig{Fallback: name}})
		}
		for _, c := range of {
			if got := needs(c).Exact; got != other {
				t.Errorf("%s %s: exact %v, want %v", c.Name, c.Session.Fallback, got, other)
			}
			if q := Queue(c); (q == route.QueueConfig{}) != other {
				t.Errorf("%s %s: %+v", c.Name, c.Session.Fallback, q)
			}
		}
	}
	if q := Queue(Config{Name: "oracle"}); q != (route.QueueConfig{}) {
		t.Errorf("no policy, and %+v", q)
	}
}
