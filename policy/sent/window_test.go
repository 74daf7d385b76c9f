package sent

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/policy/policytest"
)

func TestWindowForgets(t *testing.T) {
	w, c := Window{Seconds: 3}, policytest.Candidate(0, 1)
	now := time.Unix(10, 0)
	w.Add(&c, now, 1)
	w.Add(&c, now.Add(time.Second), 2)
	w.Add(&c, now.Add(2*time.Second), 4)
	for after, want := range []float64{7, 7, 7, 6, 4, 0, 0} { // an earlier time changes nothing
		if got := w.Of(&c, now.Add(time.Duration(after)*time.Second)); got != want {
			t.Errorf("after %d s: %v, want %v", after, got, want)
		}
	}
	w.Add(&c, now.Add(100*time.Second), 1)
	c.Key++
	if got := w.Of(&c, now.Add(100*time.Second)); got != 0 {
		t.Errorf("a new endpoint has %v", got)
	}
	before := time.Unix(-5, 0)
	d := policytest.Candidate(1, 1)
	w.Add(&d, before, 1)
	if got := w.Of(&d, before.Add(2*time.Second)); got != 1 {
		t.Errorf("before 1970: %v", got)
	}
}
