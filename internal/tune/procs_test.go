package tune

import (
	"fmt"
	"strings"
	"testing"
)

// TestProcs plays how busy the router and its machine are, a quarter of a second a step, and looks at how many
// processors it uses.
func TestProcs(t *testing.T) {
	type stretch struct {
		steps      int
		used, idle float64 // processors
	}
	for _, c := range []struct {
		name string
		most int
		play []stretch
		want string // processors after each change, with the number of the step
	}{
		{"little to do needs one", 2, []stretch{{40, 0.5, 1}}, ""},
		{"two where there are many", 8, []stretch{{40, 0.1, 7}}, ""},
		{"more as long as it is busy", 8, []stretch{{20, 6.1, 1}}, "4@2 8@4"},
		{"no more than there are", 6, []stretch{{20, 9, 4}}, "4@2 6@4"},
		{"a moment is none", 8, []stretch{{1, 2, 6}, {1, 0.1, 7}, {1, 2, 6}, {1, 0.1, 7}, {1, 2, 6}}, ""},
		{"no more where others use the rest", 2, []stretch{{40, 0.94, 0.1}}, ""},
		{"but when all that there is does not do", 2, []stretch{{40, 0.98, 0.1}}, "2@20"},
		{"what was idle before it was busy does not count", 2, []stretch{
			{9, 0.1, 1.9}, {1, 0.7, 1.2}, {20, 0.94, 0.1},
		}, ""},
		{"fewer after two seconds of calm", 8, []stretch{{4, 3.9, 4}, {40, 0.1, 7}}, "4@2 8@4 4@12 2@20"},
		{"calm that is interrupted begins anew", 2, []stretch{
			{2, 0.9, 1}, {7, 0.1, 1}, {1, 0.9, 1}, {8, 0.1, 1},
		}, "2@2 1@18"},
		{"what two do is not given to one", 2, []stretch{{2, 0.9, 1}, {40, 0.5, 1}}, "2@2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const seconds = 0.25
			var idle float64
			p := procs{idle: func() (float64, bool) { return idle, true }}
			p.limit(c.most)
			var got []string
			step := 0
			for _, s := range c.play {
				for range s.steps {
					step++
					before := p.n
					idle += s.idle * seconds
					p.look(s.used*seconds, seconds)
					if p.n != before {
						got = append(got, fmt.Sprintf("%d@%d", p.n, step))
					}
				}
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestProcsWithoutIdle: where nobody knows what the machine has to spare it is tried.
func TestProcsWithoutIdle(t *testing.T) {
	p := procs{idle: func() (float64, bool) { return 0, false }}
	p.limit(2)
	for range 2 {
		p.look(0.2, 0.25)
	}
	if p.n != 2 {
		t.Errorf("%d processors", p.n)
	}
	if p.limit(1); p.n != 1 {
		t.Errorf("%d processors of one", p.n)
	}
}

func TestProcessorTimes(t *testing.T) {
	used, idle, ok := processorTimes()
	if !ok {
		t.Skip("no /proc")
	}
	if s, ok := used(); !ok || s < 0 {
		t.Errorf("used: %v, %v", s, ok)
	}
	before, ok := idle()
	if after, again := idle(); !ok || !again || after < before {
		t.Errorf("idle: %v, then %v", before, after)
	}
}
