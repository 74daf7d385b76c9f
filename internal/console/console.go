// Package console shows a running router in a terminal: its endpoints and its totals, once or live.
//
// It owns what of the admin listener's JSON is shown, and how it is laid out in 80 columns. It makes no requests: the
// caller fetches a Fleet. It never holds prompt text, because the admin listener has none.
package console

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/terminal"
)

// Fleet is the part of GET /admin/endpoints that is shown.
type Fleet struct {
	Endpoints []Endpoint `json:"endpoints"`
	Stats     Stats      `json:"stats"`
	Held      []Held     `json:"held"`
}

// Held is a turn that is held before it is placed (admission).
type Held struct {
	Request      string  `json:"request"`
	Conversation string  `json:"conversation"`
	Tenant       string  `json:"tenant"`
	Pool         string  `json:"pool"`
	Priority     string  `json:"priority"`
	Tokens       int64   `json:"tokens"`
	Home         string  `json:"home"` // endpoint where its conversation was last; "" for none
	Seconds      float64 `json:"held_seconds"`
	Left         float64 `json:"seconds_left"` // until it is placed at the latest
}

// Running is a request, or a leg of one, that is placed and has not ended.
type Running struct {
	Request  string  `json:"request"`
	Endpoint string  `json:"endpoint"`
	Tenant   string  `json:"tenant,omitempty"`
	Pool     string  `json:"pool,omitempty"`
	Leg      string  `json:"leg,omitempty"`
	State    string  `json:"state"`
	Routed   string  `json:"routed"`
	Seconds  float64 `json:"seconds"`
}

// String is one line for people.
func (r Running) String() string {
	at, does := r.Endpoint, map[string]string{
		"queued":    "waits in the router's queue",
		"computing": "its prompt waits or is computed there",
		"answering": "it is being answered there",
	}[r.State]
	if r.Leg != "" {
		at += " (" + r.Leg + ")"
	}
	return fmt.Sprintf("%s is still running: placed at %s %.1f s ago, %s.", r.Request, at, r.Seconds, does)
}

// Endpoint is one endpoint. Pointers are nil for what is unknown.
type Endpoint struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Kind     string `json:"kind"`
	Role     string `json:"role"`
	State    string `json:"state"`
	Detail   string `json:"detail"`
	Sleep    string `json:"sleep"`
	Draining bool   `json:"draining"`
	Gone     bool   `json:"gone"`
	Load     struct {
		Requests      int   `json:"requests"`
		Queued        int   `json:"queued_requests"`
		PrefillTokens int64 `json:"prefill_tokens"`
		DecodeTokens  int64 `json:"decode_tokens"`
	} `json:"load"`
	WorkingSet  int64 `json:"working_set"`  // tokens that the sessions there need
	WorkingRoom int64 `json:"working_room"` // of so many; 0 where nothing is held
	Engine      struct {
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
	Held          int     `json:"held"`
	Served        *Served `json:"served"`
	Aliases       []Alias `json:"aliases"`
}

// Alias is an alias of several models.
type Alias struct {
	Alias  string       `json:"alias"`
	Models []AliasModel `json:"models"`
}

// AliasModel is one of an alias's models.
type AliasModel struct {
	Model  string   `json:"model"`
	Share  *float64 `json:"share"`  // 0 to 1 of its new conversations; nil without shares
	Passed uint64   `json:"passed"` // requests that got a later model
	Served *Served  `json:"served"`
}

// Look is how it is shown. The zero value is plain text in 80 columns, with every endpoint.
type Look struct {
	Columns, Lines int  // of the terminal; 0 is 80 columns, and as many lines as there are
	Whole          bool // names are never cut, for output that a program reads
	Ink            terminal.Ink
}

func (l Look) columns() int { return cmp.Or(l.Columns, terminal.Columns) }

const (
	leastName = 18
	leastRows = 3
	dash      = "-"
	legend    = "NOW: requests outstanding, WAIT: of these, queued at the router. TOKENS: still to compute. SHARE: " +
		"of the fleet's work. HIT: cached share of prompt tokens. TTFT: median. KV: cache in use."
)

