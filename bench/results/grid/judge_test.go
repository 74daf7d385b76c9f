package grid

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/sim/figures"
)

// TestIntervals checks the statistics against tables and by hand.
func TestIntervals(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-3*math.Max(1, math.Abs(want)) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for _, tt := range []struct {
		freedom int
		want    float64
	}{{1, 12.706}, {2, 4.303}, {4, 2.776}, {30, 2.042}, {40, 2.021}, {60, 2.000}, {120, 1.980}} {
		near(fmt.Sprintf("student(%d)", tt.freedom), student(tt.freedom), tt.want)
	}
	i := intervalOf([]float64{1, 2, 3}) // deviation 1
	near("mean", i.mean, 2)
	near("high", i.high, 2+4.303/math.Sqrt(3))
	near("low", i.low, 2-4.303/math.Sqrt(3))
	if i := intervalOf([]float64{7}); i != (interval{7, 7, 7}) {
		t.Errorf("one seed: %v", i)
	}
	r := ratioOf([]float64{10, 200, 0.5}, []float64{5, 100, 0.25}) // seeds differ wildly, and alike
	near("ratio", r.mean, 2)
	near("its bounds", r.high-r.low, 0)
	r = ratioOf([]float64{1, 4}, []float64{1, 1})
	near("geometric mean", r.mean, 2)
	// logarithms 0 and 2 ln 2: their deviation over the root of two is ln 2
	near("bound", math.Log(r.high/2), 12.706*math.Log(2))
	if r := ratioOf([]float64{1, 1}, []float64{0, 1}); !math.IsNaN(r.mean) {
		t.Errorf("a ratio to nothing: %v", r)
	}
}

// cellOf is what is said of a cell with the p90s, in s, of policies under two seeds, and their hit rates.
func cellOf(rows map[string][3]float64, firsts int, cv float64) []*judged {
	cells := []Cell{{"t", 2, fleetEven, 0.7}}
	var runs []*run
	for _, name := range []string{"least_ttft", "session", "lmetric", "oracle"} {
		row, ok := rows[name]
		for seed := range 2 {
			if !ok {
				continue
			}
			runs = append(runs, &run{
				conditions: conditions{Cell: cells[0], Policy: name, Seed: uint64(seed + 1)},
				result: &kept{Figures: figures.Figures{
					Policy: name, Endpoints: 2, TTFT: figures.Spread{P90: row[seed]}, HitRate: row[2],
					FirstTurnCV: cv * float64(seed+1),
					PerEndpoint: []figures.EndpointFigure{{FirstTurns: firsts}, {FirstTurns: firsts}},
				}},
			})
		}
	}
	return judge(cells, runs)
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rows   map[string][3]float64
		firsts int
		cv     float64

		verdict  verdict
		best     string
		hitOK    bool
		hitFair  bool
		equals   int
		spreadOn bool
	}{
		{
			"best, though the oracle is better",
			map[string][3]float64{"least_ttft": {10, 12, .5}, "session": {20, 24, .5}, "oracle": {1, 1, .9}},
			100, .04, verdictBest, "session", true, true, 0, true,
		},
		{
			"within",
			map[string][3]float64{"least_ttft": {10.3, 10.3, .5}, "session": {20, 24, .5}, "lmetric": {10, 10, .5}},
			99, .04, verdictWithin, "lmetric", false, true, 0, false,
		},
		{
			"the interval reaches the margin",
			map[string][3]float64{"least_ttft": {10, 12, .5}, "lmetric": {10, 10, .5}},
			100, .04, verdictOpen, "lmetric", true, true, 0, true,
		},
		{
			"behind",
			map[string][3]float64{"least_ttft": {11, 11.01, .5}, "lmetric": {10, 10, .5}},
			100, .04, verdictBehind, "lmetric", false, true, 0, true,
		},
		{
			"a simple one is as good",
			map[string][3]float64{"least_ttft": {10, 12, .5}, "session": {10.1, 12.1, .5}},
			100, .04, verdictBest, "session", true, true, 1, true,
		},
		{
			"fewer hits",
			map[string][3]float64{"least_ttft": {10, 12, .5}, "lmetric": {20, 22, .515}},
			100, .04, verdictBest, "lmetric", false, true, 0, true,
		},
		{"alone", map[string][3]float64{"least_ttft": {10, 12, .5}}, 100, .04, "", "", false, false, 0, false},
		{
			"without ours",
			map[string][3]float64{"session": {10, 12, .5}},
			100, .04, "", "session", false, false, 0, false,
		},
		{
			"fewer hits and later",
			map[string][3]float64{"least_ttft": {10, 12, .5}, "lmetric": {9.9, 11.9, .515}},
			100, .04, verdictWithin, "lmetric", false, false, 0, true,
		},
	} {
		j := cellOf(tt.rows, tt.firsts, tt.cv)[0]
		best := ""
		if j.best != nil {
			best = j.best.policy
		}
		if j.verdict != tt.verdict || best != tt.best || j.hitOK != tt.hitOK || j.hitFair != tt.hitFair ||
			len(j.equals) != tt.equals || j.spreadOn != tt.spreadOn {
			t.Errorf("%s: got %q, best %q, hits %v, equals %v, spread %v",
				tt.name, j.verdict, best, j.hitOK, j.equals, j.spreadOn)
		}
		if j.verdict != "" && math.Abs(j.spread-2*tt.cv) > 1e-9 {
			t.Errorf("%s: first-turn CV %v, want that of the worst seed, %v", tt.name, j.spread, 2*tt.cv)
		}
	}
}

