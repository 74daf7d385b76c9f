package figures

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

func TestWorkingSet(t *testing.T) {
	const s = time.Second
	tr := &trace.Trace{
		Sessions: []trace.Session{{Parent: -1, Turns: 2}, {Parent: -1, Turns: 2}},
		Turns: []trace.Turn{
			{Prompt: 100}, {Prompt: 300, Number: 1}, {Session: 1, Prompt: 200}, {Session: 1, Prompt: 400, Number: 1},
		},
	}
	// 100, 300, over at 30 s
	first, second := drive.Played{Turn: 0, Sent: 0, Took: s}, drive.Played{Turn: 1, Sent: 10 * s, Took: 20 * s}
	other, waits := drive.Played{Turn: 2, Sent: 20 * s, Took: s}, drive.Played{Turn: 3, Sent: 35 * s, TTFT: 5 * s}
	left := drive.Played{Turn: 1, Sent: 5 * s, Took: s, Left: true}
	for _, c := range []struct {
		name  string
		o     drive.Outcome
		cache int
		want  float64 // from 10 s to 40 s
	}{
		{"one that ends", drive.Outcome{Turns: []drive.Played{first, second}}, 1000, 300. * 20 / 30 / 2000},
		{"its end is not the first turn's", drive.Outcome{Turns: []drive.Played{first}}, 1000, 100. / 2000},
		{
			"two, one under way",
			drive.Outcome{Turns: []drive.Played{first, second, other}, Cut: []drive.Played{waits}},
			1000,
			(300.*20 + 200*15 + 400*5) / 30 / 2000,
		},
		{"a client that left", drive.Outcome{Turns: []drive.Played{first, left, second}}, 1000, 300. * 20 / 30 / 2000},
		{"no limit", drive.Outcome{Turns: []drive.Played{first, second}}, 0, 0},
		{"nothing", drive.Outcome{}, 1000, 0},
	} {
		r := &drive.Replay{Trace: tr, Fleet: rig.Even(2, engine.Config{CacheTokens: c.cache})}
		c.o.Span = 40 * s
		if got := workingSet(r, &c.o); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
