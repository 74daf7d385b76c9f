package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/bench/arena/faults"
)

func run() *Run {
	settings := map[string]string{"plain": "p", "header": "h"}
	configs := map[string]string{"plain": "same\nonly plain\n", "header": "same\nonly header\n"}
	play := func(router string, round int, mean, p90, hit, cv float64) Play {
		return Play{
			Router: router, Scenario: "plain", Round: round, Requests: 10, TTFT: Latency{Mean: mean, P90: p90},
			HitRate: hit, WorkCV: cv,
		}
	}
	return &Run{
		Rounds: 2, Routers: []Router{
			{Name: Ours, Setting: settings, Config: configs}, {Name: "other", Setting: settings, Config: configs},
		}, Scenarios: []Scenario{{Name: "plain", Title: "Conversations"}},
		Plays: []Play{
			play(Ours, 0, 100, 200, 0.8, 0.4), play("other", 0, 150, 180, 0.7, 0.1),
			play("other", 1, 90, 360, 0.9, 0.3), play(Ours, 1, 50, 400, 0.8, 0.2),
		},
		Costs: []Cost{
			{Router: Ours, Request: "1 kB", CPUMicros: 60, MemoryMB: 80},
			{Router: "other", Request: "1 kB", CPUMicros: 20, MemoryMB: 10},
		},
		Faults: []Faults{
			{Router: Ours, Outcomes: []faults.Outcome{
				{Kind: faults.Leaves, FreedMs: []float64{2, 3}},
				{Kind: faults.Busy, Requests: 20, Failed: 1},
				{Kind: faults.Killed, Requests: 20, Streams: map[faults.End]int{faults.Told: 2}},
			}},
			{Router: "other", Outcomes: []faults.Outcome{
				{Kind: faults.Leaves, FreedMs: []float64{2, -1}},
				{Kind: faults.Busy, Requests: 20},
				{Kind: faults.Killed, Requests: 20, Failed: 4, Streams: map[faults.End]int{
					faults.Cut: 2, faults.Silent: 1,
				}},
			}},
		},
	}
}

func TestLinesCompareWithinRounds(t *testing.T) {
	lines := run().Lines("plain")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	l := lines[1]
	if l.Router != "other" || l.TTFT.Mean != 120 || l.Requests != 20 {
		t.Errorf("medians: %+v", l)
	}
	if l.Low != 1.5 || l.High != 1.8 || l.Ratio != 1.65 || l.RatioP90 != 0.9 {
		t.Errorf("ratios %v (%v to %v), p90 %v: want 1.65 (1.5 to 1.8), 0.9", l.Ratio, l.Low, l.High, l.RatioP90)
	}
}

// TestEveryColumnIsCompared: whichever column of the table another router is better in, the list names it.
func TestEveryColumnIsCompared(t *testing.T) {
	base := func() Line {
		return Line{Play: Play{
			Requests: 10, TTFT: Latency{Mean: 100, P50: 90, P90: 200, P99: 400}, HitRate: 0.8, WorkCV: 0.3, CPUMs: 2,
		}, Ratio: 1, RatioP90: 1}
	}
	mine := base()
	mine.Failed = 1
	if same := base(); len(betterColumns(&same, &same)) != 0 {
		t.Errorf("equal lines: %v", betterColumns(&same, &same))
	}
	for want, change := range map[string]func(l *Line){
		"mean TTFT 50 ms for 100 ms":          func(l *Line) { l.TTFT.Mean = 50 },
		"p50 TTFT 40 ms for 90 ms":            func(l *Line) { l.TTFT.P50 = 40 },
		"p90 TTFT 99 ms for 200 ms":           func(l *Line) { l.TTFT.P90 = 99 },
		"p99 TTFT 99 ms for 400 ms":           func(l *Line) { l.TTFT.P99 = 99 },
		"work CV 0.10 for 0.30":               func(l *Line) { l.WorkCV = 0.1 },
		"router's CPU 1.00 ms for 2.00 ms":    func(l *Line) { l.CPUMs = 1 },
		"hit rate 90.0 % for 80.0 %":          func(l *Line) { l.HitRate = 0.9 },
		"mean TTFT 0.50 times within a round": func(l *Line) { l.Ratio = 0.5 },
		"p90 TTFT 0.50 times within a round":  func(l *Line) { l.RatioP90 = 0.5 },
		"0 of 10 failed for 1 of 10":          func(*Line) {},
	} {
		l := base()
		change(&l)
		if got := strings.Join(betterColumns(&l, &mine), ", "); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	l := base()
	l.Ratio, l.TTFT.Mean = 1.86, 62
	if !disagree(&l, &mine) || disagree(&mine, &mine) {
		t.Error("a median ratio of 1.86 beside a mean of 0.62 times is not called unclear")
	}
}

func TestPageSaysWhatIsBetterElsewhere(t *testing.T) {
	var b strings.Builder
	run().Write(&b)
	page := b.String()
	_, better, ok := strings.Cut(page, "### Where another one is better")
	if !ok {
		t.Fatal("no such part")
	}
	for _, want := range []string{
		"other, conversations: p90 TTFT 270 ms for 300 ms, work CV 0.20 for 0.30, p90 TTFT 0.90 times within a round.",
		"other, CPU for each request: 0.33 to 0.33 times.", "other, memory: 10 MB for 80 MB.",
		"other, an engine answers 503: 0 failed for 1.",
	} {
		if !strings.Contains(better, want) {
			t.Errorf("it lacks %q:\n%s", want, better)
		}
	}
	if strings.Contains(better, "mean TTFT") || strings.Contains(better, "is killed") {
		t.Errorf("worse figures are called better:\n%s", better)
	}
	for _, want := range []string{
		"2 (most 3)", "not within 10 s", "2 told; 0 of 20", "2 cut, 1 silent; 4 of 20",
		"Without ids instead:\n\n```\nonly plain\n```",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if !strings.Contains(page, "| other | 1.65 | 4 of 40 |") {
		t.Errorf("no row at a glance:\n%s", page)
	}
	columns := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		if n := strings.Count(line, "|"); columns == 0 {
			columns = n
		} else if n != columns {
			t.Errorf("a row of %d columns in a table of %d: %s", n, columns, line)
		}
	}
}

func TestFailed(t *testing.T) {
	r := run()
	if r.Failed() {
		t.Error("a client's failure under a fault is a finding, not a fault of the run")
	}
	r.Plays[0].Failed = 1
	if !r.Failed() {
		t.Error("a failed turn is not noticed")
	}
}

func TestWriteInto(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	begin, end := run().marks()
	if err := os.WriteFile(page, []byte("before\n"+begin+"\nyesterday\n"+end+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // writing again changes nothing
		if err := run().WriteInto(page); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if !strings.HasPrefix(text, "before\n"+begin) || !strings.HasSuffix(text, end+"\nafter\n") ||
			strings.Contains(text, "yesterday") || strings.Count(text, "### Routers") != 1 ||
			strings.Contains(text, "only header") {
			t.Errorf("%s", text)
		}
	}
	if err := os.WriteFile(page, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run().WriteInto(page); err == nil {
		t.Error("written into a page without marks")
	}
	if data, _ := os.ReadFile(page); string(data) != "no marks" {
		t.Error("the page was changed")
	}
}
