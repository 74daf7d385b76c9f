package sent

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/instant/clockset"
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

// TestWindowOfAClockThatIsSet: what lies back too far is forgotten by the time that has passed, whatever the clock
// says.
func TestWindowOfAClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		w, c, now := Window{Seconds: 3}, policytest.Candidate(0, 1), time.Now()
		w.Add(&c, now, 1)
		for after, want := range []float64{1, 1, 1, 0, 0} {
			at := clockset.By(by, now.Add(time.Duration(after)*time.Second))
			if got := w.Of(&c, at); got != want && after != 2 { // where in a second it began is chance
				t.Errorf("set by %v, after %d s: %v, want %v", by, after, got, want)
			}
		}
		w.Add(&c, clockset.By(by, now.Add(10*time.Second)), 2)
		if got := w.Of(&c, clockset.By(by, now.Add(10*time.Second))); got != 2 {
			t.Errorf("set by %v, later: %v, want 2", by, got)
		}
	}
}