// Table lists the endpoints, and below it why any of them is not up. Only where a row would be wider than the terminal,
// names lose the domain that all have in common, and where that is not enough their middles.
func Table(endpoints []Endpoint, look Look) string {
	text, over := table(endpoints, look, 0)
	if over <= 0 || look.Whole {
		return text
	}
	names := make([]string, len(endpoints))
	for i := range endpoints {
		names[i] = endpoints[i].Name
	}
	if shared := terminal.Domain(names); shared != "" {
		endpoints = slices.Clone(endpoints)
		for i := range endpoints {
			endpoints[i].Name = strings.TrimSuffix(endpoints[i].Name, shared)
		}
		text, over = table(endpoints, look, 0)
	}
	if over > 0 {
		text, _ = table(endpoints, look, over)
	}
	return text
}

// mostNotes is how many endpoints with the same trouble are named one by one.
const mostNotes = 4

// table makes the text of Table. It cuts the longest names by cut characters; over is by how many columns the rows are
// still too wide, 0 or less if they fit.
func table(endpoints []Endpoint, look Look, cut int) (text string, over int) {
	room, same := leastName, map[string]int{}
	for i := range endpoints {
		room = max(room, utf8.RuneCountInString(endpoints[i].Name)-cut)
		same[endpoints[i].Detail]++
	}
	t := terminal.NewTable(terminal.Bare, "ENDPOINT", "STATE", "NOW", "WAIT", "TOKENS", "SHARE", "HIT",
		"TTFT", "KV", "FAIL")
	t.RightFrom(3)
	var notes strings.Builder
	for i := range endpoints {
		e := &endpoints[i]
		served := Served{}
		if e.Served != nil {
			served = *e.Served
		}
		t.Row(terminal.Clip(e.Name, room), state(e, look.Ink), e.Load.Requests, e.Load.Queued,
			thousands(e.Load.PrefillTokens+e.Load.DecodeTokens), percent(&served.WorkShare), percent(served.HitRate),
			millis(served.TTFTP50), percent(e.Engine.KVUsage), served.Failed)
		name, n := e.Name, same[e.Detail]
		if n > mostNotes && !look.Whole {
			name = strconv.Itoa(n) + " endpoints"
			delete(same, e.Detail)
		}
		if e.Detail != "" && n > 0 {
			if !look.Whole {
				name = terminal.Clip(name, leastName)
			}
			terminal.EntryWithin(&notes, look.columns(), leastName+2, name, e.Detail)
		}
	}
	text = strings.ReplaceAll(t.String()+"\n", " \n", "\n")
	over = utf8.RuneCountInString(strings.SplitN(text, "\n", 2)[0]) - look.columns()
	if notes.Len() > 0 {
		text += "\n" + notes.String()
	}
	return text, over
}

// Legend explains the columns of Table.
func Legend(look Look) string {
	var b strings.Builder
	terminal.EntryWithin(&b, look.columns(), 0, "", legend)
	return b.String()
}

// Screen is the live view: totals, the table and its legend, cut to the lines of the terminal. before is the Fleet of
// the previous look, between ago; nil at the first.
func Screen(f, before *Fleet, between time.Duration, look Look) string {
	head, all, text, foot := totals(f, before, between, look.Ink), Table(f.Endpoints, look), "", ""
	for held := mostHeldLines; held > 0; held-- { // endpoints come before those who are held
		foot = aliasLines(f) + heldLines(f, held, look) + "\n" + Legend(look)
		if text = head + all + foot; look.Lines == 0 || strings.Count(text, "\n") < look.Lines {
			return text
		}
	}
	shown := slices.Clone(f.Endpoints)
	slices.SortStableFunc(shown, func(a, b Endpoint) int { // the busiest are what one looks for
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)),
			cmp.Compare(b.Load.PrefillTokens+b.Load.DecodeTokens, a.Load.PrefillTokens+a.Load.DecodeTokens))
	})
	for rows := min(look.Lines, len(shown)-1); ; rows-- { // the reasons below take lines too
		if rows < leastRows {
			return text
		}
		text = head + Table(shown[:rows], look) +
			fmt.Sprintf("and %d more, less busy; warmpath endpoints lists all\n", len(shown)-rows) + foot
		if strings.Count(text, "\n") < look.Lines {
			return text
		}
	}
}

