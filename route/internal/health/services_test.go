package health

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
)

// TestMuteService: a model is kept away for longer each time, one request tries it then, and a byte ends it.
func TestMuteService(t *testing.T) {
	h := New(Config{EjectFor: time.Second, EjectMax: 30 * time.Second})
	now := time.Unix(1_000_000, 0)
	h.AddEndpoint(0)
	r := h.Reader
	h.Mute(now, 0, "m", time.Minute)
	if r.Mutes() {
		t.Error("a model of which nothing was ever heard is mute")
	}
	h.ServiceAlive(0, "m", now)
	h.ServiceAlive(0, "n", now)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		h.Mute(now, 0, "m", 0)
		for _, at := range []time.Duration{0, want*time.Second - 1} {
			if !r.IsMute(now.Add(at), 0, "m") || r.IsMute(now.Add(at), 0, "n") ||
				!slices.Equal(r.MuteFor(now.Add(at), 0), []string{"m"}) {
				t.Errorf("after %v of %d s: %v", at, want, r.MuteFor(now.Add(at), 0))
			}
		}
		now = now.Add(want * time.Second)
		if r.IsMute(now, 0, "m") {
			t.Errorf("mute for more than %d s", want)
		}
		h.AdmitService(now, 0, "m")
		over := now.Add(30 * time.Second)
		if !r.IsMute(now, 0, "m") || !r.IsMute(over.Add(-1), 0, "m") || r.IsMute(over, 0, "m") {
			t.Error("not one request at a time tries it")
		}
	}
	h.ServiceAlive(0, "m", now.Add(-time.Hour))
	if !r.Mutes() {
		t.Error("an old byte ended it")
	}
	h.ServiceAlive(0, "m", now)
	if r.Mutes() || r.IsMute(now, 0, "m") {
		t.Error("a byte did not end it")
	}
	h.Mute(now, 0, "m", 20*time.Second)
	if !r.IsMute(now.Add(19*time.Second), 0, "m") {
		t.Error("kept away for less than it was waited for")
	}
	h.Probe(now, 0, true, "")
	h.Probe(now, 0, false, "gone")
	h.Probe(now, 0, true, "")
	if r.Mutes() || r.HasServices(0) {
		t.Error("a restart did not end it")
	}
	h.ServiceAlive(0, "gone", now)
	h.Mute(now, 0, "gone", time.Second)
	if h.UnmuteUntried(now.Add(31*time.Second - 1)); !r.Mutes() {
		t.Error("a mute service is forgotten before the longest ejection has passed since it could be tried")
	}
	if h.UnmuteUntried(now.Add(31 * time.Second)); r.Mutes() {
		t.Error("a service that nothing tries stays mute, and decisions look at each endpoint for ever")
	}
	for i := range 3 * bound.Few {
		model := fmt.Sprint(i)
		h.ServiceAlive(0, model, now.Add(time.Duration(i)))
		h.Mute(now, 0, model, time.Minute)
	}
	if n := len(r.MuteFor(now, 0)); n != bound.Few {
		t.Errorf("%d models are kept, want %d", n, bound.Few)
	}
	h.AddEndpoint(0)
	if r.Mutes() {
		t.Error("another endpoint is mute in the place of the first")
	}
}
