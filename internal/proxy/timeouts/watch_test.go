package timeouts

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/instant"
	"github.com/warmpath/warmpath/route"
)

// decided is a decision for a model at e0.
func decided() *route.Decision {
	return &route.Decision{Endpoint: fleet.Endpoint{Name: e0.endpoint, URL: e0.url}, Pool: "m", Model: "m"}
}

var e0 = engine{"e0", "http://e0"}

// TestTrialIsNotGivenUp: what waits at a silent endpoint moves to another one, but not a request sent after the latest
// look: the ejection has ended since, and the request finds out whether the endpoint answers again.
func TestTrialIsNotGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		looked time.Duration // when, from the time at which the request was sent
		up     []string
		barred []string // endpoints that may not get the request
		want   error
	}{
		{"sent before the look", time.Millisecond, []string{"e1"}, nil, ErrSilent},
		{"sent after the look", -time.Millisecond, []string{"e1"}, nil, nil},
		{"no other endpoint", time.Millisecond, nil, nil, nil},
		{"it failed at the other", time.Millisecond, []string{"e1"}, []string{"e1"}, nil},
		{"it failed at one of the others", time.Millisecond, []string{"e1", "e2"}, []string{"e1"}, ErrSilent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWatch(context.Background(), decided(), "m", true, tt.barred)
			w.Wait(time.Hour)
			gone := &Unreachable{
				looked: instant.Of(w.Moved().Add(tt.looked)), engines: map[engine]error{e0: ErrSilent},
				up: map[string][]string{"m": tt.up},
			}
			if got := w.Overdue(w.Moved().Add(time.Second), gone, time.Minute, false); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestStalledAnswer: an answer that has begun is waited for while its engine is well or only hangs, for five seconds
// where it refuses connections, and twelve times as long where it is down otherwise: it may go on.
func TestStalledAnswer(t *testing.T) {
	const refusing = 5 * time.Second
	for _, tt := range []struct {
		name          string
		engine        error
		begun         bool
		before, after time.Duration // silences before and after it is given up; 0 for never
		want          error
	}{
		{"well", nil, true, time.Hour, 0, nil},
		{"silent", ErrSilent, true, time.Hour, 0, nil},
		{"asleep", ErrAsleep, true, time.Hour, 0, nil},
		{"refuses", ErrRefusing, true, refusing - 1, refusing, ErrRefusing},
		{"down", ErrDown, true, 12*refusing - 1, 12 * refusing, ErrStalled},
		{"down, before its first data", ErrDown, false, time.Hour, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWatch(context.Background(), decided(), "m", true, nil)
			w.Wait(2 * time.Hour)
			if tt.begun {
				w.FirstData()
			}
			gone := &Unreachable{looked: instant.Of(w.Moved()) + 1, engines: map[engine]error{}}
			if tt.engine != nil {
				gone.engines[e0] = tt.engine
			}
			if got := w.Overdue(w.Moved().Add(tt.before), gone, refusing, true); got != nil {
				t.Errorf("given up after %v: %v", tt.before, got)
			}
			if got := w.Overdue(w.Moved().Add(tt.after), gone, refusing, true); !errors.Is(got, tt.want) {
				t.Errorf("after %v: %v, want %v", tt.after, got, tt.want)
			}
		})
	}
}

// TestMuteForOneModel: what waits at an endpoint that is mute for its model moves to another one, if there is one
// beside it, and before the client has seen a byte; requests for other models stay.
func TestMuteForOneModel(t *testing.T) {
	for _, tt := range []struct {
		name   string
		model  string
		moves  bool
		sent   bool
		up     []string
		barred []string // endpoints that may not get the request
		want   error
	}{
		{"moves", "m", true, false, []string{"e0", "e1"}, nil, ErrMute},
		{"another model", "n", true, false, []string{"e0", "e1"}, nil, nil},
		{"nowhere to go", "m", true, false, []string{"e0"}, nil, nil},
		{"it failed at the other", "m", true, false, []string{"e0", "e1"}, []string{"e1"}, nil},
		{"cannot move", "m", false, false, []string{"e0", "e1"}, nil, nil},
		{"the client has a part", "m", true, true, []string{"e0", "e1"}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWatch(context.Background(), decided(), tt.model, tt.moves, tt.barred)
			w.Wait(time.Hour)
			gone := NewUnreachable()
			gone.looked = instant.Of(w.Moved()) + 1
			gone.mute[part{e0, "m"}] = true
			gone.up["m"] = tt.up
			if got := w.Overdue(w.Moved().Add(time.Second), gone, time.Minute, tt.sent); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
