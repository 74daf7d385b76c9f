// Package console shows a running router in a terminal: its endpoints and its totals, once or live.
//
// It owns what of the admin listener's JSON is shown, and how it is laid out in 80 columns. It makes no requests: the caller fetches a Fleet.
// It never holds prompt text, because the admin listener has none.
package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/terminal"
)

// Fleet is the part of GET /admin/endpoints that is shown.
type Fleet struct {
	Endpoints []Endpoint `json:"endpoints"`
	Stats     Stats      `json:"stats"`
}

// Endpoint is one endpoint. Pointers are nil for what is unknown.
type Endpoint struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Role     string `json:"role"`
	State    string `json:"state"`
	Detail   string `json:"detail"`
	Draining bool   `json:"draining"`
	Gone     bool   `json:"gone"`
	Load     struct {
		Requests      int   `json:"requests"`
		Queued        int   `json:"queued_requests"`
		PrefillTokens int64 `json:"prefill_tokens"`
		DecodeTokens  int64 `json:"decode_tokens"`
	} `json:"load"`
	Engine struct {
		KVUsage *float64 `json:"kv_usage"` // 0 to 1
	} `json:"engine"`
	Served *Served `json:"served"`
}

// Served counts what finished requests cost.
type Served struct {
	Requests  uint64   `json:"requests"`
	Failed    uint64   `json:"failed"`
	WorkShare float64  `json:"work_share"` // of the fleet's work, 0 to 1
	HitRate   *float64 `json:"hit_rate"`   // 0 to 1
	TTFTP50   *float64 `json:"ttft_p50_seconds"`
	TTFTP90   *float64 `json:"ttft_p90_seconds"`
}

// Stats are the totals.
type Stats struct {
	Ready         bool    `json:"ready"`
	Why           string  `json:"why"` // it is not ready
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	Leases        int     `json:"leases"`
	Sessions      int     `json:"sessions"`
	Served        *Served `json:"served"`
}

const (
	nameColumns = 18
	dash        = "-"
	legend      = "NOW: requests outstanding, WAIT: of these, queued at the router. TOKENS: still to compute. SHARE: of the fleet's work. HIT: cached share of prompt tokens. TTFT: median. KV: cache in use."
)

// Table lists the endpoints, and below it why any of them is not up.
func Table(endpoints []Endpoint) string {
	t := terminal.NewTable(terminal.Bare, "ENDPOINT", "STATE", "NOW", "WAIT", "TOKENS", "SHARE", "HIT", "TTFT", "KV", "FAIL")
	t.RightFrom(3)
	var notes strings.Builder
	for i := range endpoints {
		e := &endpoints[i]
		served := Served{}
		if e.Served != nil {
			served = *e.Served
		}
		t.Row(clip(e.Name), state(e), e.Load.Requests, e.Load.Queued, thousands(e.Load.PrefillTokens+e.Load.DecodeTokens),
			percent(&served.WorkShare), percent(served.HitRate), millis(served.TTFTP50), percent(e.Engine.KVUsage), served.Failed)
		if e.Detail != "" {
			terminal.Entry(&notes, nameColumns+2, clip(e.Name), e.Detail)
		}
	}
	out := t.String() + "\n"
	if notes.Len() > 0 {
		out += "\n" + notes.String()
	}
	return out
}

// Legend explains the columns of Table.
func Legend() string {
	var b strings.Builder
	terminal.Entry(&b, 0, "", legend)
	return b.String()
}

// Screen is the live view: totals and the table. before is the Fleet of the previous look, between ago; nil at the first.
func Screen(f, before *Fleet, between time.Duration, rows int) string {
	var b strings.Builder
	s := &f.Stats
	ready := "ready"
	if !s.Ready {
		ready = "NOT READY: " + s.Why
	}
	fmt.Fprintf(&b, "warmpath %s, up %s, %s\n", s.Version, time.Duration(s.UptimeSeconds*float64(time.Second)).Round(time.Second), ready)
	all := Served{}
	if s.Served != nil {
		all = *s.Served
	}
	rate := dash
	if before != nil && before.Stats.Served != nil && between > 0 && all.Requests >= before.Stats.Served.Requests {
		rate = fmt.Sprintf("%.1f", float64(all.Requests-before.Stats.Served.Requests)/between.Seconds())
	}
	fmt.Fprintf(&b, "%d open, %s requests/s, %d served, %d failed, %d conversations\nhit %s, TTFT p50 %s p90 %s\n\n",
		s.Leases, rate, all.Requests, all.Failed, s.Sessions, percent(all.HitRate), millis(all.TTFTP50), millis(all.TTFTP90))
	shown := slices.Clone(f.Endpoints)
	if left := len(shown) - rows; rows > 0 && left > 0 { // the busiest are what one looks for
		slices.SortStableFunc(shown, func(a, b Endpoint) int {
			return cmp.Or(cmp.Compare(rank(&b), rank(&a)), cmp.Compare(b.Load.PrefillTokens+b.Load.DecodeTokens, a.Load.PrefillTokens+a.Load.DecodeTokens))
		})
		b.WriteString(Table(shown[:rows]))
		fmt.Fprintf(&b, "and %d more, less busy\n", left)
	} else {
		b.WriteString(Table(shown))
	}
	return b.String()
}

// rank puts what needs attention first.
func rank(e *Endpoint) int {
	if e.State != "up" {
		return 1
	}
	return 0
}

func state(e *Endpoint) string {
	switch {
	case e.Gone:
		return "gone"
	case e.Draining:
		return "draining"
	case e.Role != "":
		return e.State + " " + e.Role
	}
	return e.State
}

// clip keeps both ends of a name: replicas and ranks differ in the last characters.
func clip(name string) string {
	if r := []rune(name); len(r) > nameColumns {
		const head, tail = nameColumns/2 - 1, nameColumns - nameColumns/2
		return string(r[:head]) + "…" + string(r[len(r)-tail:])
	}
	return name
}

func percent(share *float64) string {
	if share == nil {
		return dash
	}
	return fmt.Sprintf("%.0f%%", 100**share)
}

func millis(seconds *float64) string {
	if seconds == nil {
		return dash
	}
	if *seconds >= 10 {
		return fmt.Sprintf("%.1f s", *seconds)
	}
	return fmt.Sprintf("%.0f ms", 1000**seconds)
}

func thousands(n int64) string {
	if n < 10_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%dk", n/1000)
}
