package route

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestRunning: a request is told with its endpoint from when it is placed until it ends, and whether it is answered.
func TestRunning(t *testing.T) {
	w := newKVWorld(t)
	if got := w.r.Running("x"); len(got) != 0 {
		t.Fatalf("before: %+v", got)
	}
	d, err := w.r.Decide(w.now, &fleet.Request{ID: "x", Tenant: "blue", Model: "m", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	is := Running{
		Request: "x", Endpoint: "a", Tenant: "blue", Pool: "m", Leg: fleet.LegUnsplit, Routed: w.now, Sent: w.now,
	}
	if got := w.r.Running("x"); len(got) != 1 || got[0] != is {
		t.Errorf("placed: %+v, want %+v", got, is)
	}
	w.observe(FirstByte{Lease: d.Lease})
	is.Answers = true
	if got := w.r.Running("x"); len(got) != 1 || got[0] != is {
		t.Errorf("answered: %+v, want %+v", got, is)
	}
	if got := w.r.Running("y"); len(got) != 0 {
		t.Errorf("another: %+v", got)
	}
	w.observe(Finished{Lease: d.Lease})
	if got := w.r.Running("x"); len(got) != 0 {
		t.Errorf("ended: %+v", got)
	}
}
