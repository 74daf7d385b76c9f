package engine

import (
	"slices"
	"testing"
	"time"
)

// TestInStep: engines in step end their steps together, with the slowest; one that gets a job meanwhile begins with the
// next step, and one that has nothing to compute keeps nobody.
func TestInStep(t *testing.T) {
	var engines []*Engine
	for range 3 {
		engines = append(engines, newTestEngine(t, func(c *Config) {
			c.PrefillTokensPerSecond, c.ChunkTokens, c.StepBase, c.StepPerSeq = 1000, 1000, 10*time.Millisecond, 0
		}))
	}
	InStep(engines)
	var got []string
	when := func(now time.Time) string { return now.Sub(epoch).String() }
	submit := func(now time.Time, i, prompt, output int) {
		t.Helper()
		if err := engines[i].Submit(now, jobOf(engines[i], uint64(i+1), uint64(i+7), prompt, output)); err != nil {
			t.Fatal(err)
		}
	}
	submit(epoch, 0, 500, 3)                           // 510 ms
	submit(epoch.Add(100*time.Millisecond), 1, 200, 2) // begins at 510 ms, and takes 210
	for {
		var ends []time.Time
		for _, e := range engines {
			if at, busy := e.Next(); busy {
				ends = append(ends, at)
			}
		}
		if len(ends) == 0 {
			break
		}
		now := slices.MinFunc(ends, time.Time.Compare)
		if last := slices.MaxFunc(ends, time.Time.Compare); !last.Equal(now) {
			t.Fatalf("steps end at %s and %s", when(now), when(last))
		}
		for i, e := range engines {
			for _, x := range e.Advance(now) {
				if x.Kind == Token {
					got = append(got, string(rune('a'+i))+" "+when(x.At))
				}
			}
		}
	}
	if want := []string{"a 510ms", "a 720ms", "b 720ms", "a 730ms", "b 730ms"}; !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
	if s := engines[2].Stats(); s.Steps != 0 {
		t.Errorf("the engine without a job made %d steps", s.Steps)
	}
}
