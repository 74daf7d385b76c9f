package backlog

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
)

// TestCame: of the prompts that arrived, only the latest are remembered one by one.
func TestCame(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(1000, 0).Add(time.Duration(n) * time.Second) }
	var c arrivalRing
	if end, ok := c.by(at(0)); !ok || end != 0 {
		t.Errorf("nothing has come: %d, %v", end, ok)
	}
	const all = 3 * bound.Few / 2
	for i := range all {
		c.note(at(i), int64(10*i+10))
	}
	for _, row := range []struct {
		n   int
		end int64
		ok  bool
	}{
		{all + 5, 10 * all, true},
		{all - 10, 10*(all-10) + 10, true},
		{all - bound.Few, 10*(all-bound.Few) + 10, true},
		{all - bound.Few - 1, 0, false},
		{0, 0, false},
	} {
		if end, ok := c.by(at(row.n)); end != row.end || ok != row.ok {
			t.Errorf("by %d: %d, %v, want %d, %v", row.n, end, ok, row.end, row.ok)
		}
	}
}
