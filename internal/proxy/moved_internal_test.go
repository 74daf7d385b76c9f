package proxy

import (
	"strconv"
	"testing"
	"time"
)

// TestMoved: a model may be about to be found elsewhere for a while from the first time that an engine lacked it,
// however often others lack it then, and again after a minute. Few are remembered.
func TestMoved(t *testing.T) {
	var m moved
	t0 := time.Unix(1_800_000_000, 0)
	for _, step := range []struct {
		at     time.Duration
		lacked bool
		want   bool
	}{
		{0, false, false},
		{time.Second, true, true},
		{4 * time.Second, true, true},
		{7 * time.Second, true, false},
		{50 * time.Second, true, false},
		{62 * time.Second, false, false},
		{63 * time.Second, true, true},
	} {
		now := t0.Add(step.at)
		if step.lacked {
			m.lacked(now, "ad")
		}
		if got := m.moves(now, "ad"); got != step.want {
			t.Errorf("after %v: %t", step.at, got)
		}
	}
	for i := range 1000 {
		m.lacked(t0, strconv.Itoa(i))
	}
	if len(m.since) > mostMoved {
		t.Errorf("%d models are remembered", len(m.since))
	}
}
