package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/route"
)

// Show prints a decision for people: what it was, why, its candidates, and what came of it.
func (d *Decision) Show(w io.Writer) {
	where := d.Endpoint
	if where == "" {
		where = "no endpoint"
	}
	if d.Leg != "" {
		where += ", " + d.Leg
	}
	who, to := d.At.Local().Format("2006-01-02 15:04:05.000")+"  "+d.Request, "-> "+where+"  ("+d.Reason+")"
	if len(who)+1+len(to) > terminal.Columns {
		fmt.Fprintf(w, "%s\n  %s\n", who, to)
	} else {
		fmt.Fprintln(w, who+" "+to)
	}
	for _, line := range wrap(d.Why, 78) {
		fmt.Fprintln(w, "  "+line)
	}
	about := []string{d.Class}
	switch {
	case d.FirstTurn:
		about[0] = "first turn"
	case d.Class == className(fleet.Auxiliary):
		about[0] = "a request that generates nothing"
	}
	for _, f := range [][2]string{{"conversation", d.Conversation}, {"pool", d.Pool}, {"policy", d.Policy}, {
		"tenant", d.Tenant,
	}, {"client", d.Client}} {
		if f[1] != "" {
			about = append(about, f[0]+" "+f[1])
		}
	}
	if d.Model != d.Pool && d.Model != "" {
		about = append(about, "model "+d.Model)
	}
	for _, line := range wrap(strings.Join(about, ", "), 78) {
		fmt.Fprintln(w, "  "+line)
	}
	if len(d.Candidates) > 0 {
		for line := range strings.Lines(d.costs()) {
			fmt.Fprint(w, "  "+line)
		}
		fmt.Fprintln(w)
		if others := d.others(); others != "" {
			for line := range strings.Lines(others) {
				fmt.Fprint(w, "  "+line)
			}
			fmt.Fprintln(w)
		}
		if text := scopes[d.Scope]; text != "" {
			for _, line := range wrap(text, 78) {
				fmt.Fprintln(w, "  "+line)
			}
		}
		if n := d.Eligible - len(d.Candidates); n > 0 {
			fmt.Fprintf(w, "  and %d more that cost as much or more\n", n)
		}
	}
	for _, line := range d.Texts() {
		fmt.Fprintln(w, "  "+line)
	}
}

// Legend explains the columns of the candidates' tables; empty if the decisions have none.
func Legend(all []Decision) string {
	for i := range all {
		if len(all[i].Candidates) > 0 {
			return `
cost: wait for earlier work, prefill of what is not cached there, transfer from
another engine, fixed time of each request, delay of others, spread of new
conversations. cached: prompt tokens. open: requests there now. to do: tokens.
regret: how much later the first token came than predicted for the best other.
`
		}
	}
	return ""
}

// costs is the table of each candidate's predicted cost. Terms that are 0 everywhere are left out.
func (d *Decision) costs() string {
	terms := []struct {
		name string
		of   func(*Terms) float64
	}{
		{"wait", func(t *Terms) float64 { return t.Wait }},
		{"prefill", func(t *Terms) float64 { return t.Prefill }},
		{"transfer", func(t *Terms) float64 { return t.Transfer }},
		{"fixed", func(t *Terms) float64 { return t.Fixed }},
		{"others", func(t *Terms) float64 { return t.Others }},
		{"spread", func(t *Terms) float64 { return t.Spread }},
	}
	headings := []string{"candidate, ms"}
	shown := terms[:0:0]
	for _, t := range terms {
		for i := range d.Candidates {
			if t.of(&d.Candidates[i].Terms) != 0 {
				shown, headings = append(shown, t), append(headings, t.name)
				break
			}
		}
	}
	if len(shown) > 0 {
		headings = append(headings, "cost")
	}
	headings = append(headings, "cached", "open", "to do")
	t, names := terminal.NewTable(terminal.Bare, headings...), d.names()
	t.RightFrom(2)
	for i := range d.Candidates {
		c, row := &d.Candidates[i], []any{names[i]}
		for _, term := range shown {
			row = append(row, brief(term.of(&c.Terms)))
		}
		if len(shown) > 0 {
			row = append(row, brief(c.CostMs))
		}
		t.Row(append(row, c.CachedTokens, c.Requests, c.PrefillTokens+c.DecodeTokens)...)
	}
	return t.String()
}

// scopes say what is reckoned in each.
var scopes = map[string]string{
	route.ScopeOfChoice:  "Scope choice: those who come after count, and a first turn's later ones.",
	route.ScopeOfSplit:   "Scope split: those who come after count as those who came of late, later turns do not.",
	route.ScopeOfRequest: "Scope request: what the request itself waits for, and not what it costs others.",
	route.ScopeOfPolicy:  "Scope policy: the terms are the policy's own.",
}

// others is the table of what the term others consists of; "" where that is nothing. Parts that are 0 everywhere are
// left out.
func (d *Decision) others() string {
	parts := []struct {
		name string
		of   func(*Others) float64
	}{
		{"arrivals", func(o *Others) float64 { return o.Arrivals }},
		{"returns", func(o *Others) float64 { return o.Returns }},
		{"overtaken", func(o *Others) float64 { return o.Overtaken }},
		{"occupancy", func(o *Others) float64 { return o.Occupancy }},
		{"later turns", func(o *Others) float64 { return o.LaterTurns }},
		{"interference", func(o *Others) float64 { return o.Interference }},
		{"answer", func(o *Others) float64 { return o.Answer }},
		{"link", func(o *Others) float64 { return o.Link }},
		{"weight", func(o *Others) float64 { return o.Weight }},
		{"copy", func(o *Others) float64 { return o.Copy }},
	}
	headings, shown := []string{"of others, ms"}, parts[:0:0]
	for _, p := range parts {
		for i := range d.Candidates {
			if o := d.Candidates[i].Others; o != nil && p.of(o) != 0 {
				shown, headings = append(shown, p), append(headings, p.name)
				break
			}
		}
	}
	if len(shown) == 0 {
		return ""
	}
	t, names := terminal.NewTable(terminal.Bare, append(headings, "others")...), d.names()
	t.RightFrom(2)
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if c.Others == nil {
			continue
		}
		row := []any{names[i]}
		for _, p := range shown {
			row = append(row, brief(p.of(c.Others)))
		}
		t.Row(append(row, brief(c.Terms.Others))...)
	}
	return t.String()
}

// longestName is how many characters of a candidate's name a table has room for.
const longestName = 40

// names are those of the candidates, as the tables have them: the chosen one is marked, and long ones lose the domain
// that all share, and their middle.
func (d *Decision) names() []string {
	names := make([]string, len(d.Candidates))
	for i := range d.Candidates {
		names[i] = d.Candidates[i].Endpoint
	}
	domain := terminal.Domain(names)
	for i, name := range names {
		if len(name) > longestName {
			name = terminal.Clip(strings.TrimSuffix(name, domain), longestName)
		}
		names[i] = "  " + name
		if d.Candidates[i].Chosen {
			names[i] = "* " + name
		}
	}
	return names
}

// brief has a decimal where it matters.
func brief(ms float64) string {
	if ms >= 100 || ms <= -100 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.1f", ms)
}

// wrap breaks a text at spaces into lines of at most width bytes.
func wrap(s string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
