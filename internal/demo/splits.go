package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/explain"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/trace"
)

// The fleets of the demo of disaggregation: as many engines on both sides, in one with roles and in the other without.
const (
	disaggSide    = "disaggregated"
	aggregateSide = "aggregated"
	prefillers    = 2
	decoders      = 2
)

// splits shows a fleet with prefillers and decoders beside one whose engines do both: what clients wait for, and what
// was split and why, read as any reader could, from the admin listener.
type splits struct {
	o      *Options
	client *http.Client
	counts map[string]int // requests by why they were split or not
	latest []explain.Decision
	parts  map[string]string // who computed the prompt, by request
}

const shownSplits = 5

func (v *splits) fleets() []named {
	roles := append(endpoints("prefill", string(fleet.RolePrefill), prefillers),
		endpoints("decode", string(fleet.RoleDecode), decoders)...)
	return []named{
		{disaggSide, Fleet{Policy: v.o.Policy, Connector: "nixl", Endpoints: roles}},
		{aggregateSide, Fleet{Policy: v.o.Policy, Endpoints: endpoints("engine", "", prefillers+decoders)}},
	}
}

// traffic is conversations of short turns with answers that people read as they come, and now and then a long document
// with a question about it.
func (v *splits) traffic() []trace.Generator {
	chat := trace.Chats()
	chat.PerSecond, chat.System, chat.User, chat.Answer, chat.Turns = v.o.Rate, 300, 60, 120, 3
	document := trace.Chats()
	document.PerSecond, document.System, document.User, document.Answer, document.Turns, document.MaxTurns = v.o.Rate/3,
		0, 7000, 40, 0, 1
	return []trace.Generator{chat, document}
}

// play plays the conversations to all sides at the same times.
func (v *splits) play(ctx context.Context, sides []*side) { playAll(ctx, sides, v.traffic(), v.o) }

func (v *splits) introduce(w io.Writer, sides []*side) {
	s := sides[0]
	fmt.Fprintf(w, `warmpath demo: %d simulated prefillers and %d decoders (vLLM, NIXL), and %d engines
that do both beside them. Conversations of short turns begin %.3g times a second,
prompts of some thousand tokens come %.3g times a second.

Try it:   curl -s %s/v1/chat/completions \
            -H 'Content-Type: application/json' \
            -d '{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'
Why:      warmpath explain --last 4 --admin %s
Metrics:  %s/metrics    Status page: %s/

`, prefillers, decoders, prefillers+decoders, v.o.Rate, v.o.Rate/3, s.router.URL,
		strings.TrimPrefix(s.router.AdminURL, "http://"), s.router.AdminURL, s.router.AdminURL)
}

// look reads the counters and the latest decisions of the router in front of the fleet with roles. What cannot be read
// stays as it was.
func (v *splits) look(admin string) {
	if body, err := v.get(admin + "/metrics"); err == nil {
		v.counts = splitCounts(body)
	}
	body, err := v.get(admin + "/admin/decisions?last=60")
	var a explain.Answer
	if err != nil || json.Unmarshal(body, &a) != nil {
		return
	}
	v.latest, v.parts = v.latest[:0], map[string]string{}
	for _, d := range a.Decisions {
		switch {
		case d.Split == nil:
		case d.Leg == fleet.LegPrefill.String():
			v.parts[d.Request] = d.Endpoint
		case len(v.latest) < shownSplits:
			v.latest = append(v.latest, d)
		}
	}
	slices.Reverse(v.latest)
}

func (v *splits) get(address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // a machine may be that busy
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	res, err := v.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(io.LimitReader(res.Body, 16<<20))
}

// splitCounts finds warmpath_splits_total{why="..."} in an exposition, over all pools.
func splitCounts(exposition []byte) map[string]int {
	counts := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(exposition))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "warmpath_splits_total{")
		labels, value, split := strings.Cut(rest, "} ")
		if !ok || !split {
			continue
		}
		_, why, _ := strings.Cut(labels, `why="`)
		why, _, _ = strings.Cut(why, `"`)
		if n, err := strconv.ParseFloat(value, 64); err == nil && n > 0 {
			counts[why] += int(n)
		}
	}
	return counts
}

