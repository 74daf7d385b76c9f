package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/route/shadow"
)

// Report is what GET /admin/shadow answers.
type Report struct {
	Policy  string  `json:"policy"`           // the acting one
	Budget  float64 `json:"budget"`           // share of one core that judging may take
	Share   float64 `json:"share"`            // of the conversations that are looked at now
	Skipped uint64  `json:"skipped"`          // decisions not looked at because the budget does not allow it
	Dropped uint64  `json:"dropped"`          // decisions not looked at because too many waited
	SpentMs float64 `json:"spent_ms"`         // on judging, in all
	Failed  string  `json:"failed,omitempty"` // a shadow has panicked, and none is asked any more
	shadow.Report
}

// Report is what has been found so far.
func (s *Shadow) Report() Report {
	r := Report{
		Policy: s.cfg.Acting, Budget: s.cfg.Budget, Share: 1 / float64(uint64(1)<<s.halved.Load()),
		Skipped: s.skipped.Load(), Dropped: s.dropped.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.SpentMs = float64(s.spent.Microseconds()) / 1000
	r.Failed, r.Report = s.failed, s.shadows.Report()
	return r
}

// Told is the same for metrics.
func (s *Shadow) Told() (r shadow.Report, skipped, dropped uint64, spent time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shadows.Report(), s.skipped.Load(), s.dropped.Load(), s.spent
}

// ServeHTTP answers with the report as JSON.
func (s *Shadow) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Report())
}

// Log writes one line for each shadow, as an operator wants to read at the end.
func (s *Shadow) Log(log *slog.Logger) {
	r := s.Report()
	mean := func(w *shadow.World) float64 { return ratio(w.TTFTMs, float64(w.Turns)) }
	for i := range r.Shadows {
		t := &r.Shadows[i]
		log.LogAttrs(context.Background(), slog.LevelInfo, "shadow", slog.String("policy", t.Policy),
			slog.String("acting", r.Policy), slog.Uint64("decisions", t.Here.Decisions),
			slog.String("differs", percent(t.Here.Differs, t.Here.Decisions)),
			slog.Float64("cost_ms_when_it_differs", rounded(ratio(t.Here.CostMs, float64(t.Here.Priced)))),
			slog.Float64("ttft_ms", rounded(mean(&t.Apart))), slog.Float64("acting_ttft_ms", rounded(mean(&r.Acting))),
			slog.String("cached", percent(t.Apart.CachedTokens, t.Apart.PromptTokens)),
			slog.String("acting_cached", percent(r.Acting.CachedTokens, r.Acting.PromptTokens)),
			slog.Uint64("skipped", r.Skipped+r.Dropped), slog.Float64("spent_ms", rounded(r.SpentMs)))
	}
}

func ratio(of, in float64) float64 {
	if in == 0 {
		return 0
	}
	return of / in
}

func rounded(x float64) float64 { return float64(int64(x*10+0.5)) / 10 }

func percent(of, in uint64) string { return fmt.Sprintf("%.1f%%", 100*ratio(float64(of), float64(in))) }
