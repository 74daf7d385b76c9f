package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/madeby"
)

// rowsOf is a table of a page whose rows are made by parallel tests. After all have ended, and if -long was given, the
// table is compared with the page; -rewrite writes it there.
type rowsOf struct {
	file, command string
	heading       string
	order         []string // names of the rows

	mu   sync.Mutex
	rows map[string]string
}

// tableOf starts a table. It is compared when t and its subtests have ended.
func tableOf(t *testing.T, file, command, heading string, order []string) *rowsOf {
	t.Helper()
	p := &rowsOf{file: file, command: command, heading: heading, order: order, rows: map[string]string{}}
	t.Cleanup(func() {
		var rows []string
		for _, name := range p.order {
			if row, ok := p.rows[name]; ok {
				rows = append(rows, row)
			}
		}
		if *allSeeds && len(rows) == len(p.order) {
			columns := strings.Count(heading, "|") - 1
			text := heading + "\n" + strings.Repeat("|---", columns) + "|\n" + strings.Join(rows, "\n") + "\n"
			madeby.Block(t, p.file, p.command, text, *rewrite)
		}
	})
	return p
}

// add adds a row.
func (p *rowsOf) add(name string, cells ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[name] = "| `" + name + "` | " + strings.Join(cells, " | ") + " |"
}

func namesOf(all []scenario) []string {
	var out []string
	for i := range all {
		out = append(out, all[i].name)
	}
	return out
}

// thousands writes a whole number with commas.
func thousands(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// scenarioTables are the two tables of docs/scenarios.md made by TestScenarios.
type scenarioTables struct{ times, ours *rowsOf }

func newScenarioTables(t *testing.T) scenarioTables {
	t.Helper()
	const file, command = "../docs/scenarios.md", "go test ./sim -run TestScenarios -long -rewrite"
	heading := "| Scenario |"
	for _, r := range append(rivals(t), ours(t)) {
		heading += " `" + r.name + "` |"
	}
	return scenarioTables{
		tableOf(t, file, command+" # times", heading, namesOf(scenarios())),
		tableOf(t, file, command+" # least_ttft",
			"| Scenario | Tokens found in caches | Mean | p50 | p90 | p99 | Variation of first turns | Within two "+
				"seconds | Answer tokens a second |", namesOf(scenarios())),
	}
}

// add adds a scenario, if it was played from all its seeds.
func (p *scenarioTables) add(t *testing.T, s *scenario, us figures, them map[string]figures) {
	t.Helper()
	if !slices.Equal(s.seeds(), s.fewSeeds()) {
		return
	}
	var cells []string
	for _, r := range append(rivals(t), ours(t)) {
		f, ok := them[r.name]
		if !ok {
			f = us
		}
		cells = append(cells, thousands(f.mean)+" / "+thousands(f.p90))
	}
	p.times.add(s.name, cells...)
	p.ours.add(s.name, fmt.Sprintf("%.1f %%", 100*us.hit), thousands(us.mean)+" ms", thousands(us.p50)+" ms",
		thousands(us.p90)+" ms", thousands(us.p99)+" ms",
		fmt.Sprintf("%.0f %%", 100*us.cv), fmt.Sprintf("%.1f %%", 100*us.good), thousands(us.rate))
}
