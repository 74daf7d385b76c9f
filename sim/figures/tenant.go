package figures

import (
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/sim/drive"
)

// tenantsOf computes each tenant's figures, sorted by name; nil for a trace without tenants.
func tenantsOf(r *drive.Replay, o *drive.Outcome) []TenantFigure {
	type tenant struct {
		TenantFigure
		prompt, cached int64
		ttft           []time.Duration
	}
	of, all := map[string]*tenant{}, []*tenant(nil)
	for i := range o.Turns {
		p := &o.Turns[i]
		turn := &r.Trace.Turns[p.Turn]
		name := r.Trace.Sessions[turn.Session].Tenant
		t := of[name]
		if t == nil {
			t = &tenant{TenantFigure: TenantFigure{Name: name}}
			of[name], all = t, append(all, t)
		}
		t.Requests++
		if p.Failed {
			t.Failed++
			continue
		}
		t.prompt, t.cached, t.ttft = t.prompt+int64(turn.Prompt), t.cached+int64(p.Cached), append(t.ttft, p.TTFT)
	}
	if len(all) < 2 {
		return nil
	}
	out := make([]TenantFigure, 0, len(all))
	for _, t := range all {
		t.HitRate, t.TTFT = rounded(ratio(float64(t.cached), float64(t.prompt)), 6), spread(t.ttft)
		out = append(out, t.TenantFigure)
	}
	slices.SortFunc(out, func(a, b TenantFigure) int { return strings.Compare(a.Name, b.Name) })
	return out
}
