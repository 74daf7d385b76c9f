package shadow

import (
	"bytes"
	"testing"

	"github.com/warmpath/warmpath/route/shadow"
)

// TestShow: nothing is divided by nothing, the most frequent reasons come first, and what was not looked at is said.
func TestShow(t *testing.T) {
	r := Report{Policy: "session", Budget: 0.05, Share: 0.25, Skipped: 7, Dropped: 3, Failed: "boom"}
	r.Decisions, r.Late = 100, 4
	r.Acting = shadow.World{
		Turns: 90, PromptTokens: 1000, CachedTokens: 600, TTFTMs: 9000, P50Ms: 50, P90Ms: 200.25, P99Ms: 900,
		Later: 50, Home: 40,
	}
	r.Shadows = []shadow.PolicyReport{
		{
			Policy: "random", Here: shadow.Step{
				Decisions: 100, Differs: 40, Priced: 90, Cheaper: 30, SavesMs: 500, LosesMs: 20,
				TTFTMs: -300, CostMs: 123,
			}, Why: []shadow.Reason{{Reason: "a", Differs: 5}, {Reason: "b", Differs: 20}, {Reason: "c", Differs: 1}, {
				Reason: "d", Differs: 9,
			}},
		},
		{Policy: "none"},
	}
	var out bytes.Buffer
	r.Show(&out)
	want := `session decides; 100 decisions were shown to 2 other policies

In its place, one decision at a time:

 policy  differs  by TTFT  by cost  cheaper   saves   loses  why it differs            
 random    40.0%  -3.3 ms  +1.4 ms    33.3%  5.0 ms  0.2 ms  b 50.0%, d 22.5%, a 12.5% 
 none          -        -        -        -       -       -                            

Had each decided all along, as estimated (compare these rows only):

 policy             turns  TTFT mean      p50       p90       p99  cached  at home 
 session (decides)     90   100.0 ms  50.0 ms  200.2 ms  900.0 ms   60.0%    80.0% 
 random                 0          -   0.0 ms    0.0 ms    0.0 ms       -        - 
 none                   0          -   0.0 ms    0.0 ms    0.0 ms       -        - 
a policy has failed, and none is asked any more: boom
4 turns of conversations whose beginning was not seen are left out of the second table
10 decisions were not looked at: the budget is 0.05 of a core (shadow.budget), one conversation in 4 is looked at now
`
	if got := out.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
