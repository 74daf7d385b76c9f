package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/terminal"
)

// flags are what turns a feature on, by kind of engine; docs/kv-events.md has more of the last.
var flags = map[fleet.Kind]struct{ cache, report, events string }{
	fleet.KindVLLM: {
		"--enable-prefix-caching", "--enable-prompt-tokens-details",
		`--kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`,
	},
	fleet.KindSGLang: {
		"no --disable-radix-cache", "--enable-cache-report",
		`--kv-events-config '{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`,
	},
	fleet.KindTRTLLM: {"kv_cache_config: {enable_block_reuse: true}", "", "kv_cache_config: {event_buffer_max_size: 16384}"},
}

// advise writes what to change.
func (r *Report) advise() {
	with := func(flag, text string) { r.Advice = append(r.Advice, Advice{text, flag}) }
	add := func(format string, args ...any) { with("", fmt.Sprintf(format, args...)) }
	f := flags[fleet.Kind(r.Kind)]
	if !r.Healthy {
		add("The router would send it nothing. Check the address and port, that the engine has loaded its model, and TLS and key (--key).")
		return
	}
	if r.Caches == No {
		with(f.cache, "Its prefix cache is off or too small, so each turn is computed from the start.")
	}
	if r.Caches == Yes && r.ReportsCached == No {
		with(f.report, "It does not report cached tokens. The router then only estimates what is cached.")
	}
	if len(r.KVEvents) == 0 && f.events != "" {
		with(f.events, "Optional: with KV events the router knows exactly what is cached.")
	}
	for _, e := range r.KVEvents {
		if e.Reachable == No {
			add("It publishes KV events at %s, which cannot be reached from here: open the port, or set kv_events: off.", e.Address)
		}
	}
	if r.NoticesLeave == No {
		add("It goes on computing when a client leaves. Abandoned requests then cost GPU time: update the engine, or set max_tokens.")
	}
	if r.ClockOff != 0 {
		add("Its clock is off by %s: run NTP on both machines.", r.ClockOff.Round(time.Second))
	}
	if r.InOrder == No && r.Prefill > 0 {
		add("It computes several prompts at once. The router finds that out and keeps no queue for it; queue.ahead: 0s turns the queue off for all.")
	}
}

const labelColumns = 20

// Show writes a report for people, in 80 columns.
func (r *Report) Show(w io.Writer) {
	line := func(label, format string, args ...any) {
		terminal.Entry(w, labelColumns, "  "+label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w, r.URL)
	if !r.Healthy {
		line("state", "not healthy: %s", r.Detail)
		r.showAdvice(w, line)
		return
	}
	line("engine", "%s %s", r.Kind, r.Version)
	line("models", "%s", strings.Join(r.Models, ", "))
	if r.CacheTokens > 0 {
		line("KV cache", "%d tokens in blocks of %d", r.CacheTokens, r.BlockTokens)
	}
	if r.Slots > 0 {
		line("slots", "%d", r.Slots)
	}
	if r.Ranks > 1 {
		line("ranks", "%d; ranks: %d makes each an endpoint of its own", r.Ranks, r.Ranks)
	}
	line("prefix cache", "%s; cached tokens reported: %s", works(r.Caches), r.ReportsCached)
	for _, e := range r.KVEvents {
		line("KV events", "%s, reachable: %s", e.Address, e.Reachable)
	}
	if r.ColdMs > 0 {
		line("speed", "%.0f tokens/s prefill, %.0f tokens/s decode", r.Prefill, r.Decode)
		line("first token", "%.0f ms for %d tokens, %.0f ms when they are cached", r.ColdMs, r.PromptTokens, r.WarmMs)
		line("prompts", "%s", map[Answer]string{Yes: "computed one after another", No: "several computed at once", Unknown: "order unknown"}[r.InOrder])
		line("client leaves", "%s", map[Answer]string{Yes: "it stops", No: "it goes on computing", Unknown: "unknown"}[r.NoticesLeave])
	}
	if r.Caches == Yes && r.ColdMs > r.WarmMs {
		line("gain", "a turn with this history waits %.0f ms less where its cache is", r.ColdMs-r.WarmMs)
	}
	if r.Detail != "" {
		line("note", "%s", r.Detail)
	}
	r.showAdvice(w, line)
}

func (r *Report) showAdvice(w io.Writer, line func(label, format string, args ...any)) {
	for _, a := range r.Advice {
		if a.Flag == "" {
			line("to do", "%s", a.Text)
			continue
		}
		line("to do", "%s Start it with:", a.Text)
		fmt.Fprintf(w, "    %s\n", a.Flag) // whole, to be copied
	}
}

func works(a Answer) string {
	return map[Answer]string{Yes: "works", No: "does not work", Unknown: "unknown"}[a]
}
