package explain

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestShow: what is nothing everywhere is left out, the chosen one is marked, and a request that nobody took is shown
// too.
func TestShow(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 123e6, time.Local)
	first := 12.0
	d := Decision{
		Request: "r1", At: at, Endpoint: "e1", Leg: "decode", Reason: "leaves", Why: "It is so.", Class: "turn",
		Conversation: "c1", Pool: "m", Model: "alias", Outcome: "ok", Eligible: 4,
		Predicted: Predicted{PromptTokens: 5, TTFTMs: &first}, Observed: Observed{DurationMs: 100},
		Candidates: []Candidate{
			{
				Endpoint: "e1", Chosen: true, CostMs: 10.5, Terms: Terms{Wait: 5}, CachedTokens: 100, Requests: 1,
				PrefillTokens: 1000, DecodeTokens: 7,
			},
			{Endpoint: "e12", CostMs: 126, Terms: Terms{Transfer: 3}},
		},
	}
	for _, tt := range []struct {
		d    Decision
		want string
	}{
		{d, `2026-01-02 03:04:05.123  r1 -> e1, decode  (leaves)
  It is so.
  turn, conversation c1, pool m, model alias
   candidate, ms  wait  transfer  cost  cached  open  to do 
   * e1            5.0       0.0  10.5     100     1   1007 
     e12           0.0       3.0   126       0     0      0 
  and 2 more that cost as much or more
`},
		{Decision{
			Request: "r2", At: at, Reason: "none", Why: "Nobody was there.", FirstTurn: true, Outcome: "refused",
		}, `2026-01-02 03:04:05.123  r2 -> no endpoint  (none)
  Nobody was there.
  first turn
`},
	} {
		var out bytes.Buffer
		tt.d.Show(&out)
		if got := out.String(); len(got) < len(tt.want) || got[:len(tt.want)] != tt.want {
			t.Errorf("%s\nwant it to begin with\n%s", got, tt.want)
		}
	}
}

// TestTablesOfLongNames: candidates whose names begin and end alike are told apart, and the tables stay narrow.
func TestTablesOfLongNames(t *testing.T) {
	d := Decision{Class: "turn"}
	for i := range 3 {
		d.Candidates = append(d.Candidates, Candidate{
			Endpoint: fmt.Sprintf("vllm-qwen3-235b-a22b-instruct-2507-fp8-7c9f8d6b5-%05d.models.svc.cluster.local", i),
			Chosen:   i == 0, CostMs: 10, Terms: Terms{Others: 5}, Others: &Others{Arrivals: 5},
		})
	}
	for _, table := range []string{d.costs(), d.others()} {
		for _, want := range []string{"* vllm-", "…", "-7c9f8d6b5-00000 ", "  vllm-", "-7c9f8d6b5-00002 "} {
			if !strings.Contains(table, want) {
				t.Errorf("%q is missing in\n%s", want, table)
			}
		}
		for line := range strings.Lines(table) {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}
