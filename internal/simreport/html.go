package simreport

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/sim/figures"
)

//go:embed report.html
var reportPage string

// reportData is what the page shows.
type reportData struct {
	Trace, Fleet   string
	Ideal          string
	Rows           []figures.Figures
	TTFT, Hits     template.HTML
	Policies       []reportPolicy
	SharedDuration string
	Notes          []string // of the trace
}

// reportPolicy is one policy's own part of the page.
type reportPolicy struct {
	Name, Colour string
	Border       string // of its key, as its lines are drawn
	Work         template.HTML
	Reasons      []figures.ReasonFigure
	Split        *figures.SplitFigures // nil in fleets without roles
	Moves        []move
	Moved, Later int
}

// move is how many turns left their conversation's endpoint for another, for one reason.
type move struct {
	From, To, Reason string
	Turns            int
}

// mostMoves bounds the table of moves.
const mostMoves = 20

// HTML is the page. It loads nothing from anywhere.
func HTML(runs []*simrun.Run) ([]byte, error) {
	page, err := template.New("report").Funcs(template.FuncMap{"percent": percent, "ms": whole, "mb": megabytes, "f1": func(x float64) string { return fmt.Sprintf("%.1f", x) }, "f2": func(x float64) string { return fmt.Sprintf("%.2f", x) }, "f3": func(x float64) string { return fmt.Sprintf("%.3f", x) }}).Parse(reportPage)
	if err != nil {
		return nil, err
	}
	first := runs[0]
	until := horizon(runs)
	d := reportData{
		Trace: filepath.Base(first.Replay.Trace.Name), Ideal: percent(first.Figures.IdealHitRate), SharedDuration: until.Round(time.Second).String(),
		Fleet: fmt.Sprintf("%d endpoints, load %.2f, seed %d", first.Figures.Endpoints, first.Figures.Load, first.Figures.Seed),
		Notes: first.Replay.Trace.Notes,
	}
	var ttft, hits chart
	for i, s := range runs {
		f := s.Figures
		f.PerEndpoint, f.Policy = nil, s.Title()
		d.Rows = append(d.Rows, f)
		border, strokes := dash(i)
		ttft.lines = append(ttft.lines, line2{s.Title(), colour(i), strokes, distribution(s)})
		hits.lines = append(hits.lines, line2{s.Title(), colour(i), strokes, hitsOverTime(s, until)})
		part := policyPart(s, until)
		part.Colour, part.Border = colour(i), border
		d.Policies = append(d.Policies, part)
	}
	ttft.logX, ttft.xName, ttft.yName = true, "time to first token, ms", "share of turns"
	hits.xName, hits.yName = "time, s", "share of prompt tokens found"
	d.TTFT, d.Hits = ttft.svg(), hits.svg()
	var out bytes.Buffer
	err = page.Execute(&out, d)
	return out.Bytes(), err
}

// policyPart is what the page says about one policy.
func policyPart(s *simrun.Run, until time.Duration) reportPolicy {
	p := reportPolicy{Name: s.Title(), Reasons: s.Figures.Reasons, Split: s.Figures.Split}
	names := s.Replay.Fleet.Endpoints
	home := make([]int, len(s.Replay.Trace.Sessions)) // 1 + endpoint
	count := map[move]int{}
	for i := range s.Outcome.Turns {
		t := &s.Outcome.Turns[i]
		turn := &s.Replay.Trace.Turns[t.Turn]
		if t.Failed {
			continue
		}
		if from := home[turn.Session]; from > 0 {
			p.Later++
			if from-1 != t.Endpoint {
				p.Moved++
				count[move{From: names[from-1].Name, To: names[t.Endpoint].Name, Reason: string(t.Reason)}]++
			}
		}
		home[turn.Session] = t.Endpoint + 1
	}
	for m, n := range count {
		m.Turns = n
		p.Moves = append(p.Moves, m)
	}
	slices.SortFunc(p.Moves, func(a, b move) int {
		if a.Turns != b.Turns {
			return b.Turns - a.Turns
		}
		return strings.Compare(a.From+" "+a.To+" "+a.Reason, b.From+" "+b.To+" "+b.Reason)
	})
	p.Moves = p.Moves[:min(len(p.Moves), mostMoves)]
	p.Work = heat(workOverTime(s, until), names)
	return p
}