// totals are the lines above the table.
func totals(f, before *Fleet, between time.Duration, ink terminal.Ink) string {
	s := &f.Stats
	ready := ink.Good("ready")
	if !s.Ready {
		ready = ink.Bad("NOT READY: " + s.Why)
	}
	all := Served{}
	if s.Served != nil {
		all = *s.Served
	}
	rate := dash
	if before != nil && before.Stats.Served != nil && between > 0 && all.Requests >= before.Stats.Served.Requests {
		rate = fmt.Sprintf("%.1f", float64(all.Requests-before.Stats.Served.Requests)/between.Seconds())
	}
	return fmt.Sprintf("%s %s, up %s, %s\n", ink.Strong("warmpath"), s.Version,
		time.Duration(s.UptimeSeconds*float64(time.Second)).Round(time.Second), ready) +
		fmt.Sprintf("%d open, %s requests/s, %d answered, %d failed, conversations: %d\nhit %s, TTFT p50 %s p90 %s\n\n",
			s.Leases, rate, all.Requests, all.Failed, s.Sessions, percent(all.HitRate), millis(all.TTFTP50),
			millis(all.TTFTP90))
}

// mostAliasLines is how many models of aliases the live view shows.
const mostAliasLines = 8

// aliasLines are the models of aliases beside each other; "" without aliases of several models.
func aliasLines(f *Fleet) string {
	t, n := terminal.NewTable(terminal.Bare, "ALIAS", "MODEL", "GETS", "SERVED", "FAIL", "HIT", "TTFT", "PASSED"), 0
	t.RightFrom(3)
	for _, a := range f.Stats.Aliases {
		for i := range a.Models {
			m := &a.Models[i]
			served := Served{}
			if m.Served != nil {
				served = *m.Served
			}
			if n++; n <= mostAliasLines {
				t.Row(terminal.Clip(a.Alias, leastName), terminal.Clip(m.Model, leastName), percent(m.Share),
					served.Requests, served.Failed, percent(served.HitRate), millis(served.TTFTP50), m.Passed)
			}
		}
	}
	if n == 0 {
		return ""
	}
	text := "\n" + strings.ReplaceAll(t.String()+"\n", " \n", "\n")
	if n > mostAliasLines {
		text += fmt.Sprintf("and %d more; the page shows all\n", n-mostAliasLines)
	}
	return text
}

// mostHeldLines is how many held turns the live view names.
const mostHeldLines = 5

// heldLines lists the first held turns, most of them at most: whose each is, where, and until when it may be held. It
// is "" if none is.
func heldLines(f *Fleet, most int, look Look) string {
	if len(f.Held) == 0 {
		return ""
	}
	set, room := int64(0), int64(0)
	for i := range f.Endpoints {
		set, room = set+f.Endpoints[i].WorkingSet, room+f.Endpoints[i].WorkingRoom
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d held until the caches have room", max(f.Stats.Held, len(f.Held)))
	if room > 0 {
		fmt.Fprintf(&b, "; the others need %.0f%% of them", 100*float64(set)/float64(room))
	}
	b.WriteString("\n")
	for i := range f.Held[:min(len(f.Held), most)] {
		terminal.EntryWithin(&b, look.columns(), 2, "", f.Held[i].String())
	}
	return b.String()
}

// String says who is held, where and until when at most, in one line.
func (h Held) String() string {
	who := cmp.Or(h.Conversation, h.Request)
	if h.Tenant != "" {
		who += " of " + h.Tenant
	}
	where := cmp.Or(h.Pool, "any model")
	if h.Home != "" {
		where += ", last at " + h.Home
	}
	if h.Priority != "" && h.Priority != "normal" {
		where += ", " + h.Priority + " priority"
	}
	return fmt.Sprintf("%s (%s, %s tokens): held %s, goes in %s at most",
		terminal.Clip(who, 2*leastName), where, thousands(h.Tokens), brief(h.Seconds), brief(h.Left))
}

// brief writes seconds as people read them.
func brief(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// rank puts what needs attention first.
func rank(e *Endpoint) int {
	if e.State != "up" {
		return 1
	}
	return 0
}

func state(e *Endpoint, ink terminal.Ink) string {
	switch {
	case e.Gone:
		return "gone"
	case e.Sleep == "asleep", e.Sleep == "paused":
		return ink.Middling(e.Sleep)
	case e.Draining:
		return ink.Middling("draining")
	}
	word := e.State
	if e.Role != "" {
		word += " " + e.Role
	}
	switch e.State {
	case "up":
		return ink.Good(word)
	case "down", "ejected":
		return ink.Bad(word)
	}
	return ink.Middling(word)
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
