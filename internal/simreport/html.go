package simreport

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/internal/uplot"
	"github.com/warmpath/warmpath/sim/figures"
)

//go:embed report.css
var ownStyle string

//go:embed report.js
var ownScript string

// reportPolicy is one policy's own part of the page.
type reportPolicy struct {
	Name         string
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

// HTML is the page. It loads nothing from anywhere, and runs its own script only.
func HTML(runs []*simrun.Run) ([]byte, error) {
	first := runs[0]
	until := horizon(runs)
	drawn, err := chartsOf(runs, until)
	if err != nil {
		return nil, err
	}
	var rows []figures.Figures
	var parts []reportPolicy
	for _, s := range runs {
		f := s.Figures
		f.PerEndpoint, f.Policy = nil, s.Title()
		rows = append(rows, f)
		parts = append(parts, policyPart(s))
	}
	name := filepath.Base(first.Replay.Trace.Name)
	style, script := uplot.Style+ownStyle, uplot.Script()+"\n"+ownScript
	page := h.Doctype(h.HTML(
		h.Lang("en"), h.Meta(h.Charset("utf-8")), h.Meta(h.Name("viewport"), h.Content("width=device-width")),
		h.Meta(g.Attr("http-equiv", "Content-Security-Policy"),
			h.Content("default-src 'none'; style-src '"+digest(style)+"'; script-src '"+digest(script)+"'")),
		h.TitleEl(g.Text("warmpath simulate: "+name)), h.StyleEl(g.Raw(style)),
		h.H1(g.Text(name)),
		h.P(
			g.Textf("%d endpoints, load %.2f, seed %d. An unlimited cache and perfect routing would find %s %% of "+
				"the prompt tokens.",
				first.Figures.Endpoints, first.Figures.Load, first.Figures.Seed, percent(first.Figures.IdealHitRate)),
			g.Map(first.Replay.Trace.Notes, func(note string) g.Node {
				return g.Group{h.Br(), g.Text("Note: " + note + ".")}
			}),
		),
		times(rows), h.P(g.Text(
			"Times in ms. Regret is how much sooner, on average, the best endpoint would have given the first token.")),
		places(rows), h.NoScript(h.P(g.Text("The charts are drawn by a script, which this browser does not run."))),
		h.H2(g.Text("Time to first token")), h.Div(h.ID("ttft"), h.Class("chart")), h.H2(g.Text("Hit rate over time")),
		h.P(g.Textf("Up to %s, when 95 %% of the turns have been sent.", until.Round(time.Second))),
		h.Div(h.ID("hits"), h.Class("chart")),
		g.Map(parts, reportPolicy.node),
		h.Script(h.ID("charts"), h.Type("application/json"), g.Raw(string(drawn))), h.Script(g.Raw(script)),
	))
	var out bytes.Buffer
	err = page.Render(&out)
	return out.Bytes(), err
}

// digest names a text to a Content-Security-Policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// table has a row of titles, separated by "|", and rows of cells.
func table(titles string, rows [][]string) g.Node {
	return h.Table(
		h.Tr(g.Map(strings.Split(titles, "|"), func(t string) g.Node { return h.Th(g.Text(t)) })),
		g.Map(rows, func(cells []string) g.Node {
			return h.Tr(g.Map(cells, func(c string) g.Node { return h.Td(g.Text(c)) }))
		}),
	)
}

// times is the table of how long requests took.
func times(rows []figures.Figures) g.Node {
	var cells [][]string
	for i := range rows {
		f := &rows[i]
		ids := "no"
		if f.IDs {
			ids = "yes"
		}
		cells = append(cells, []string{
			f.Policy, ids, whole(f.TTFT.Mean), whole(f.TTFT.P50), whole(f.TTFT.P90), whole(f.TTFT.P99),
			whole(f.E2E.Mean), whole(f.E2E.P50), whole(f.E2E.P90), whole(f.E2E.P99),
			digits(1, f.ITL.Mean), digits(1, f.ITL.P50), digits(1, f.ITL.P90), digits(1, f.ITL.P99),
			digits(1, f.Gap.P50), digits(1, f.Gap.P90), digits(1, f.Gap.P99), percent(f.Goodput), whole(f.RegretMean),
			strconv.Itoa(f.Failed),
		})
	}
	return h.Div(h.Class("scroll"), table("policy|ids|TTFT mean|p50|p90|p99|e2e mean|p50|p90|p99|ITL "+
		"mean|p50|p90|p99|gap p50|p90|p99|good %|regret|failed", cells))
}

// places is the table of where requests went, and what caches held.
func places(rows []figures.Figures) g.Node {
	var cells [][]string
	for i := range rows {
		f := &rows[i]
		cells = append(cells, []string{
			f.Policy, percent(f.HitRate), percent(f.Predicted), percent(f.HostShare), digits(3, f.WorkCV),
			maxMin(f.WorkMaxMin), digits(3, f.FirstTurnCV), percent(f.HomeShare), digits(2, f.QueueMean),
			fmt.Sprint(f.QueueMax), fmt.Sprint(f.Evictions), fmt.Sprint(f.Preemptions), percent(f.Utilisation),
			fmt.Sprint(f.Retries), megabytes(f.RouterBytes), digits(1, f.WallS),
		})
	}
	return h.Div(h.Class("scroll"), table("policy|hit %|expected %|from host %|work CV|max/min|first-turn CV|at home "+
		"%|queue|most|evictions|preempted|in use %|retries|router MB|run, s", cells))
}

// node is the policy's part of the page.
func (p reportPolicy) node() g.Node {
	var why, moves [][]string
	for _, r := range p.Reasons {
		why = append(why, []string{r.Reason, strconv.Itoa(r.Turns)})
	}
	for _, m := range p.Moves {
		moves = append(moves, []string{m.From, m.To, m.Reason, strconv.Itoa(m.Turns)})
	}
	return g.Group{
		h.H2(g.Text(p.Name)),
		h.H3(g.Text("Tokens computed over time, by endpoint")), h.Div(h.Class("work")),
		h.H3(g.Text("Why")), table("reason|turns", why),
		g.Iff(p.Split != nil, func() g.Node { return legs(p.Split) }),
		h.H3(g.Text("Where conversations moved")),
		h.P(g.Textf("%d of %d later turns went to another endpoint than the turn before.", p.Moved, p.Later)),
		g.If(len(moves) > 0, table("from|to|reason|turns", moves)),
	}
}

// legs is what became of requests in two legs.
func legs(s *figures.SplitFigures) g.Node {
	var pools, why [][]string
	for _, p := range s.Pools {
		pools = append(pools, []string{
			fmt.Sprint(p.Endpoints, " ", p.Role), fmt.Sprint(p.Prompts), fmt.Sprint(p.Answers), fmt.Sprint(p.Whole),
			percent(p.HitRate), percent(p.Busy),
		})
	}
	for _, w := range s.Why {
		why = append(why, []string{fmt.Sprint(w.Why), strconv.Itoa(w.Turns)})
	}
	return g.Group{
		h.H3(g.Text("In two legs")),
		h.P(g.Textf("%s %% of the turns were split (%v), %s tokens moved for each on average. "+
			"Transfers took %s ms (p90 %s, p99 %s), with the wait for room %s ms (p90 %s, p99 %s).",
			percent(s.Share), s.When, whole(s.Moved), whole(s.Transfer.P50), whole(s.Transfer.P90),
			whole(s.Transfer.P99), whole(s.Handed.P50), whole(s.Handed.P90), whole(s.Handed.P99))),
		table("pool|prompts|answers|whole|hit %|busy %", pools),
		table("why split, or not|turns", why),
	}
}

// policyPart is what the page says about one policy.
func policyPart(s *simrun.Run) reportPolicy {
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
	return p
}