// shares is a sentence on how many requests were split, and why.
func (v *splits) shares() string {
	split, whole := 0, 0
	var words []string
	for _, why := range fleet.SplitWhys() {
		n := v.counts[string(why)]
		if n == 0 {
			continue
		}
		if why.Splits() {
			split += n
		} else {
			whole += n
		}
		words = append(words, fmt.Sprintf("%s %d", why, n))
	}
	return fmt.Sprintf("%d split, %d not (%s)", split, whole, strings.Join(words, ", "))
}

// decisionLine is one decision in a line.
func (v *splits) decisionLine(d *explain.Decision) string {
	where := d.Endpoint
	if by := v.parts[d.Request]; by != "" && d.Leg == fleet.LegDecode.String() {
		where = by + " -> " + where
	}
	why := string(d.Split.Why)
	if d.Split.WholeMs > 0 { // the times say why
		why = fmt.Sprintf("%4.0f whole, %4.0f split", d.Split.WholeMs, d.Split.SplitMs)
	}
	return fmt.Sprintf("%s %5d tokens, %5d warm  %-21s %s", d.At.Local().Format("15:04:05"), d.Predicted.PromptTokens,
		d.Predicted.CachedTokens, where, why)
}

func (v *splits) table(sides []*side) string {
	v.look(sides[0].router.AdminURL)
	var b strings.Builder
	b.WriteString(latencies(sides) + "\n" + v.shares() +
		"\nThe latest, with the ms to the first token predicted for one leg and for two:\n")
	for i := range shownSplits {
		if i < len(v.latest) {
			b.WriteString(v.decisionLine(&v.latest[i]))
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (v *splits) line(sides []*side) string {
	v.look(sides[0].router.AdminURL)
	var parts []string
	for _, s := range sides {
		u := s.score.Summary()
		parts = append(parts, fmt.Sprintf("%s: %d requests, %d failed, TTFT p50 %.0f p90 %.0f ms, ITL p99 %.1f ms",
			s.name, u.Requests, u.Failed, u.TTFT.P50, u.TTFT.P90, u.ITL.P99))
	}
	text := strings.Join(parts, "\n      ") + "\n      " + v.shares()
	if n := len(v.latest); n > 0 {
		text += "\n      latest: " + v.decisionLine(&v.latest[n-1])
	}
	return text
}

// figures are those of --json.
func (v *splits) figures(sides []*side) any {
	v.look(sides[0].router.AdminURL)
	return map[string]any{
		disaggSide: sides[0].score.Summary(), aggregateSide: sides[1].score.Summary(), "splits": v.counts,
	}
}

func (v *splits) conclude(w io.Writer, sides []*side) {
	v.look(sides[0].router.AdminURL)
	fmt.Fprintln(w, latencies(sides))
	fmt.Fprintln(w, v.shares())
	a, b := sides[0].score.Summary(), sides[1].score.Summary()
	if a.ITL.P99 > 0 && b.ITL.P99 > 0 {
		fmt.Fprintf(w, "Time between tokens, p99: %.1f ms disaggregated, %.1f ms aggregated.\n"+
			"Time to first token, p90: %.0f ms and %.0f ms.\n", a.ITL.P99, b.ITL.P99, a.TTFT.P90, b.TTFT.P90)
	}
	complain(w, a, b)
}

// latencies is the table of what clients of both sides wait for.
func latencies(sides []*side) string {
	t, _, row := sideBySide(sides)
	row("requests", "%d", func(v play.Summary) any { return v.Requests })
	row("failed", "%d", func(v play.Summary) any { return v.Failed })
	row("TTFT p50", "%.0f ms", func(v play.Summary) any { return v.TTFT.P50 })
	row("TTFT p90", "%.0f ms", func(v play.Summary) any { return v.TTFT.P90 })
	row("ITL p50", "%.1f ms", func(v play.Summary) any { return v.ITL.P50 })
	row("ITL p99", "%.1f ms", func(v play.Summary) any { return v.ITL.P99 })
	row("longest pause in an answer, p90", "%.0f ms", func(v play.Summary) any { return v.Pause.P90 })
	row("token hit rate", "%.1f %%", func(v play.Summary) any { return 100 * v.HitRate })
	return t.String()
}