// TestBeside: ratios of times are geometric means over the cells, hit rates are differences, and cells without ours
// count nowhere.
func TestBeside(t *testing.T) {
	one := cellOf(map[string][3]float64{
		"least_ttft": {10, 10, .5}, "session": {20, 20, .6}, "lmetric": {5, 5, .5}, "oracle": {1, 1, .9},
	}, 0, 0)
	two := cellOf(map[string][3]float64{"least_ttft": {10, 10, .5}, "session": {5, 5, .6}}, 0, 0)
	two[0].cell.Trace = "u"
	alone := cellOf(map[string][3]float64{"session": {1, 1, .6}}, 0, 0)
	got := beside(slices.Concat(one, two, alone))
	if len(got) != 2 || got[0].policy != "lmetric" || got[1].policy != "session" {
		t.Fatalf("got %+v, want lmetric and session", got)
	}
	s := got[1]
	if math.Abs(s.p90-1) > 1e-9 || s.traces["t"] != 2 || s.traces["u"] != .5 || math.Abs(s.hit-.1) > 1e-9 ||
		s.cells != 2 || s.lower != 1 {
		t.Errorf("session: %+v", s)
	}
	if l := got[0]; l.cells != 1 || l.lower != 1 || l.p90 != .5 {
		t.Errorf("lmetric: %+v", l)
	}
}

func TestCellsOf(t *testing.T) {
	for _, tt := range []struct {
		only []string
		want int
		err  string
	}{
		{nil, 54, ""},
		{[]string{"trace=coding_agent"}, 18, ""},
		{[]string{"trace=coding_agent", "trace=mooncake_synthetic", "endpoints=8", "load=0.7", "fleet=even"}, 2, ""},
		{[]string{"endpoints"}, 0, "want kind=value"},
		{[]string{"endpoint=8"}, 0, `no kind "endpoint"; did you mean "endpoints"?`},
		{[]string{"load=0.5"}, 0, "want 0.4, 0.7, 0.9"},
	} {
		got, err := Cells(tt.only)
		if len(got) != tt.want || (err == nil) != (tt.err == "") ||
			err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: %d cells, %v", tt.only, len(got), err)
		}
		if only := onlyOf(got); err == nil &&
			!slices.Equal(slices.Sorted(slices.Values(only)), slices.Sorted(slices.Values(tt.only))) {
			t.Errorf("%v: the cells are said to be those of %v", tt.only, only)
		}
	}
}
