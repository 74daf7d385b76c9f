package main

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
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/explain"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/trace"
)

// The fleets of demo --disagg: as many engines on both sides, in one with roles and in the other without.
const (
	disaggSide    = "disaggregated"
	aggregateSide = "aggregated"
	prefillers    = 2
	decoders      = 2
)

// runDisaggDemo plays short conversations and long prompts to two prefillers and two decoders, and to four engines that do both.
func runDisaggDemo(ctx context.Context, e env, o demoOptions) error {
	talk := e.stdout
	if o.json {
		talk = e.stderr
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
	defer client.CloseIdleConnections()
	var sides []*side
	defer func() {
		for _, s := range sides {
			s.close()
		}
	}()
	for _, name := range []string{disaggSide, aggregateSide} {
		s, err := newSide(ctx, e, name, o, demoRoles(name == disaggSide), client)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	introduceDisagg(talk, sides, o)
	playing, cancel := ctx, context.CancelFunc(func() {})
	if o.duration > 0 {
		playing, cancel = context.WithTimeout(ctx, o.duration)
	}
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		playAll(playing, sides, mixedTraffic(o), o)
	}()
	seen := &splitView{side: sides[0], client: client}
	watch(talk, screen{terminal: e.terminal && !o.json && roomForTable(), table: seen.table, line: seen.line}, sides, done)
	seen.look()
	if o.json {
		return json.NewEncoder(e.stdout).Encode(map[string]any{
			disaggSide: sides[0].score.Summary(), aggregateSide: sides[1].score.Summary(), "splits": seen.splits,
		})
	}
	seen.conclude(e.stdout, sides)
	return nil
}

// demoRoles are the engines of a side.
func demoRoles(apart bool) []discovery.EndpointConfig {
	var out []discovery.EndpointConfig
	add := func(name, role string, n int) {
		for i := range n {
			out = append(out, discovery.EndpointConfig{Name: fmt.Sprintf("%s-%d", name, i+1), Role: role})
		}
	}
	if !apart {
		add("engine", "", prefillers+decoders)
		return out
	}
	add("prefill", string(fleet.RolePrefill), prefillers)
	add("decode", string(fleet.RoleDecode), decoders)
	return out
}

// mixedTraffic is conversations of short turns with answers that people read as they come, and now and then a long document with a
// question about it.
func mixedTraffic(o demoOptions) []trace.Generator {
	chat := trace.Chats()
	chat.PerSecond, chat.System, chat.User, chat.Answer, chat.Turns = o.rate, 300, 60, 120, 3
	document := trace.Chats()
	document.PerSecond, document.System, document.User, document.Answer, document.Turns, document.MaxTurns = o.rate/3, 0, 7000, 40, 0, 1
	return []trace.Generator{chat, document}
}

func introduceDisagg(w io.Writer, sides []*side, o demoOptions) {
	s := sides[0]
	fmt.Fprintf(w, `warmpath demo: %d simulated prefillers and %d decoders (vLLM, NIXL), and %d engines that do both beside them.
Conversations of short turns begin %.3g times a second, prompts of some thousand tokens come %.3g times a second.

Try it:   curl -s %s/v1/chat/completions -H 'Content-Type: application/json' \
            -d '{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'
Why:      warmpath explain --last 4 --admin %s
Metrics:  %s/metrics    Status page: %s/

`, prefillers, decoders, prefillers+decoders, o.rate, o.rate/3, s.router.url, strings.TrimPrefix(s.router.adminURL, "http://"), s.router.adminURL, s.router.adminURL)
}

// splitView is what was split and why, read as any reader could: from the admin listener.
type splitView struct {
	side   *side
	client *http.Client
	splits map[string]int // requests by why they were split or not
	latest []explain.Decision
	parts  map[string]string // who computed the prompt, by request
}

const shownSplits = 5

// look reads the counters and the latest decisions. What cannot be read stays as it was.
func (v *splitView) look() {
	if body, err := v.get("/metrics"); err == nil {
		v.splits = splitCounts(body)
	}
	body, err := v.get("/admin/decisions?last=60")
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

func (v *splitView) get(path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.side.router.adminURL+path, nil)
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

// shares says in words how many were split, and why.
func (v *splitView) shares() string {
	split, whole := 0, 0
	var words []string
	for _, why := range route.SplitWhys() {
		n := v.splits[string(why)]
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

// told is one decision in a line.
func (v *splitView) told(d *explain.Decision) string {
	where := d.Endpoint
	if by := v.parts[d.Request]; by != "" && d.Leg == fleet.LegDecode.String() {
		where = by + " -> " + where
	}
	costs := ""
	if d.Split.WholeMs > 0 {
		costs = fmt.Sprintf(" %7.0f ms whole, %5.0f ms split", d.Split.WholeMs, d.Split.SplitMs)
	}
	return fmt.Sprintf("%s %6d tokens, %6d cached  %-22s  %-12s%s", d.At.Local().Format("15:04:05"), d.Predicted.PromptTokens, d.Predicted.CachedTokens, where, d.Split.Why, costs)
}

func (v *splitView) table(sides []*side) string {
	v.look()
	var b strings.Builder
	b.WriteString(latencies(sides) + "\n" + v.shares() + "\n")
	for i := range shownSplits {
		if i < len(v.latest) {
			b.WriteString(v.told(&v.latest[i]))
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (v *splitView) line(sides []*side) string {
	v.look()
	var parts []string
	for _, s := range sides {
		u := s.score.Summary()
		parts = append(parts, fmt.Sprintf("%s: %d requests, %d failed, TTFT p50 %.0f p90 %.0f ms, ITL p99 %.1f ms", s.name, u.Requests, u.Failed, u.TTFT.P50, u.TTFT.P90, u.ITL.P99))
	}
	text := strings.Join(parts, "  |  ") + "\n      " + v.shares()
	if n := len(v.latest); n > 0 {
		text += "\n      latest: " + v.told(&v.latest[n-1])
	}
	return text
}

func (v *splitView) conclude(w io.Writer, sides []*side) {
	fmt.Fprintln(w, latencies(sides))
	fmt.Fprintln(w, v.shares())
	a, b := sides[0].score.Summary(), sides[1].score.Summary()
	if a.ITL.P99 > 0 && b.ITL.P99 > 0 {
		fmt.Fprintf(w, "Time between tokens, p99: %.1f ms disaggregated, %.1f ms aggregated. Time to first token, p90: %.0f ms and %.0f ms.\n", a.ITL.P99, b.ITL.P99, a.TTFT.P90, b.TTFT.P90)
	}
	complain(w, a, b)
}

// disaggConfig is how the demo's router is configured.
func disaggConfig(cfg *config.Config, endpoints []discovery.EndpointConfig) {
	for _, e := range endpoints {
		if e.Role != "" {
			cfg.Disaggregation.Connector = "nixl"
		}
	}
}

// complain prints what failed last on each side.
func complain(w io.Writer, sums ...play.Summary) {
	for _, s := range sums {
		if s.LastError != "" {
			fmt.Fprintf(w, "last failure: %s\n", s.LastError)
		}
	}
}
